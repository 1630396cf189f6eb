"""`quire merge` as people call it: the merged checkpoint gives the answers of the base with the adapter."""

import array
import json
import math
import subprocess

from golden_checkpoints import golden_checkpoint
from server_process import BINARY, ROOT

BASE = str(golden_checkpoint("models/qwen3"))
ADAPTER = str(golden_checkpoint("lora/qwen3-attention"))


def quire(*arguments):
    return subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True)


def answers(model, cases, *flags, tmp_path):
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(json.dumps({"prompt_token_ids": case["prompt"], "max_tokens": len(case["greedy"])}) + "\n" for case in cases))
    done = quire("generate", model, "--temperature", 0, "--ignore-eos", "--json", "--prompts-file", file, *flags)
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["outputs"][0]["token_ids"] for line in done.stdout.splitlines()]


def test_a_merged_checkpoint_answers_as_the_adapter(tmp_path):
    out = tmp_path / "merged"
    done = quire("merge", BASE, ADAPTER, "-o", out)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{out}: 8 modules merged, 8 tensors changed, ")
    cases = json.loads((golden_checkpoint("lora/qwen3-attention") / "golden.json").read_text())["cases"]
    expected = [case["greedy"] for case in cases]
    assert answers(out, cases, tmp_path=tmp_path) == expected
    assert answers(BASE, cases, "--lora", ADAPTER, tmp_path=tmp_path) == expected
    assert answers(BASE, cases, tmp_path=tmp_path) != expected


def write_safetensors(path, tensors):
    """A file of float32 tensors that have one value each: {name: (shape, value)}."""
    header, data = {}, b""
    for name, (shape, value) in tensors.items():
        values = array.array("f", [value]) * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * len(values)]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def test_files_next_to_the_weights_are_copied(tmp_path):
    """An adapter of the embedded model's shape, so that the result has a tokenizer and a template."""
    model = ROOT / "models" / "quire-tiny"
    hidden = json.loads((model / "config.json").read_text())["hidden_size"]
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["o_proj"]}))
    module = "base_model.model.model.layers.0.self_attn.o_proj"
    inputs = json.loads(quire("inspect", model, "--json", "--tensors").stdout)["tensors"]
    width = next(json.loads(t["shape"])[1] for t in inputs if t["name"] == "model.layers.0.self_attn.o_proj.weight")
    write_safetensors(adapter / "adapter_model.safetensors", {f"{module}.lora_A.weight": ([1, width], 1.0),
                                                              f"{module}.lora_B.weight": ([hidden, 1], 1e-3)})
    out = tmp_path / "merged"
    done = quire("merge", model, adapter, "-o", out)
    assert done.returncode == 0, done.stderr
    copied = {f.name for f in out.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= copied
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        assert (out / name).read_bytes() == (model / name).read_bytes()
    assert quire("generate", out, "Once upon a time", "--max-tokens", 4).returncode == 0


def test_what_cannot_be_merged_says_why(tmp_path):
    out = tmp_path / "merged"
    for arguments, reason in [
        ([BASE, golden_checkpoint("lora/gpt2-transposed")], "c_attn"),
        ([BASE, tmp_path / "missing"], "missing"),
        ([golden_checkpoint("quantized/gptq-4bit"), golden_checkpoint("lora/llama-one-layer")], ""),
        ([tmp_path / "no-model", ADAPTER], "no-model"),
    ]:
        done = quire("merge", *arguments, "-o", out)
        assert done.returncode != 0 and reason in done.stderr and not out.exists(), done.stderr
    gguf = tmp_path / "gguf"
    assert quire("quantize", ROOT / "models" / "quire-tiny", "-o", gguf, "--format", "gguf-f16").returncode == 0
    done = quire("merge", gguf, ADAPTER, "-o", out)
    assert done.returncode != 0 and not out.exists()
    out.mkdir()
    (out / "file").write_text("mine")
    done = quire("merge", BASE, ADAPTER, "-o", out)
    assert done.returncode != 0 and "already exists" in done.stderr and (out / "file").read_text() == "mine"
    done = quire("merge", BASE, "-o", out)
    assert done.returncode != 0 and "ADAPTER" in done.stderr
