"""Starting, idling and ending."""

import json
import resource
import signal
import subprocess
import threading

import httpx

from server_process import BINARY
from waiting import HANG_S, wait_until

LONG = {"prompt": "Once upon a time", "max_tokens": 600, "ignore_eos": True, "temperature": 1, "seed": 1}


def test_idle_means_idle(server):
    httpx.post(server.url + "/v1/completions", json={"prompt": "a", "max_tokens": 2}, timeout=HANG_S)
    server.becomes_idle()
    server.becomes_quiet(pause_s=0.5)


def stream_in_thread(server, body, result):
    def run():
        try:
            with httpx.stream("POST", server.url + "/v1/completions", json={**body, "stream": True}, timeout=HANG_S) as answer:
                for line in answer.iter_lines():
                    result.append(line)
        except httpx.HTTPError as error:
            result.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: result, "no part of the response arrives")
    return thread


def shuts_down(http, server):
    """Waits until the server refuses requests of open connections."""
    wait_until(lambda: http.get(server.url + "/health").status_code != 200, "the signal was ignored")


def test_sigterm_finishes_what_runs_and_refuses_the_rest(start_server):
    server = start_server(slow=True)
    lines = []
    with httpx.Client(timeout=HANG_S) as http:
        assert http.get(server.url + "/health").status_code == 200
        thread = stream_in_thread(server, {**LONG, "max_tokens": 40, "n": 2}, lines)
        server.terminate()
        shuts_down(http, server)
        refused = http.post(server.url + "/v1/completions", json={"prompt": "a"})
        assert refused.status_code == 503
        assert refused.headers["retry-after"]
        assert "shutting down" in refused.json()["error"]["message"]
    thread.join(HANG_S)
    assert "data: [DONE]" in lines
    assert sum('"finish_reason":"length"' in line for line in lines if isinstance(line, str)) == 2
    assert server.wait() == 0


def test_sigterm_when_idle_does_not_wait_for_connections(start_server):
    server = start_server("--shutdown-timeout", "60m")
    unused = server.connect()
    with httpx.Client(timeout=HANG_S) as kept_alive:
        assert kept_alive.get(server.url + "/health").status_code == 200
        server.terminate()
        assert server.wait() == 0
    unused.close()


def test_the_shutdown_timeout_ends_what_runs(start_server):
    server = start_server("--shutdown-timeout", "0.2", slow=True)
    lines = []
    thread = stream_in_thread(server, {**LONG, "max_tokens": 900, "n": 4}, lines)
    server.terminate()
    assert server.wait() == 0
    thread.join(HANG_S)
    assert "data: [DONE]" in lines
    assert any(line.startswith('data: {"error"') and "shut down" in line for line in lines)


def test_a_second_signal_ends_what_runs(start_server):
    server = start_server("--shutdown-timeout", "60m", slow=True)
    lines = []
    with httpx.Client(timeout=HANG_S) as http:
        assert http.get(server.url + "/health").status_code == 200
        thread = stream_in_thread(server, {**LONG, "max_tokens": 900, "n": 4}, lines)
        server.terminate(signal.SIGINT)
        shuts_down(http, server)
        server.terminate(signal.SIGINT)
    assert server.wait() == 0
    thread.join(HANG_S)
    assert not any('"finish_reason":"length"' in line for line in lines if isinstance(line, str)), "it waited for the response"


def test_running_out_of_descriptors_is_survived_without_spinning(start_server):
    server = start_server()
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (64, 64))
    connections = [server.connect() for _ in range(200)]
    wait_until(lambda: any("cannot accept connections" in line for line in server.log), "descriptors do not run out")
    # It tries again every 100 ms.
    server.becomes_quiet(pause_s=0.02)
    for connection in connections:
        connection.close()
    assert httpx.get(server.url + "/health", timeout=HANG_S).status_code == 200


def test_a_profile_is_written_at_the_end(tmp_path):
    path = tmp_path / "profile.json"
    command = [str(BINARY), "generate", "-p", "Once upon a time", "--ignore-eos", "--max-tokens", "8", "--profile", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
    assert result.returncode == 0, result.stderr
    events = json.loads(path.read_text())["traceEvents"]
    assert {"step", "sample", "attention"} <= {event["name"] for event in events}
    assert sum(event["name"] == "step" for event in events) == 8
    assert "of limit" in result.stderr
