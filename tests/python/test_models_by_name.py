"""Models by name, against the hub on the loopback interface of the end-to-end tests (tests/e2e/hub_server.py)."""

import asyncio
import json
import pathlib
import signal
import subprocess
import sys

import pytest
from quire import LLM, AsyncEngineArgs, AsyncLLM, EngineArgs, QuireError, SamplingParams, UnsupportedError
from waiting import HANG_S

sys.path.append(str(pathlib.Path(__file__).parents[1] / "e2e"))
from hub_server import Fault, Hub  # noqa: E402

ROOT = pathlib.Path(__file__).parents[2]
FILES = {name: (ROOT / "models" / "quire-tiny" / name).read_bytes()
         for name in ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")}
SMALL = {"kv_cache_memory_bytes": 8 << 20, "threads": 1}
GREEDY = SamplingParams(temperature=0, max_tokens=8)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    server = Hub()
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_TOKEN_PATH", "http_proxy", "HTTP_PROXY",
                 "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    yield server
    server.close()


def text_of(llm):
    return llm.generate("Once upon a time", GREEDY, use_tqdm=False)[0].outputs[0].text


def test_a_name_is_downloaded_once(hub, llm, tmp_path):
    hub.add("org/tiny", FILES)
    named = LLM(model="org/tiny", **SMALL)
    assert named.get_model_info()["name"] == "org/tiny"
    assert text_of(named) == text_of(llm)
    assert (tmp_path / "hf" / "hub" / "models--org--tiny" / "refs" / "main").exists()
    hub.requests.clear()
    assert text_of(LLM("org/tiny", **SMALL)) == text_of(llm)
    assert hub.requests == []


def test_revision_and_download_dir(hub, tmp_path):
    repo = hub.add("org/tiny", FILES)
    main = repo.commit
    config = {**json.loads(FILES["generation_config.json"]), "temperature": 0.25}
    repo.update({**FILES, "generation_config.json": json.dumps(config).encode()}, branch="dev")
    directory = tmp_path / "models"
    dev = LLM("org/tiny", revision="dev", tokenizer_revision="dev", download_dir=directory, **SMALL)
    assert dev.get_default_sampling_params().temperature == 0.25
    assert dev.get_model_info()["name"] == "org/tiny"
    assert (directory / "models--org--tiny" / "refs" / "dev").exists() and not (tmp_path / "hf" / "hub").exists()
    old = LLM.from_engine_args(EngineArgs("org/tiny", revision=main, download_dir=str(directory), **SMALL))
    assert old.get_default_sampling_params().temperature != 0.25
    with pytest.raises(QuireError, match="has no such branch, tag or commit"):
        LLM("org/tiny", revision="no-such-branch", **SMALL)
    with pytest.raises(UnsupportedError, match="tokenizer_revision='dev' is not supported"):
        LLM("org/tiny", tokenizer_revision="dev", **SMALL)


def test_a_private_model_needs_a_token(hub, llm, monkeypatch):
    hub.add("org/private", FILES, private=True)
    monkeypatch.setenv("HF_TOKEN", hub.token)
    for token in ("hf_wrong", False):
        with pytest.raises(QuireError, match="token"):
            LLM("org/private", hf_token=token, **SMALL)
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(QuireError, match="org/private"):
        LLM("org/private", **SMALL)
    assert text_of(LLM("org/private", hf_token=hub.token, **SMALL)) == text_of(llm)


def test_true_is_the_token_of_the_environment(hub, monkeypatch):
    hub.add("org/private", FILES, private=True)
    monkeypatch.setenv("HF_TOKEN", hub.token)
    assert LLM("org/private", hf_token=True, **SMALL).get_model_info()["name"] == "org/private"


def test_async_engines_take_names(hub, llm):
    hub.add("org/tiny", FILES)
    engine = AsyncLLM.from_engine_args(AsyncEngineArgs(model="org/tiny", **SMALL))

    async def main():
        return [o async for o in engine.generate("Once upon a time", GREEDY, "r")][-1].outputs[0].text

    assert asyncio.run(main()) == text_of(llm)


def test_an_unsupported_model_is_reported_before_the_weights(hub):
    config = {**json.loads(FILES["config.json"]), "architectures": ["FooForCausalLM"], "model_type": "foo"}
    hub.add("org/foo", {**FILES, "config.json": json.dumps(config).encode()})
    with pytest.raises(QuireError, match="FooForCausalLM"):
        LLM("org/foo", **SMALL)


def test_ctrl_c_ends_a_download_that_the_next_call_continues(hub):
    hub.add("org/tiny", FILES)
    hub.faults["model.safetensors"] = slow = Fault(delay=0.2, times=1000)
    script = """
from quire import LLM
try:
    LLM("org/tiny")
except KeyboardInterrupt:
    print("interrupted")
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        shown = b""
        while b"B/s" not in shown:  # the download has begun
            byte = process.stderr.read(1)
            assert byte, shown
            shown += byte
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=HANG_S)
    assert output == b"interrupted\n", shown + errors
    assert b"org/tiny:" in shown
    slow.times = 0
    assert LLM("org/tiny", **SMALL).get_model_info()["name"] == "org/tiny"
