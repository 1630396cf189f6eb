"""`quire top` with the server and with metrics as vLLM exports them."""

import http.server
import json
import re
import subprocess
import threading

import pytest

from server_process import BINARY
from terminal import Terminal

VLLM_METRICS = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="org/large"} 12.0
vllm:num_requests_waiting{engine="0",model_name="org/large"} 34.0
vllm:kv_cache_usage_perc{engine="0",model_name="org/large"} 0.625
vllm:prefix_cache_queries_total{engine="0",model_name="org/large"} 2000.0
vllm:prefix_cache_hits_total{engine="0",model_name="org/large"} 500.0
vllm:num_preemptions_total{engine="0",model_name="org/large"} 3.0
vllm:prompt_tokens_total{engine="0",model_name="org/large"} 5000.0
vllm:generation_tokens_total{engine="0",model_name="org/large"} TOKENS
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1",model_name="org/large"} 0.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.3",model_name="org/large"} 10.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="org/large"} 10.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="org/large"} 10.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="org/large"} 2.0
vllm:request_queue_time_seconds_bucket{engine="0",le="0.3",model_name="org/large"} 10.0
vllm:request_queue_time_seconds_bucket{engine="0",le="+Inf",model_name="org/large"} 10.0
vllm:request_queue_time_seconds_count{engine="0",model_name="org/large"} 10.0
vllm:request_queue_time_seconds_sum{engine="0",model_name="org/large"} 0.002
"""


@pytest.fixture
def vllm_url():
    """A server whose /metrics are those of vLLM; 100 more tokens at each request."""
    tokens = [0]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            tokens[0] += 100
            body = VLLM_METRICS.replace("TOKENS", f"{tokens[0]}.0").encode()
            self.send_response(200 if self.path == "/metrics" else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def top(*arguments, **options):
    return subprocess.run([BINARY, "top", *arguments], capture_output=True, text=True, timeout=60, **options)


def test_json_has_the_figures_of_the_server(server, client, model):
    client.completions.create(model=model, prompt="Once upon a time", max_tokens=8, temperature=0)
    run = top(server.url, "--once", "--json", "--interval", "100ms")
    assert run.returncode == 0, run.stderr
    figures = json.loads(run.stdout)
    assert figures["model"] == model
    assert (figures["requests_running"], figures["requests_waiting"]) == (0, 0)
    assert figures["requests_finished"] == server.metric("quire:request_success_total")
    for name in ["ttft_ms", "tpot_ms", "itl_ms", "e2e_ms", "queue_ms"]:
        assert figures[name]["p50"] <= figures[name]["p99"], name


def test_vllm_servers_are_understood(vllm_url):
    figures = json.loads(top(vllm_url, "--once", "--json", "--interval", "200ms").stdout)
    assert (figures["requests_running"], figures["requests_waiting"], figures["model"]) == (12, 34, "org/large")
    assert (figures["kv_cache_usage"], figures["prefix_cache_hit_rate"], figures["num_preemptions"]) == (0.625, 0.25, 3)
    assert 100 < figures["generation_tokens_per_s"] <= 500  # 100 tokens in 200 ms or more
    assert figures["ttft_ms"] == pytest.approx({"mean": 200, "p50": 200, "p90": 280, "p99": 298})
    assert figures["tpot_ms"] is None


def test_a_latency_below_the_lowest_bucket_is_only_bounded(vllm_url):
    text = top(vllm_url, "--once", "--interval", "100ms").stdout
    assert re.search(r"^Queue +0\.2 ms +< 1 ms +< 2 ms +< 20 ms$", text, re.MULTILINE), text
    assert re.search(r"^TTFT +200\.0 ms +200\.0 ms +280\.0 ms +298\.0 ms$", text, re.MULTILINE), text


def test_the_live_view_follows_the_server_and_the_window(vllm_url):
    terminal = Terminal([str(BINARY), "top", vllm_url, "--interval", "100ms"], columns=80, rows=24)
    terminal.wait_for("12 running, 34 waiting")
    terminal.wait_for("62.5 %")
    first = next(line for line in terminal.lines() if line.startswith("Generation"))
    terminal.wait_until(lambda: first not in terminal.lines(), "new rate")
    terminal.resize(30, 5)
    terminal.wait_until(lambda: terminal.lines()[-1].startswith("KV cache"), "fewer lines")
    terminal.send("q")
    assert terminal.wait_for_end() == 0
    assert terminal.output.endswith(b"\x1b[?25h\x1b[?1049l"), "the screen is not restored"


def color_of(terminal, text):
    row = next(y for y, line in enumerate(terminal.lines()) if text in line)
    return terminal.screen.buffer[row][terminal.lines()[row].index(text)].fg


@pytest.mark.parametrize("environment, colors", [({}, True), ({"NO_COLOR": "1"}, False)])
def test_the_live_view_uses_the_width_and_colors(vllm_url, environment, colors):
    terminal = Terminal([str(BINARY), "top", vllm_url, "--interval", "100ms"], columns=120, rows=24, environment=environment)
    terminal.wait_until(lambda: re.search(r"[▁▂▃▄▅▆▇█]{3}\n", terminal.text()), "sparklines")
    lines = terminal.lines()
    usage = next(line for line in lines if line.startswith("KV cache"))
    assert len(usage) in (119, 120)
    bar = usage[usage.index("[") + 1:usage.index("]")]
    assert bar.strip("█░") == "" and abs(bar.count("█") / len(bar) - 0.625) < 0.02
    below = lines[lines.index(usage) + 1].strip()
    assert set(below) == {"▅"}, "62.5 % of a full column"
    generation = next(i for i, line in enumerate(lines) if line.startswith("Generation"))
    assert set(lines[generation + 1].strip()) <= set("▁▂▃▄▅▆▇█")
    assert "q: quit" in terminal.text()
    assert (color_of(terminal, "█") == "green") == colors
    assert (color_of(terminal, "34 waiting") != "default") == colors
    terminal.resize(60, 24)
    terminal.wait_until(lambda: any(len(line) in (59, 60) for line in terminal.lines() if line.startswith("KV cache")), "narrower bar")
    terminal.send("q")
    assert terminal.wait_for_end() == 0


@pytest.mark.parametrize("end", ["\x03", "terminate"])
def test_ctrl_c_and_signals_restore_the_terminal(vllm_url, end):
    shell = Terminal(["/bin/bash", "--norc", "-i"], environment={"PS1": "shell: "})
    try:
        shell.wait_for_line("shell:")
        shell.send(f"stty -a > /dev/null; {BINARY} top {vllm_url}\r")
        shell.wait_for("12 running")
        if end == "terminate":
            subprocess.run(["pkill", "-TERM", "-P", str(shell.process.pid), "quire"], check=True)
        else:
            shell.send(end)
        shell.wait_until(lambda: b"\x1b[?1049l" in shell.output, "restored screen")
        shell.send("stty -a | tr ' ;' '\\n\\n' | grep -xE 'echo|icanon|isig' | sort | paste -sd+\r")
        shell.wait_for("echo+icanon+isig")
    finally:
        shell.close()


def test_an_api_key_is_sent(start_server, tmp_path):
    server = start_server("--api-key", "secret")
    refused = top(server.url, "--once")
    assert refused.returncode == 1 and "API key" in refused.stderr
    for flags, environment in [(["--api-key", "secret"], {}), ([], {"QUIRE_API_KEY": "secret"})]:
        run = top(server.url, "--once", "--interval", "100ms", *flags, env=environment)
        assert run.returncode == 0 and "0 running" in run.stdout, run.stderr


def test_a_server_that_cannot_be_reached_is_an_error():
    run = top("http://127.0.0.1:9", "--once")
    assert run.returncode == 1 and "127.0.0.1" in run.stderr
