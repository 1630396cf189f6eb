"""`quire simulate` as people call it: results on stdout, messages on stderr, exit codes."""

import json
import os
import subprocess

import pytest
from golden_checkpoints import golden_checkpoint
from server_process import BINARY

COST = {"base_s": 0.01, "per_token_s": 1e-4, "per_sequence_s": 1e-5, "per_context_token_s": 1e-8, "per_pair_s": 0.0}
TRACE = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n" + "".join(
    f"2023-11-16 18:15:{second:02}.5000000,{100 + 7 * second},{5 + second}\r\n" for second in range(40)
)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "cost.json").write_text(json.dumps({"cost_model": COST}))
    return tmp_path


def simulate(files, *flags, trace="trace.csv"):
    command = [str(BINARY), "simulate", "--trace", str(files / trace), "--cost-model", str(files / "cost.json")]
    return subprocess.run([*command, "--num-kv-blocks", "200", *flags], capture_output=True, text=True,
                          env={**os.environ, "QUIRE_CPU_ISA": "avx2"}, timeout=120)


def test_the_object_has_the_fields_of_the_interface(files):
    run = simulate(files, "--json", "-", "--goodput", "ttft:500,tpot:50")
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    for name in ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms"):
        assert set(result[name]) == {"mean", "p50", "p90", "p99"}
        assert 0 < result[name]["p50"] <= result[name]["p99"]
    assert result["num_requests"] == 40
    assert result["replicas"] == 1
    assert result["num_preemptions"] >= 0
    assert 0 < result["kv_waste"] < 0.2
    assert 0 < result["kv_utilization"] < 1
    assert result["prefix_hit_rate"] == 0
    assert result["goodput"] > 0
    assert result["output_tokens"] == sum(5 + second for second in range(40))


def test_the_same_call_gives_the_same_result(files):
    assert simulate(files, "--json", "-").stdout == simulate(files, "--json", "-").stdout


def test_models_with_states_have_them_in_the_pool(files):
    flags = ("--max-model-len", "120", "--request-rate", "inf", "--json", "-")
    for model in ("mamba2", "lfm2"):
        run = simulate(files, str(golden_checkpoint(f"models/{model}")), *flags)
        assert run.returncode == 0, run.stderr
        assert json.loads(run.stdout)["num_refused"] == 0
    alone = simulate(files, str(golden_checkpoint("models/lfm2")), *flags, "--kv-bytes-per-token", "96")
    assert json.loads(run.stdout)["mean_running"] < json.loads(alone.stdout)["mean_running"]
    oracle = simulate(files, str(golden_checkpoint("models/lfm2")), *flags, "--memory", "oracle")
    assert oracle.returncode == 1
    assert "only --memory paged supports" in oracle.stderr


def test_adapters_of_a_trace_take_turns(files):
    rows = [f"0,100,300,{adapter}" for adapter in ("sql", "chat", "")]
    (files / "trace.csv").write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens,adapter", *rows]))
    waits = {}
    for max_loras in ("2", "1"):
        result = json.loads(simulate(files, "--max-loras", max_loras, "--json", "-").stdout)
        assert [(one["adapter"], one["num_requests"]) for one in result["adapters"]] == [("", 1), ("sql", 1), ("chat", 1)]
        waits[max_loras] = [one["ttft_ms"]["mean"] for one in result["adapters"]]
    base, first, second = zip(waits["2"], waits["1"], strict=True)
    assert base[1] <= base[0] and first[1] <= first[0]
    assert second[1] > 16 * 10 > second[0], "16 steps of 10 ms"


def test_conversations_have_their_lengths_in_the_models_tokens(files):
    turns = [("Tell me a story about a cat. " * (i + 1), "Once upon a time there was a cat. " * 4) for i in range(12)]
    (files / "chats.json").write_text(json.dumps(
        [{"conversations": [{"from": "human", "value": asked}, {"from": "gpt", "value": said}]} for asked, said in turns]))
    run = simulate(files, "--json", "-", "--request-rate", "5", trace="chats.json")
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    tokens = subprocess.run([str(BINARY), "tokenize", "--json", "--no-special-tokens", "--text", turns[0][1]],
                            capture_output=True, text=True, timeout=60)
    assert tokens.returncode == 0, tokens.stderr
    assert result["num_requests"] == 12
    assert result["output_tokens"] == 12 * len(json.loads(tokens.stdout)["ids"])


def test_comparisons_and_plots(files):
    run = simulate(files, "--request-rate", "inf", "--compare-memory", "--compare-sharing", "--find-replicas",
                   "--ttft-slo-ms", "800", "--goodput-target", "0.8", "--svg", str(files / "svg"),
                   "--json", str(files / "out.json"))
    assert run.returncode == 0, run.stderr
    assert "replicas" in run.stdout
    result = json.loads((files / "out.json").read_text())
    assert [m["memory"] for m in result["memory_managers"]] == ["paged", "oracle", "power-of-two", "max-length"]
    assert len(result["sharing"]) == 6
    assert result["replicas_needed"] == result["replicas"] > 1
    assert result["goodput_fraction"] >= 0.8
    plots = sorted(path.name for path in (files / "svg").iterdir())
    assert plots == ["latency.svg", "managers.svg", "memory.svg", "replicas.svg", "sharing.svg"]


def test_exit_codes(files):
    (files / "trace.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\nnoon,1,2\n")
    run = simulate(files)
    assert run.returncode == 1
    assert run.stdout == ""
    assert "trace.csv:2: 'noon' is not a valid time" in run.stderr
    assert simulate(files, "--memory", "none").returncode == 2
    assert simulate(files, "--find-replicas").returncode == 2  # without objectives
    assert subprocess.run([str(BINARY), "simulate", "--help"], capture_output=True).returncode == 0


def test_measured_steps_are_a_cost_model(files):
    flags = ["--threads", "1", "--cpu-time", "--num-rounds", "1", "--max-seconds", "5", "--kv-cache-memory", "64MiB"]
    steps = files / "steps.json"
    run = subprocess.run([str(BINARY), "bench", "steps", *flags, "--json", str(steps)], capture_output=True, text=True,
                         timeout=300)
    assert run.returncode == 0, run.stderr
    measured = json.loads(steps.read_text())
    assert len(measured["steps"]) >= 5
    assert all(step["seconds"] > 0 for step in measured["steps"])
    # Whether the engine came to rest at all depends on what else the machine does.
    assert all(0 <= step["pauses"] <= 1 for step in measured["steps"]) and not all(step["pauses"] for step in measured["steps"])
    run = simulate(files, "--cost-model", str(steps), "--json", "-")
    assert run.returncode == 2, "a flag given twice is a wrong call"
    (files / "cost.json").write_text(steps.read_text())
    run = simulate(files, "--json", "-")
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["ttft_ms"]["mean"] > 0
