#!/usr/bin/env python3
"""What each number format of the KV cache costs in quality: perplexity against float32, on one build and one text.

    bench/quality/kv_formats.py [MODEL] [--text FILE] [--quire build/release/quire] [-- flags for quire generate]

The text is cut into windows of --window tokens. For every format `quire generate --json` gives the log-probability of each token
of each window, which attention computes out of a cache in that format. Printed are, for each format: bytes of a token, perplexity
and its difference from float32, the mean and the largest difference of a token's log-probability, and how often the likeliest
token is another one. Without MODEL: models/quire-tiny, and stories260K where it is at hand; of quire-tiny's validation text, whose
documents end with <|endoftext|>, stories260K gets those that are no dialogue. Needs only the standard library.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FORMATS = ["float32", "bfloat16", "float16", "fp8_e4m3", "fp8_e5m2", "int8"]


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}")
    return done.stdout


def without_dialogues(text):
    """The documents that are plain text."""
    return "\n\n".join(d.strip() for d in text.split("<|endoftext|>") if "<|im_start|>" not in d)


def windows_of(quire, model, text, size):
    """The text's tokens in runs of `size`; each begins with the token that the tokenizer puts before a text."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(text)
        file.flush()
        ids = json.loads(run([quire, "tokenize", model, "--file", file.name, "--json"]))["ids"]
    first, rest = ids[0], ids[1:]
    return [[first, *rest[i:i + size - 1]] for i in range(0, len(rest), size - 1)]


def score(quire, model, prompts_file, kv_format, flags):
    """[(log-probability, likeliest token)] of every token behind a window's first."""
    lines = run([quire, "generate", model, "--prompts-file", prompts_file, "--kv-cache-dtype", kv_format, "--json",
                 "--prompt-logprobs", "1", "--max-tokens", "1", "--temperature", "0", "--no-enable-prefix-caching",
                 "--log-level", "warning", *flags])
    tokens = []
    for line in lines.splitlines():
        for position in json.loads(line)["prompt_logprobs"]:
            # The token itself comes first, the likeliest one follows where it is another.
            tokens.append((position[0]["logprob"], position[-1]["token"]))
    return tokens


def perplexity(tokens):
    return math.exp(-sum(logprob for logprob, _ in tokens) / len(tokens))


def compare(quire, model, text, size, flags):
    longest = json.loads(run([quire, "inspect", model, "--json"]))
    size = min(size, longest["max_model_len"] - 1)
    windows = windows_of(quire, model, text, size)
    print(f"\n{longest['name']}: {longest['num_layers']} layers, {longest['num_kv_heads']} key-value heads of "
          f"{longest['head_dim']}; {sum(len(w) - 1 for w in windows)} tokens in windows of {size}")
    print(f"{'format':<10}{'bytes/token':>12}{'perplexity':>12}{'difference':>12}{'in %':>10}"
          f"{'mean |dlogp|':>14}{'max |dlogp|':>13}{'other top %':>13}")
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as prompts:
        for window in windows:
            prompts.write(json.dumps({"prompt_token_ids": window}) + "\n")
        prompts.flush()
        reference = None
        for kv_format in FORMATS:
            report = json.loads(run([quire, "inspect", model, "--json", "--kv-cache-dtype", kv_format]))
            tokens = score(quire, model, prompts.name, kv_format, flags)
            reference = reference or tokens
            base, here = perplexity(reference), perplexity(tokens)
            deltas = [abs(a[0] - b[0]) for a, b in zip(reference, tokens, strict=True)]
            others = sum(a[1] != b[1] for a, b in zip(reference, tokens, strict=True))
            print(f"{kv_format:<10}{report['kv_bytes_per_token']:>12}{here:>12.5f}{here - base:>+12.5f}"
                  f"{100 * (here / base - 1):>+10.4f}{sum(deltas) / len(deltas):>14.6f}{max(deltas):>13.4f}"
                  f"{100 * others / len(tokens):>13.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="model directory")
    parser.add_argument("--quire", default=str(ROOT / "build/release/quire"))
    parser.add_argument("--text", default=str(ROOT / "models/quire-tiny/validation.txt"))
    parser.add_argument("--window", type=int, default=1023, help="tokens; at most the model's context less one")
    parser.add_argument("flags", nargs="*", help="behind --: given to quire generate as they are")
    options = parser.parse_args()
    text = pathlib.Path(options.text).read_text()
    runs = [(pathlib.Path(options.model), text)] if options.model else [(ROOT / "models/quire-tiny", text)]
    if options.model is None:
        shared = pathlib.Path(os.environ.get("QUIRE_SHARED", ROOT.parent / "shared"))
        runs.append((shared / "data/models/stories260K", without_dialogues(text)))
    for model, model_text in runs:
        if model.is_dir():
            compare(options.quire, str(model), model_text, options.window, options.flags)
        else:
            print(f"{model}: not there, left out", file=sys.stderr)


if __name__ == "__main__":
    main()
