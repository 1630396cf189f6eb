"""Settings of a model's files that quire does not follow are named on stderr, once per file."""

import json
import shutil
import subprocess

import pytest
from server_process import BINARY, ROOT

MODEL = ROOT / "models" / "quire-tiny"


def quire(*arguments):
    run = subprocess.run([str(BINARY), *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    return run


def generate(model):
    """The text, and the warnings."""
    run = quire("generate", model, "--prompt", "Once", "--max-tokens", 3, "--temperature", 0)
    return run.stdout, [line for line in run.stderr.splitlines() if line.startswith("WARNING")]


@pytest.fixture
def model(tmp_path):
    return shutil.copytree(MODEL, tmp_path / "model")


def change(model, name, **fields):
    file = model / name
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))


def test_no_warnings_for_a_model_whose_settings_are_known(model):
    assert generate(model)[1] == []


def test_one_warning_for_each_file_names_all_unknown_fields(model):
    text = generate(model)[0]
    change(model, "config.json", attention_sinks=4, zebra=True, transformers_version="9.9")
    change(model, "generation_config.json", no_repeat_ngram_size=3, suppress_tokens=[5])
    change(model, "tokenizer_config.json", shout=True, padding_side="left")
    said, warnings = generate(model)
    assert said == text
    assert len(warnings) == 3
    assert "config.json: 'attention_sinks' and 'zebra' are" in warnings[0]
    assert "generation_config.json: 'no_repeat_ngram_size' and 'suppress_tokens' are" in warnings[1]
    assert "tokenizer_config.json: 'shout' is" in warnings[2]


def test_defaults_that_no_request_could_have_are_named_and_not_used(model):
    change(model, "generation_config.json", top_k=10**12, top_p=0.0)
    _, warnings = generate(model)
    assert len(warnings) == 2
    assert all("this default is not used" in warning for warning in warnings)


@pytest.mark.parametrize("name", ["gptq", "awq", "w8a8", "bnb-nf4", "gguf-q8_0"])
def test_no_warnings_for_what_quantize_writes(tmp_path, name):
    quire("quantize", "-o", tmp_path / "out", "--format", name)
    assert generate(tmp_path / "out")[1] == []


def test_metadata_of_a_gguf_file_that_nothing_reads_is_named(tmp_path):
    quire("quantize", "-o", tmp_path / "out", "--format", "gguf-q8_0")
    file = next((tmp_path / "out").glob("*.gguf"))
    data, key, other = file.read_bytes(), b"llama.rope.freq_base", b"llama.rope.flat_base"
    assert data.count(key) == 1
    file.write_bytes(data.replace(key, other))
    _, warnings = generate(file)
    assert len(warnings) == 1 and f"{file}: 'llama.rope.flat_base' is unknown" in warnings[0]
