"""Starting, idling and ending."""

import json
import resource
import signal
import subprocess
import threading
import time

import httpx

from server_process import BINARY

LONG = {"prompt": "Once upon a time", "max_tokens": 600, "ignore_eos": True, "temperature": 1, "seed": 1}


def test_starts_fast(start_server):
    times = [start_server().startup_s for _ in range(3)]
    print(f"start-up of serve, from the call to the open port: {min(times) * 1e3:.0f} ms at best of {[round(t * 1e3) for t in times]}")
    assert min(times) < 3.0


def test_idle_means_idle(server):
    httpx.post(server.url + "/v1/completions", json={"prompt": "a", "max_tokens": 2}, timeout=60)
    time.sleep(0.5)
    begin = server.cpu_seconds()
    time.sleep(3)
    used = (server.cpu_seconds() - begin) / 3
    print(f"CPU while idle: {used * 100:.2f} %")
    assert used < 0.01


def stream_in_thread(server, body, result):
    def run():
        try:
            with httpx.stream("POST", server.url + "/v1/completions", json={**body, "stream": True}, timeout=60) as answer:
                for line in answer.iter_lines():
                    result.append(line)
        except httpx.HTTPError as error:
            result.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while not result:
        time.sleep(0.001)
    return thread


def test_sigterm_finishes_what_runs_and_refuses_the_rest(start_server):
    server = start_server(slow=True)
    lines = []
    with httpx.Client(timeout=60) as http:
        assert http.get(server.url + "/health").status_code == 200
        thread = stream_in_thread(server, {**LONG, "max_tokens": 100, "n": 2}, lines)
        server.terminate()
        while http.get(server.url + "/health").status_code == 200:
            time.sleep(0.001)
        refused = http.post(server.url + "/v1/completions", json={"prompt": "a"})
        assert refused.status_code == 503
        assert refused.headers["retry-after"]
        assert "shutting down" in refused.json()["error"]["message"]
    thread.join(60)
    assert "data: [DONE]" in lines
    assert sum('"finish_reason":"length"' in line for line in lines if isinstance(line, str)) == 2
    assert server.wait() == 0


def test_sigterm_when_idle_ends_at_once(start_server):
    server = start_server()
    kept_alive = server.connect()
    begin = time.monotonic()
    server.terminate()
    assert server.wait() == 0
    assert time.monotonic() - begin < 3
    kept_alive.close()


def test_the_shutdown_timeout_ends_what_runs(start_server):
    server = start_server("--shutdown-timeout", "0.2", slow=True)
    lines = []
    thread = stream_in_thread(server, {**LONG, "max_tokens": 900, "n": 4}, lines)
    server.terminate()
    assert server.wait(20) == 0
    thread.join(20)
    assert "data: [DONE]" in lines
    assert any(line.startswith('data: {"error"') and "shut down" in line for line in lines)


def test_a_second_signal_ends_at_once(start_server):
    server = start_server(slow=True)
    lines = []
    thread = stream_in_thread(server, {**LONG, "max_tokens": 900, "n": 4}, lines)
    server.terminate(signal.SIGINT)
    time.sleep(0.2)
    begin = time.monotonic()
    server.terminate(signal.SIGINT)
    assert server.wait(20) == 0
    assert time.monotonic() - begin < 3
    thread.join(20)


def test_running_out_of_descriptors_is_survived_without_spinning(start_server):
    server = start_server()
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (64, 64))
    connections = [server.connect() for _ in range(200)]
    time.sleep(0.5)
    begin = server.cpu_seconds()
    time.sleep(2)
    used = (server.cpu_seconds() - begin) / 2
    for connection in connections:
        connection.close()
    assert used < 0.2
    assert any("cannot accept connections" in line for line in server.log)
    assert httpx.get(server.url + "/health", timeout=30).status_code == 200


def test_a_profile_is_written_at_the_end(tmp_path):
    path = tmp_path / "profile.json"
    command = [str(BINARY), "generate", "-p", "Once upon a time", "--ignore-eos", "--max-tokens", "8", "--profile", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    events = json.loads(path.read_text())["traceEvents"]
    assert {"step", "sample", "attention"} <= {event["name"] for event in events}
    assert sum(event["name"] == "step" for event in events) == 8
    assert "of limit" in result.stderr
