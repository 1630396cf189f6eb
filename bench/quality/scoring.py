"""Code shared by the programs in this folder: windows of a text's tokens, their log-probabilities from `quire generate`, and
differences of two such lists. Needs only the standard library."""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADINGS = f"{'perplexity':>12}{'difference':>12}{'in %':>10}{'mean |dlogp|':>14}{'max |dlogp|':>13}{'other top %':>13}"


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}")
    return done.stdout


def inspect(quire, model, *flags):
    return json.loads(run([quire, "inspect", model, "--json", *flags]))


def without_dialogues(text):
    """The documents that are not dialogues."""
    return "\n\n".join(d.strip() for d in text.split("<|endoftext|>") if "<|im_start|>" not in d)


def windows_of(quire, model, text, size):
    """The text's tokens in windows of `size`, each after the token that the tokenizer adds at the start of a text."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(text)
        file.flush()
        ids = json.loads(run([quire, "tokenize", model, "--file", file.name, "--json"]))["ids"]
    first, rest = ids[0], ids[1:]
    return [[first, *rest[i:i + size - 1]] for i in range(0, len(rest), size - 1)]


def score(quire, model, prompts_file, flags):
    """[(log-probability, most probable token)] of every token after the first of a window."""
    lines = run([quire, "generate", model, "--prompts-file", prompts_file, "--json", "--prompt-logprobs", "1", "--max-tokens", "1",
                 "--temperature", "0", "--no-enable-prefix-caching", "--log-level", "warning", *flags])
    tokens = []
    for line in lines.splitlines():
        for position in json.loads(line)["prompt_logprobs"]:
            # The token itself comes first. If it is not the most probable one, that one follows.
            tokens.append((position[0]["logprob"], position[-1]["token"]))
    return tokens


def perplexity(tokens):
    return math.exp(-sum(logprob for logprob, _ in tokens) / len(tokens))


def differences(reference, tokens):
    """The columns of HEADINGS."""
    base, here = perplexity(reference), perplexity(tokens)
    deltas = [abs(a[0] - b[0]) for a, b in zip(reference, tokens, strict=True)]
    others = sum(a[1] != b[1] for a, b in zip(reference, tokens, strict=True))
    return (f"{here:>12.5f}{here - base:>+12.5f}{100 * (here / base - 1):>+10.4f}{sum(deltas) / len(deltas):>14.6f}"
            f"{max(deltas):>13.4f}{100 * others / len(tokens):>13.3f}")


def compare(quire, model, text, size, formats, column):
    """Prints a line per format. formats: [(name, flags of quire generate)], the reference first. column: (heading, function of
    the report of `quire inspect` with these flags)."""
    report = inspect(quire, model)
    size = min(size, report["max_model_len"] - 1)
    windows = windows_of(quire, model, text, size)
    print(f"\n{report['name']}: {report['num_layers']} layers of {report['hidden_size']}, {report['num_kv_heads']} key-value heads of "
          f"{report['head_dim']}; {sum(len(w) - 1 for w in windows)} tokens in windows of {size}")
    print(f"{'format':<10}{column[0]:>14}{HEADINGS}")
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as prompts:
        for window in windows:
            prompts.write(json.dumps({"prompt_token_ids": window}) + "\n")
        prompts.flush()
        reference = None
        for name, flags in formats:
            tokens = score(quire, model, prompts.name, flags)
            reference = reference or tokens
            print(f"{name:<10}{column[1](inspect(quire, model, *flags)):>14}{differences(reference, tokens)}", flush=True)


def run_all(description, formats, column):
    """The command line of these programs."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="model directory")
    parser.add_argument("--quire", default=str(ROOT / "build/release/quire"))
    parser.add_argument("--text", default=str(ROOT / "models/quire-tiny/validation.txt"))
    parser.add_argument("--window", type=int, default=1023, help="tokens; at most the model's context length minus one")
    parser.add_argument("flags", nargs="*", help="after --: further flags of quire")
    options = parser.parse_args()
    text = pathlib.Path(options.text).read_text()
    runs = [(pathlib.Path(options.model), text)] if options.model else [(ROOT / "models/quire-tiny", text)]
    if options.model is None:
        shared = pathlib.Path(os.environ.get("QUIRE_SHARED", ROOT.parent / "shared"))
        runs.append((shared / "data/models/stories260K", without_dialogues(text)))
    for model, model_text in runs:
        if model.is_dir():
            compare(options.quire, str(model), model_text, options.window,
                    [(name, [*flags, *options.flags]) for name, flags in formats], column)
        else:
            print(f"{model}: not found, skipped", file=sys.stderr)
