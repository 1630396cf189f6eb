"""`quire perplexity` as people call it."""

import json
import math
import subprocess

import pytest
from server_process import BINARY

TEXT = "Once upon a time there was a cat. The cat liked to sleep in the sun. One day it met a dog.\n" * 20


def quire(*arguments, stdin=None):
    return subprocess.run([str(BINARY), *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=120)


@pytest.fixture
def text(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text(TEXT)
    return file


def test_it_is_the_mean_of_what_generate_says_of_each_token(text):
    run = quire("perplexity", "--text", text, "--window", 64, "--json")
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    ids = json.loads(quire("tokenize", "--file", text, "--json").stdout)["ids"]
    first, rest = ids[0], ids[1:]
    windows = [[first, *rest[i:i + 63]] for i in range(0, len(rest), 63)]
    lines = "".join(json.dumps({"prompt_token_ids": w, "prompt_logprobs": 0, "max_tokens": 1}) + "\n" for w in windows)
    file = text.with_suffix(".jsonl")
    file.write_text(lines)
    said = quire("generate", "--prompts-file", file, "--json", "--no-enable-prefix-caching")
    assert said.returncode == 0, said.stderr
    logprobs = [p[0]["logprob"] for line in said.stdout.splitlines() for p in json.loads(line)["prompt_logprobs"]]
    assert result["num_tokens"] == len(logprobs) == len(rest)
    assert result["num_windows"] == len(windows)
    assert result["perplexity"] == pytest.approx(math.exp(-sum(logprobs) / len(logprobs)), rel=1e-5)
    assert result["bits_per_byte"] == pytest.approx(-sum(logprobs) / math.log(2) / len(TEXT.encode()), rel=1e-5)


def test_standard_input_is_a_text_too(text):
    piped = quire("perplexity", "--text", "-", "--json", stdin=TEXT)
    assert piped.returncode == 0, piped.stderr
    same = json.loads(quire("perplexity", "--text", text, "--json").stdout)
    assert json.loads(piped.stdout)["perplexity"] == same["perplexity"]


def test_what_cannot_be_read_is_said(tmp_path, text):
    (tmp_path / "empty.txt").write_text("")
    empty = quire("perplexity", "--text", tmp_path / "empty.txt")
    assert empty.returncode == 1 and "fewer than two tokens" in empty.stderr
    assert quire("perplexity", "--text", tmp_path / "none.txt").returncode == 1
    long = quire("perplexity", "--text", text, "--window", 5000)
    assert long.returncode == 1 and "1024" in long.stderr
