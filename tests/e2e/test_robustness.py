"""Files that change or cost too much, and a log without a reader, through the real program."""

import array
import fcntl
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess

import httpx
import pytest
import server_process
from server_process import BINARY, ROOT
from waiting import HANG_S, attempts

TINY = ROOT / "models" / "quire-tiny"


def write_untied_model(directory, vocab_size=8192, hidden_size=64):
    """A Llama with random weights. Its embedding is not tied, so that it is read in place from the mapped file. It is the last tensor."""
    config = dict(
        architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=vocab_size, hidden_size=hidden_size, intermediate_size=64,
        num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=256, rms_norm_eps=1e-5,
        tie_word_embeddings=False, torch_dtype="float32", bos_token_id=1, eos_token_id=2)
    (directory / "config.json").write_text(json.dumps(config))
    square = [hidden_size, hidden_size]
    layer = "model.layers.0."
    shapes = {
        "lm_head.weight": [vocab_size, hidden_size], "model.norm.weight": [hidden_size],
        layer + "input_layernorm.weight": [hidden_size], layer + "post_attention_layernorm.weight": [hidden_size],
        **{f"{layer}self_attn.{name}_proj.weight": square for name in "qkvo"},
        **{f"{layer}mlp.{name}_proj.weight": square for name in ("gate", "up", "down")},
        "model.embed_tokens.weight": [vocab_size, hidden_size],
    }
    rng = random.Random(1)
    values, header, data = array.array("f", (rng.gauss(0, 0.05) for _ in range(1 << 16))), {}, b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        piece = (values * (count // len(values) + 1))[:count].tobytes()
        header[name] = dict(dtype="F32", shape=shape, data_offsets=[len(data), len(data) + len(piece)])
        data += piece
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    (directory / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + data)


def test_a_safetensors_file_that_is_truncated_under_a_server_ends_it_with_an_error(start_server, tmp_path, monkeypatch):
    write_untied_model(tmp_path)
    monkeypatch.setenv("QUIRE_MODEL", str(tmp_path))
    server = start_server()
    body = {"prompt": [100, 200, 300], "max_tokens": 4, "temperature": 0, "return_token_ids": True}
    assert httpx.post(server.url + "/v1/completions", json=body, timeout=HANG_S).status_code == 200
    file = tmp_path / "model.safetensors"
    os.truncate(file, file.stat().st_size - (1 << 20))
    # Rows of the embedding that are lost.
    body["prompt"] = [8000, 8001, 8002]
    try:
        response = httpx.post(server.url + "/v1/completions", json=body, timeout=HANG_S)
        assert response.status_code in (500, 503), response.text
    except httpx.TransportError:
        pass  # the connection was closed
    assert server.wait() == 1
    server.reader.join(HANG_S)
    assert any("model.safetensors" in line and "truncated" in line for line in server.log), "".join(server.log)


def test_requests_are_answered_while_the_log_is_not_read():
    process = subprocess.Popen(
        [str(BINARY), "serve", "--port", "0", "--kv-cache-memory", "64MiB", "--log-requests"], stderr=subprocess.PIPE, text=True)
    try:
        for line in process.stderr:
            if found := re.search(r"Listening on (http://\S+)", line):
                break
        fcntl.fcntl(process.stderr, fcntl.F_SETPIPE_SZ, 4096)
        with httpx.Client(base_url=found.group(1), timeout=HANG_S) as client:
            def num_dropped():
                return float(re.search(r"^quire:log_lines_dropped_total(?:{.*})? (\S+)", client.get("/metrics").text, re.M)[1])

            body = {"prompt": "a", "max_tokens": 1}
            for _ in attempts("no line is dropped", pause_s=0):
                for _ in range(20):
                    assert client.post("/v1/completions", json=body).status_code == 200
                if num_dropped() > 20:
                    break
        process.send_signal(signal.SIGTERM)
        assert process.wait(HANG_S) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_a_match_limit_of_a_regular_expression_is_an_error(start_server, tmp_path, monkeypatch):
    model = tmp_path / "model"
    shutil.copytree(TINY, model)
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    # Tries exponentially many ways to split the text before it finds that none matches.
    split = {"type": "Split", "pattern": {"Regex": "(?:a|aa|aaa)+b"}, "behavior": "Isolated", "invert": False}
    tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, tokenizer["pre_tokenizer"]]}
    (model / "tokenizer.json").write_text(json.dumps(tokenizer))
    monkeypatch.setenv("QUIRE_MODEL", str(model))
    server = start_server()
    assert httpx.post(server.url + "/tokenize", json={"prompt": "aab once"}, timeout=HANG_S).status_code == 200
    for path, body in (("/tokenize", {}), ("/v1/completions", {"max_tokens": 1})):
        response = httpx.post(server.url + path, json={"prompt": "a" * 100 + "cb", **body}, timeout=HANG_S)
        assert response.status_code == 400, response.text
        assert "limit" in response.json()["error"]["message"]
    assert httpx.post(server.url + "/tokenize", json={"prompt": "aab once"}, timeout=HANG_S).status_code == 200


@pytest.mark.parametrize("scaling", [None, {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2_500_000}])
def test_ten_million_positions_cost_no_memory(start_server, tmp_path, monkeypatch, scaling):
    server = start_server()
    memory = server.peak_rss_bytes()
    server.stop()
    model = tmp_path / "model"
    shutil.copytree(TINY, model)
    config = json.loads((model / "config.json").read_text())
    config["max_position_embeddings"] = 10_000_000
    if scaling:
        config["rope_scaling"] = scaling
    (model / "config.json").write_text(json.dumps(config))
    monkeypatch.setenv("QUIRE_MODEL", str(model))
    server = start_server()
    assert server.peak_rss_bytes() - memory < 200 << 20
    response = httpx.post(server.url + "/v1/completions", json={"prompt": "Once", "max_tokens": 4}, timeout=HANG_S)
    assert response.status_code == 200


def test_the_server_starts_without_proc(start_server, tmp_path, monkeypatch):
    """Without /proc the path of the program and the free memory are unknown. The embedded model is used, and a warning is logged."""
    without_proc = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
    if shutil.which("unshare") is None or subprocess.run([*without_proc, "true"], capture_output=True).returncode != 0:
        pytest.skip("mount namespaces are not permitted")
    wrapper = tmp_path / "quire"
    wrapper.write_text(f"#!/bin/sh\nexec {shlex.join(without_proc)} {shlex.quote(str(BINARY.resolve()))} \"$@\"\n")
    wrapper.chmod(0o755)
    monkeypatch.setattr(server_process, "BINARY", wrapper)
    server = start_server()
    response = httpx.post(server.url + "/v1/completions", json={"prompt": "The dog", "max_tokens": 4}, timeout=HANG_S)
    assert response.status_code == 200, response.text
    server.stop()
    assert server.process.returncode == 0, "".join(server.log)
    assert any("/proc/meminfo" in line for line in server.log), "".join(server.log)
