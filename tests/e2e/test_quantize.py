"""`quire quantize` as people call it, on the embedded model."""

import json
import pathlib
import subprocess

import pytest
from server_process import BINARY, ROOT

MODEL = ROOT / "models" / "quire-tiny"


def quire(*arguments, stdin=None):
    return subprocess.run([str(BINARY), *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    file = tmp_path_factory.mktemp("text") / "text.txt"
    file.write_text((MODEL / "validation.txt").read_text()[:6000])
    return file


@pytest.mark.parametrize("name", ["gptq", "awq", "w4a16", "w8a16", "w8a8", "fp8", "fp8-block", "bnb-nf4", "bnb-fp4"])
def test_what_is_written_is_loaded_and_says_nearly_the_same(tmp_path, text, name):
    out = tmp_path / "out"
    run = quire("quantize", "-o", out, "--format", name, "--eval-text", text)
    assert run.returncode == 0, run.stderr
    assert "2.90 M weights" in run.stderr
    head, before, after = run.stdout.splitlines()
    assert head.split() == ["model", "tensors", "perplexity", "difference"]
    assert before.startswith("quire-tiny") and after.startswith(str(out))
    assert float(after.split()[-2]) < 3.0, "perplexity has grown by so many percent"
    measured = json.loads(quire("perplexity", out, "--text", text, "--json").stdout)
    assert f"{measured['perplexity']:.5f}" in after
    said = quire("generate", out, "--prompt", "Once upon a time", "--max-tokens", 16, "--temperature", 0)
    assert said.returncode == 0 and len(said.stdout.split()) > 5, said.stderr
    report = json.loads(quire("inspect", out, "--json").stdout)
    quantized = [t for t in report["tensors"] if t["name"].endswith("_proj.weight")]
    # Groups are shorter where bitsandbytes' blocks of 64 run over the ends of rows.
    kinds = {t["dtype"].split(", groups of")[0] for t in quantized}
    assert len(quantized) == 28 and len(kinds) == 1 and kinds != {"bfloat16"}
    assert report["weight_bytes"] == sum(t["bytes"] for t in report["tensors"]) < 5.5e6
    of_codes = [f for f in report["formats"] if f["name"].split(", groups of")[0] in kinds]
    assert sum(f["tensors"] for f in of_codes) == 28
    told = quire("inspect", out).stdout
    for f in of_codes:
        assert 2 < f["bits_per_weight"] < 9
        assert f"{f['tensors']} of {f['name']}, {f['bits_per_weight']:.2f} bits per weight" in told


@pytest.mark.parametrize("name", ["gguf-f16", "gguf-q8_0", "gguf-q4_0", "gguf-q4_k", "gguf-q6_k", "gguf-iq4_xs"])
def test_a_gguf_file_carries_the_tokenizer_too(tmp_path, text, name):
    out = tmp_path / "out"
    run = quire("quantize", "-o", out, "--format", name, "--eval-text", text)
    assert run.returncode == 0, run.stderr
    file = out / f"quire-tiny-{name[5:].upper()}.gguf"
    assert json.loads(quire("inspect", file, "--json").stdout)["kv_cache_dtype"] == "float16"
    assert [f.name for f in out.iterdir()] == [file.name]
    assert float(run.stdout.splitlines()[-1].split()[-2]) < 1.0
    ids = [json.loads(quire("tokenize", *model, "--file", text, "--json").stdout)["ids"] for model in ([], [file])]
    assert ids[0] == ids[1]
    said = quire("generate", file, "--prompt", "Once upon a time", "--max-tokens", 16, "--temperature", 0)
    assert said.returncode == 0 and len(said.stdout.split()) > 5, said.stderr


def percent_lost(out, text, *flags):
    run = quire("quantize", "-o", out, "--format", "gptq", "--bits", 3, "--eval-text", text, *flags)
    assert run.returncode == 0, run.stderr
    return float(run.stdout.splitlines()[-1].split()[-2])


def test_calibration_text_makes_codes_better(tmp_path, text):
    calibration = tmp_path / "calibration.txt"
    calibration.write_text((MODEL / "validation.txt").read_text()[6000:26000])
    nearest = percent_lost(tmp_path / "rtn", text)
    assert percent_lost(tmp_path / "gptq", text, "--method", "gptq", "--text", calibration) < 0.5 * nearest
    assert percent_lost(tmp_path / "awq", text, "--method", "awq", "--text", calibration) < nearest
    smooth = quire("quantize", "-o", tmp_path / "smooth", "--format", "w8a8", "--method", "smoothquant", "--text", calibration,
                   "--eval-text", text)
    assert smooth.returncode == 0 and abs(float(smooth.stdout.splitlines()[-1].split()[-2])) < 0.5, smooth.stderr


def test_a_directory_is_taken_too_and_its_files_are_copied(tmp_path):
    out = tmp_path / "deep" / "out"
    assert quire("quantize", MODEL, "-o", out, "--format", "w8a8").returncode == 0
    for name in ["tokenizer.json", "tokenizer_config.json", "generation_config.json"]:
        assert (out / name).read_bytes() == (MODEL / name).read_bytes()
    assert not (out / "README.md").exists()
    assert json.loads((out / "config.json").read_text())["quantization_config"]["quant_method"] == "compressed-tensors"


def test_what_cannot_be_done_is_said_and_leaves_nothing(tmp_path):
    out = tmp_path / "out"

    def refused(*arguments, code=1):
        run = quire("quantize", *arguments)
        assert run.returncode == code, run.stderr
        assert not out.exists() and not pathlib.Path(f"{out}.partial").exists()
        return run.stderr

    assert "'int5' is not known; use gptq, awq" in refused("-o", out, "--format", "int5")
    assert "'gguf-q9' is not known" in refused("-o", out, "--format", "gguf-q9")
    assert "--bits, --group-size and --asymmetric cannot be combined with --format gguf-q8_0" in refused("-o", out, "--format", "gguf-q8_0", "--bits", 4)
    assert "needs a calibration text" in refused("-o", out, "--format", "gguf-q4_0", "--method", "gptq")
    assert "does not support 5 bits" in refused("-o", out, "--format", "gptq", "--bits", 5)
    assert "--format is required" in refused("-o", out, code=2)
    assert "no such directory" in refused(tmp_path / "none", "-o", out, "--format", "awq")
    assert "needs a calibration text" in refused("-o", out, "--format", "awq", "--method", "gptq")
    text = tmp_path / "short.txt"
    text.write_text("A cat.")
    assert "supports rtn, imatrix or gptq" in refused("-o", out, "--format", "gguf-q4_0", "--method", "awq", "--text", text)
    assert "imatrix is supported for GGUF only" in refused("-o", out, "--format", "gptq", "--method", "imatrix", "--text", text)
    assert "stores floats" in refused("-o", out, "--format", "fp8", "--method", "gptq", "--text", text)
    text.write_text("")
    assert "the calibration text is empty" in refused("-o", out, "--format", "gptq", "--method", "gptq", "--text", text)
    assert "none.txt" in refused("-o", out, "--format", "awq", "--eval-text", tmp_path / "none.txt")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    assert "already exists" in refused("-o", tmp_path / "full", "--format", "awq")
    assert "cannot create" in refused("-o", "/proc/none/out", "--format", "awq")
    quantized = tmp_path / "quantized"
    assert quire("quantize", "-o", quantized, "--format", "fp8").returncode == 0
    assert "is already quantized" in refused(quantized, "-o", out, "--format", "awq")
