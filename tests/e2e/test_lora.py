"""LoRA adapters through the server and the command line: the outputs of PEFT, chosen by the name of the model."""

import concurrent.futures
import json
import re
import shutil
import subprocess

import openai
import pytest
from golden_checkpoints import golden_checkpoint
from server_process import BINARY, ServerProcess

ADAPTERS = ["qwen3-attention", "qwen3-rslora", "qwen3-bfloat16"]


def golden(name):
    return json.loads((golden_checkpoint(f"lora/{name}") / "golden.json").read_text())["cases"][-1]


def base_golden():
    return json.loads((golden_checkpoint("models/qwen3") / "golden.json").read_text())["cases"][-1]


def modules(names):
    return [f"{name}={golden_checkpoint(f'lora/{name}')}" for name in names]


@pytest.fixture(scope="module")
def server():
    process = ServerProcess(str(golden_checkpoint("models/qwen3")), "--served-model-name", "base", "--lora-modules", *modules(ADAPTERS))
    yield process
    process.stop()


def tokens(server, model, case, **options):
    answer = server.post("/v1/completions", json={
        "model": model, "prompt": case["prompt"], "max_tokens": len(case["greedy"]), "temperature": 0, "ignore_eos": True,
        "return_token_ids": True} | options).json()
    assert answer["model"] == model
    return answer["choices"][0]["token_ids"]


def test_the_name_of_the_model_selects_the_adapter(server):
    for name in ADAPTERS:
        assert tokens(server, name, golden(name)) == golden(name)["greedy"]
    assert tokens(server, "base", base_golden()) == base_golden()["greedy"]


def test_adapters_and_the_base_model_share_batches(server):
    names = [*ADAPTERS, "base"] * 8
    cases = {name: golden(name) for name in ADAPTERS} | {"base": base_golden()}
    with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
        answers = list(pool.map(lambda name: tokens(server, name, cases[name]), names))
    assert answers == [cases[name]["greedy"] for name in names]


def test_the_list_of_models_has_adapters_with_their_parent(server):
    models = server.get("/v1/models").json()["data"]
    assert [m["id"] for m in models] == ["base", *ADAPTERS]
    assert models[0]["parent"] is None
    for model in models[1:]:
        assert model["parent"] == "base" and model["root"] == str(golden_checkpoint(f"lora/{model['id']}"))
        assert server.get(f"/v1/models/{model['id']}").json() == model
    assert {m.id for m in server.client().models.list().data} == {"base", *ADAPTERS}


def test_an_unknown_name_is_not_found(server):
    with pytest.raises(openai.NotFoundError, match="qwen3-rslora"):
        server.client().completions.create(model="qwen3-other", prompt=[1, 2])


def test_adapters_do_not_change_while_the_server_runs_unless_it_is_allowed(server):
    for route in ("/v1/load_lora_adapter", "/v1/unload_lora_adapter"):
        assert server.post(route, json={"lora_name": "qwen3-rslora", "lora_path": "/tmp"}).status_code == 404


def test_adapters_are_loaded_replaced_and_unloaded(start_server, tmp_path):
    allowed = golden_checkpoint("lora/qwen3-attention").parent
    server = start_server(str(golden_checkpoint("models/qwen3")), "--served-model-name", "base", "--allow-runtime-lora-updating",
                          "--lora-allowed-dir", str(allowed))
    path = {name: str(golden_checkpoint(f"lora/{name}")) for name in ADAPTERS}

    def load(name, **options):
        return server.post("/v1/load_lora_adapter", json={"lora_name": name} | options)

    loaded = load("own", lora_path=path["qwen3-attention"])
    assert (loaded.status_code, loaded.text) == (200, "Success: LoRA adapter 'own' added successfully.")
    assert tokens(server, "own", golden("qwen3-attention")) == golden("qwen3-attention")["greedy"]
    assert load("own", lora_path=path["qwen3-rslora"]).status_code == 400
    assert load("own", lora_path=path["qwen3-rslora"], load_inplace=True).status_code == 200
    assert tokens(server, "own", golden("qwen3-rslora")) == golden("qwen3-rslora")["greedy"]

    assert load("base", lora_path=path["qwen3-rslora"]).status_code == 400
    assert load("other").status_code == 400
    assert load("other", lora_path=str(allowed / "missing")).status_code == 404
    (allowed / "link").symlink_to(tmp_path)
    for outside in (str(tmp_path), str(allowed / ".." / ".."), str(allowed / "link"), "/etc"):
        refused = load("other", lora_path=outside)
        assert refused.status_code == 403 and "--lora-allowed-dir" in refused.json()["error"]["message"]

    unloaded = server.post("/v1/unload_lora_adapter", json={"lora_name": "own"})
    assert (unloaded.status_code, unloaded.text) == (200, "Success: LoRA adapter 'own' removed successfully.")
    assert server.post("/v1/unload_lora_adapter", json={"lora_name": "own"}).status_code == 404
    assert [m["id"] for m in server.get("/v1/models").json()["data"]] == ["base"]


def copy_adapter(name, directory):
    return shutil.copytree(golden_checkpoint(f"lora/{name}"), directory)


def metric(server, name):
    found = re.search(rf"^quire:{name}\{{.*\}} (\S+)$", server.get("/metrics").text, re.MULTILINE)
    return float(found.group(1))


def test_requests_name_subdirectories_of_the_lora_dir(start_server, tmp_path):
    adapters = tmp_path / "adapters"
    copy_adapter("qwen3-attention", adapters / "own")
    (adapters / "outside").symlink_to(golden_checkpoint("lora/qwen3-rslora"))
    server = start_server(str(golden_checkpoint("models/qwen3")), "--served-model-name", "base", "--lora-dir", str(adapters), "--allow-runtime-lora-updating")
    assert [m["id"] for m in server.get("/v1/models").json()["data"]] == ["base"]
    assert tokens(server, "own", golden("qwen3-attention")) == golden("qwen3-attention")["greedy"]
    assert [m["id"] for m in server.get("/v1/models").json()["data"]] == ["base", "own"]
    # Also one that was added after the start.
    copy_adapter("qwen3-rslora", adapters / "later")
    assert tokens(server, "later", golden("qwen3-rslora")) == golden("qwen3-rslora")["greedy"]
    for name in ("missing", "outside", "..", "../adapters/own", ".", "a" * 300):
        refused = server.post("/v1/completions", json={"model": name, "prompt": [1, 2]})
        assert refused.status_code == 404 and "base, own, later" in refused.json()["error"]["message"]
    # The routes load from there, too.
    assert server.post("/v1/load_lora_adapter", json={"lora_name": "named", "lora_path": str(adapters / "later")}).status_code == 200
    assert tokens(server, "named", golden("qwen3-rslora")) == golden("qwen3-rslora")["greedy"]
    assert server.post("/v1/load_lora_adapter", json={"lora_name": "other", "lora_path": str(adapters / "outside")}).status_code == 403
    (adapters / "empty").mkdir()
    refused = server.post("/v1/completions", json={"model": "empty", "prompt": [1, 2]})
    assert refused.status_code == 400 and "adapter_config.json" in refused.json()["error"]["message"]


def test_a_damaged_adapter_fails_its_requests(start_server, tmp_path):
    files = copy_adapter("qwen3-attention", tmp_path / "own") / "adapter_model.safetensors"
    files.chmod(0o644)
    files.write_bytes(files.read_bytes()[:-4] + b"\xff\xff\xff\xff")
    server = start_server(str(golden_checkpoint("models/qwen3")), "--lora-modules", f"bad={tmp_path / 'own'}", *modules(["qwen3-rslora"]))
    for _ in range(2):
        refused = server.post("/v1/completions", json={"model": "bad", "prompt": [1, 2]})
        assert refused.status_code == 400 and "'bad'" in refused.json()["error"]["message"]
        assert "not a finite number" in refused.json()["error"]["message"]
    assert tokens(server, "qwen3-rslora", golden("qwen3-rslora")) == golden("qwen3-rslora")["greedy"]
    assert (metric(server, "lora_loads_total"), metric(server, "lora_load_failures_total")) == (1, 1)


def test_metrics_show_loads_and_evictions(start_server):
    server = start_server(str(golden_checkpoint("models/qwen3")), "--max-cpu-loras", "1", "--lora-modules", *modules(ADAPTERS))
    assert (metric(server, "lora_adapters_resident"), metric(server, "lora_loads_total")) == (0, 0)
    for name in (*ADAPTERS, ADAPTERS[0]):
        assert tokens(server, name, golden(name)) == golden(name)["greedy"]
    assert (metric(server, "lora_adapters_resident"), metric(server, "lora_loads_total"), metric(server, "lora_evictions_total")) == (1, 4, 3)
    assert metric(server, "lora_memory_bytes") > 0 and metric(server, "lora_load_seconds_count") == 4
    info = re.search(r"^vllm:lora_requests_info\{(.*)\} ", server.get("/metrics").text, re.MULTILINE).group(1)
    assert 'max_lora="1"' in info and 'running_lora_adapters=""' in info and 'waiting_lora_adapters=""' in info


def generate(*arguments, lines):
    done = subprocess.run([BINARY, "generate", str(golden_checkpoint("models/qwen3")), "--temperature", "0", "--ignore-eos", "--json", *arguments],
                          input="".join(json.dumps(line) + "\n" for line in lines), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["outputs"][0]["token_ids"] for line in done.stdout.splitlines()]


def test_json_lines_select_adapters(tmp_path):
    cases = [(name, golden(name)) for name in ADAPTERS]
    lines = [{"prompt_token_ids": case["prompt"], "max_tokens": len(case["greedy"]), "lora": name} for name, case in cases]
    lines.append({"prompt_token_ids": base_golden()["prompt"], "max_tokens": len(base_golden()["greedy"]), "lora": ""})
    lines.append({key: value for key, value in lines[0].items() if key != "lora"})
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    # A line without an adapter has that of the command line, which may be a path.
    answers = generate("--lora-modules", *modules(ADAPTERS), "--lora", str(golden_checkpoint("lora/qwen3-attention")), "--prompts-file", str(file),
                       lines=[])
    assert answers == [case["greedy"] for _, case in cases] + [base_golden()["greedy"], golden("qwen3-attention")["greedy"]]


def test_a_prompt_names_a_subdirectory_of_the_lora_dir(tmp_path):
    copy_adapter("qwen3-attention", tmp_path / "own")
    case = golden("qwen3-attention")
    lines = [{"prompt_token_ids": case["prompt"], "max_tokens": len(case["greedy"])}]
    file = tmp_path / "prompts.jsonl"
    file.write_text(json.dumps(lines[0]) + "\n")
    assert generate("--lora-dir", str(tmp_path), "--lora", "own", "--prompts-file", str(file), lines=[]) == [case["greedy"]]


def test_an_adapter_that_cannot_be_applied_ends_the_start():
    done = subprocess.run([BINARY, "generate", str(golden_checkpoint("models/qwen3")), "hi", "--lora", str(golden_checkpoint("lora/gpt2-transposed"))],
                          capture_output=True, text=True)
    assert done.returncode != 0 and "c_attn" in done.stderr and done.stdout == ""
