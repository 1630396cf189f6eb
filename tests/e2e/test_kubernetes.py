"""The Kubernetes example of docs/packages.md: its schema, and its probes against the server, as a kubelet runs them."""

import http.client
import os
import re
import socket
import subprocess
import threading

import httpx
import kubernetes_validate
import pytest
import yaml
from faults.control import FaultControl, build_library
from server_process import BINARY, ROOT, ServerProcess, free_port
from waiting import HANG_S, wait_until

TEXT = (ROOT / "docs" / "packages.md").read_text()
SPEC = yaml.safe_load(re.search(r"```yaml\n(containers:.*?)```", TEXT, re.DOTALL)[1])
CONTAINER = SPEC["containers"][0]


def probe(name, port):
    """Whether a probe of the example succeeds: a status from 200 to 399, or an accepted connection. A response may take longer than a
    kubelet allows, because the machine may be busy."""
    settings = CONTAINER[name]
    try:
        if "tcpSocket" in settings:
            socket.create_connection(("127.0.0.1", port), timeout=HANG_S).close()
            return True
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG_S)
        connection.request("GET", settings["httpGet"]["path"])
        status = connection.getresponse().status
        connection.close()
        return 200 <= status < 400
    except (OSError, http.client.HTTPException):
        return False


def test_the_example_is_a_valid_pod():
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "quire"}, "spec": SPEC}
    kubernetes_validate.validate(pod, kubernetes_validate.latest_version(), strict=True)
    volumes = {volume["name"] for volume in SPEC["volumes"]}
    assert {mount["name"] for mount in CONTAINER["volumeMounts"]} == volumes
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**pod, "spec": {"container": []}}, kubernetes_validate.latest_version(), strict=True)


def test_the_example_agrees_with_the_container_and_its_flags():
    dockerfile = (ROOT / "packaging" / "Dockerfile").read_text()
    assert CONTAINER["volumeMounts"][0]["mountPath"] == re.search(r"^VOLUME (\S+)", dockerfile, re.MULTILINE)[1]
    assert CONTAINER["ports"][0]["containerPort"] == int(re.search(r"^EXPOSE (\d+)", dockerfile, re.MULTILINE)[1])
    user = re.search(r"^USER (\d+):(\d+)", dockerfile, re.MULTILINE)
    assert SPEC["securityContext"]["fsGroup"] == int(user[2])
    command, model, *flags = CONTAINER["args"]
    assert command == "serve" and "/" in model
    help_text = subprocess.run([BINARY, "serve", "--help-all"], capture_output=True, text=True, check=True).stdout
    assert all(flag in help_text for flag in flags if flag.startswith("--"))
    timeout = int(re.search(r"--shutdown-timeout TIME .*?\[default\s+(\d+)\]", help_text, re.DOTALL)[1])
    assert SPEC["terminationGracePeriodSeconds"] > timeout


def test_probes_fail_until_the_server_is_ready():
    port = free_port()
    names = ["startupProbe", "readinessProbe", "livenessProbe"]
    assert [probe(name, port) for name in names] == [False] * 3
    results = []
    done = threading.Event()

    def watch():
        while not done.is_set():
            results.append(probe("startupProbe", port))
            done.wait(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    wait_until(lambda: results, "no probe ends")
    server = ServerProcess("--port", str(port))
    try:
        count = len(results)
        wait_until(lambda: len(results) >= count + 10, "probes do not end")
        done.set()
        watcher.join()
        # Ready once, ready for good: the port opens only when requests are accepted.
        assert False in results and results == sorted(results)
        assert [probe(name, port) for name in names] == [True] * 3
    finally:
        done.set()
        server.stop()


def test_a_pod_that_ends_is_not_ready_and_is_not_killed(start_server):
    server = start_server(slow=True)
    body = {"prompt": "Once upon a time", "max_tokens": 150, "ignore_eos": True}
    answers = []
    thread = threading.Thread(target=lambda: answers.append(httpx.post(server.url + "/v1/completions", json=body, timeout=HANG_S)))
    thread.start()
    server.becomes_busy(1)
    assert probe("readinessProbe", server.port)
    server.terminate()
    wait_until(lambda: not probe("readinessProbe", server.port), "the server stays ready")
    num_probes = 0
    while thread.is_alive() and not answers:
        alive = probe("livenessProbe", server.port)
        ready = probe("readinessProbe", server.port)
        if not alive:
            break  # the server has ended, but the thread may not have read the answer yet
        assert not ready
        num_probes += 1
        thread.join(0.05)
    thread.join(HANG_S)
    # A server that closed its port at the signal would have passed none.
    assert num_probes >= 3, "the kubelet would kill the container while a request runs"
    assert answers[0].status_code == 200
    assert answers[0].json()["usage"]["completion_tokens"] == 150
    assert server.wait() == 0


def test_a_failed_engine_ends_the_container(tmp_path):
    faults = FaultControl(tmp_path)
    environment = faults.environment(build_library(tmp_path))
    os.environ.update(environment)
    try:
        server = ServerProcess()
    finally:
        for name in environment:
            del os.environ[name]
    try:
        assert probe("readinessProbe", server.port)
        faults.arm("malloc", "quire-engine", 1)
        body = {"prompt": "Once upon a time", "max_tokens": 8}
        try:
            assert httpx.post(server.url + "/v1/completions", json=body, timeout=HANG_S).status_code >= 500
        except httpx.HTTPError:
            pass  # the process has ended
        assert not probe("readinessProbe", server.port)
        assert server.wait() == 1
        assert not probe("livenessProbe", server.port)
    finally:
        server.stop()
