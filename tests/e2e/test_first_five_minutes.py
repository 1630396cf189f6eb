"""bench/first_five_minutes.py measures what it says."""

import http.client
import importlib.util
import json
import subprocess
import sys
import urllib.parse

import pytest
from server_process import BINARY, ROOT, ServerProcess

SCRIPT = ROOT / "bench" / "first_five_minutes.py"


def load_script():
    spec = importlib.util.spec_from_file_location("first_five_minutes", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_one_file_is_copied_and_serves(tmp_path):
    run = subprocess.run([sys.executable, SCRIPT, "--engines", "quire-file", "--binary", BINARY, "--out", tmp_path],
                         capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr
    [result] = json.loads((tmp_path / "results.json").read_text())
    assert result["fetched_bytes"] == result["copied_bytes"] == BINARY.stat().st_size
    assert 0 < result["install_s"] < result["first_token_s"]  # the latter includes the former
    assert 10e6 < result["peak_memory_bytes"] < 2e9
    assert len(result["commands"]) == 2 and "| quire-file | 2 |" in run.stdout


def test_a_server_that_does_not_start_is_an_error(tmp_path):
    run = subprocess.run([sys.executable, SCRIPT, "--engines", "quire-file", "--binary", BINARY, "--out", tmp_path, "--model", "/no/such/model"],
                         capture_output=True, text=True, timeout=120)
    [result] = json.loads((tmp_path / "results.json").read_text())
    assert run.returncode == 1 and "the server ended with status 1" in result["error"]
    assert "first_token_s" not in result and "not measured" in run.stdout


def test_a_command_that_takes_too_long_ends_with_its_children(tmp_path):
    module = load_script()
    with pytest.raises(RuntimeError, match="had not ended after 1 s"):
        module.run_command(f"(sleep 86400; touch {tmp_path}/survived) & sleep 86400", 1)
    assert not [line for line in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout.splitlines() if str(tmp_path) in line]


def test_the_proxy_counts_what_it_receives():
    module = load_script()
    server = ServerProcess()
    try:
        proxy = module.CountingProxy()
        address = urllib.parse.urlsplit(proxy.url).netloc
        for tunnel in (False, True):
            before = proxy.received
            connection = http.client.HTTPConnection(address)
            if tunnel:
                connection.set_tunnel(server.host, server.port)
            connection.request("GET", ("" if tunnel else server.url) + "/openapi.json", headers={"Connection": "close", "Host": server.url[7:]})
            body = connection.getresponse().read()
            connection.close()
            assert len(body) > 10000
            assert 0 < proxy.received - before - len(body) < 1000  # the header of the response
        assert proxy.hosts == {server.host}
    finally:
        server.stop()
