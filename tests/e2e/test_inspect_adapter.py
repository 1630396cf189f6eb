"""quire inspect shows what a LoRA adapter changes, or all reasons why it cannot be applied."""

import json
import shutil
import subprocess

import pytest
from golden_checkpoints import golden_checkpoint
from server_process import BINARY


def inspect(*words):
    return subprocess.run([BINARY, "inspect", *words], capture_output=True, text=True)


@pytest.fixture
def adapter():
    return golden_checkpoint("lora/llama-patterns")


@pytest.fixture
def model():
    return golden_checkpoint("models/llama")


def test_an_adapter_is_shown_without_a_model(adapter):
    run = inspect(adapter)
    assert run.returncode == 0, run.stderr
    assert "made for    llama\n" in run.stdout
    assert "model.layers.{}.self_attn.q_proj: rank 2, scale 4" in run.stdout
    assert "digest" not in run.stdout


def test_the_report_for_a_model_has_the_bytes_and_a_digest(adapter, model):
    run = inspect(adapter, "--model", model, "--json")
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert report["max_rank"] == 7
    assert report["bytes"] > 0 and len(report["digest"]) == 32
    assert report["num_modules"] == sum(group["modules"] for group in report["modules"])
    assert report["without_effect"] == []


def test_parameters_with_all_experts_are_shown_with_their_names_and_the_number_of_experts():
    adapter, model = golden_checkpoint("lora/mixtral-experts"), golden_checkpoint("models/mixtral")
    run = inspect(adapter, "--model", model)
    assert run.returncode == 0, run.stderr
    assert "2 × model.layers.{}.mlp.experts.gate_up_proj: rank 3, scale 2, 24 to 32 features, float32, each of 4 experts\n" in run.stdout
    report = json.loads(inspect(adapter, "--json").stdout)
    assert {group["name"]: group["experts"] for group in report["modules"]} == {
        "model.layers.{}.mlp.experts": 4, "model.layers.{}.mlp.experts.base_layer": 4, "model.layers.{}.self_attn.q_proj": None,
        "model.layers.{}.self_attn.v_proj": None}


@pytest.mark.parametrize("name, change, line", [
    ("llama-saved-head", "replaced", "1 × lm_head: replaced, 32 to 96 features, float32\n"),
    ("qwen2-all-biases", "bias", "2 × model.layers.{}.self_attn.k_proj: trained bias, 16 features, float32\n"),
    ("llama-tokens", "tokens", "1 × model.embed_tokens: 12 trained tokens, 32 features, float32\n"),
    ("llama-embedding", "low_rank", "1 × model.embed_tokens: rank 4, scale 2, 96 to 32 features, float32\n"),
])
def test_the_report_names_the_kind_of_change(name, change, line):
    adapter = golden_checkpoint(f"lora/{name}")
    base = golden_checkpoint(f"models/{json.loads((adapter / 'golden.json').read_text())['model']}")
    shown = inspect(adapter, "--model", base)
    assert shown.returncode == 0, shown.stderr
    assert line in shown.stdout
    report = json.loads(inspect(adapter, "--model", base, "--json").stdout)
    assert change in [group["change"] for group in report["modules"]]


def test_an_adapter_of_another_model_is_refused_with_all_problems(adapter):
    run = inspect(adapter, "--model", golden_checkpoint("models/gpt2"))
    assert run.returncode == 1
    assert "model.layers.0.self_attn.q_proj: this model (GPT2LMHeadModel) has no such module" in run.stderr
    assert "model.layers.1.self_attn.v_proj: " in run.stderr
    assert run.stderr.endswith("\n  it was made for 'llama'\n")


def test_a_refusal_without_a_model_names_the_key(adapter, tmp_path):
    copy = shutil.copytree(adapter, tmp_path / "copy")
    config = json.loads((copy / "adapter_config.json").read_text())
    (copy / "adapter_config.json").write_text(json.dumps(config | {"use_dora": True}))
    run = inspect(copy)
    assert run.returncode == 1
    assert "use_dora is true: DoRA is not supported" in run.stderr


def test_a_model_may_be_named_by_the_flag(model):
    assert inspect("--model", model).stdout.splitlines()[:4] == inspect(model).stdout.splitlines()[:4]
