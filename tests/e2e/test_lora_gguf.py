"""Adapters in GGUF files wherever an adapter of PEFT can be used: they have its outputs and its digest."""

import json
import struct
import subprocess

import pytest
from golden_checkpoints import golden_checkpoint
from server_process import BINARY

ADAPTER = "qwen3-attention"
NAMES = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output"}
STRING, FLOAT32 = 8, 6


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def gguf_file(adapter):
    """The bytes that llama.cpp's converter writes for an adapter of PEFT on the attention of a Qwen3."""
    data = (adapter / "adapter_model.safetensors").read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    alpha = json.loads((adapter / "adapter_config.json").read_text())["lora_alpha"]
    entries = [("general.architecture", "qwen3"), ("general.type", "adapter"), ("adapter.type", "lora")]
    metadata = b"".join(text(key) + struct.pack("<I", STRING) + text(value) for key, value in entries)
    metadata += text("adapter.lora.alpha") + struct.pack("<If", FLOAT32, alpha)
    tensors, values = b"", b""
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        parts = name.split(".")  # base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight
        gguf = f"blk.{parts[4]}.{NAMES[parts[6]]}.weight.{parts[7].lower()}"
        assert entry["dtype"] == "F32"
        tensors += text(gguf) + struct.pack("<IQQIQ", 2, *reversed(entry["shape"]), 0, len(values))
        begin, end = entry["data_offsets"]
        values += data[start + begin:start + end] + b"\0" * (-(end - begin) % 32)
    file = b"GGUF" + struct.pack("<IQQ", 3, len(header) - ("__metadata__" in header), len(entries) + 1) + metadata + tensors
    return file + b"\0" * (-len(file) % 32) + values


@pytest.fixture(scope="module")
def peft():
    return golden_checkpoint(f"lora/{ADAPTER}")


@pytest.fixture(scope="module")
def base():
    return golden_checkpoint("models/qwen3")


@pytest.fixture(scope="module")
def case(peft):
    return json.loads((peft / "golden.json").read_text())["cases"][-1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, peft):
    folder = tmp_path_factory.mktemp("adapters")
    (folder / "own.gguf").write_bytes(gguf_file(peft))
    return folder


def quire(*words):
    run = subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


def generate(model, case, tmp_path, *flags):
    file = tmp_path / "prompts.jsonl"
    file.write_text(json.dumps({"prompt_token_ids": case["prompt"], "max_tokens": len(case["greedy"])}) + "\n")
    out = quire("generate", model, "--temperature", 0, "--ignore-eos", "--json", "--prompts-file", file, *flags)
    return json.loads(out)["outputs"][0]["token_ids"]


def tokens(server, model, case):
    answer = server.post("/v1/completions", json={
        "model": model, "prompt": case["prompt"], "max_tokens": len(case["greedy"]), "temperature": 0, "ignore_eos": True, "return_token_ids": True})
    return answer.json()["choices"][0]["token_ids"] if answer.status_code == 200 else answer.status_code


def test_the_server_reads_files_by_their_paths_and_from_its_directories(start_server, base, case, folder, tmp_path):
    server = start_server(str(base), "--served-model-name", "base", "--lora-modules", f"named={folder}/own.gguf", "--lora-dir", str(folder),
                          "--allow-runtime-lora-updating")
    assert tokens(server, "named", case) == case["greedy"]
    assert tokens(server, "own", case) == case["greedy"]
    assert tokens(server, "base", case) != case["greedy"]
    loaded = server.post("/v1/load_lora_adapter", json={"lora_name": "loaded", "lora_path": str(folder / "own.gguf")})
    assert loaded.status_code == 200, loaded.text
    assert tokens(server, "loaded", case) == case["greedy"]
    missing = server.post("/v1/load_lora_adapter", json={"lora_name": "other", "lora_path": str(folder / "none.gguf")})
    assert missing.status_code == 404
    (tmp_path / "outside.gguf").write_bytes((folder / "own.gguf").read_bytes())
    (folder / "link.gguf").symlink_to(tmp_path / "outside.gguf")
    assert tokens(server, "link", case) == 404
    assert server.post("/v1/load_lora_adapter", json={"lora_name": "other", "lora_path": str(folder / "link.gguf")}).status_code == 403
    (folder / "link.gguf").unlink()


def test_generate_applies_a_file(base, case, folder, tmp_path):
    assert generate(base, case, tmp_path, "--lora", folder / "own.gguf") == case["greedy"]
    assert generate(base, case, tmp_path, "--lora", "own", "--lora-dir", folder) == case["greedy"]


def test_inspect_shows_the_digest_of_the_same_adapter_of_peft(base, folder, peft):
    report = json.loads(quire("inspect", folder / "own.gguf", "--model", base, "--json"))
    assert report["digest"] == json.loads(quire("inspect", peft, "--model", base, "--json"))["digest"]
    assert "model.layers.{}.self_attn.q_proj: rank 4, scale 2" in quire("inspect", folder)


def test_merge_writes_the_checkpoint_with_the_adapter(base, case, folder, tmp_path):
    quire("merge", base, folder / "own.gguf", "-o", tmp_path / "merged")
    assert generate(tmp_path / "merged", case, tmp_path) == case["greedy"]


def test_a_file_of_an_adapter_is_not_a_model(folder):
    run = subprocess.run([BINARY, "generate", folder / "own.gguf", "--prompt", "a"], capture_output=True, text=True)
    assert run.returncode != 0 and "is an adapter (LoRA) without a base model" in run.stderr
