"""The endpoints for curl, bad bodies, bad clients, keys."""

import json
import re

import httpx
import pytest
from waiting import HANG_S, wait_until

PROMPT = {"prompt": "Once upon a time", "max_tokens": 4}


def assert_serves(server):
    assert httpx.post(server.url + "/v1/completions", json=PROMPT, timeout=HANG_S).status_code == 200


def read_response(connection):
    """Status and body of one answer with a Content-Length."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return 0, b""
        data += more
    head, body = data.split(b"\r\n\r\n", 1)
    status = int(head.split(b" ")[1])
    length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0)
    while len(body) < length:
        body += connection.recv(65536)
    return status, body


def test_health_version_and_metrics(server):
    with server.http() as http:
        assert http.get("/health").status_code == 200
        assert http.get("/ping").status_code == 200
        assert http.get("/version").json()["version"]
        metrics = http.get("/metrics")
        assert metrics.headers["content-type"].startswith("text/plain")
        for name in ("quire:num_requests_running", "vllm:num_requests_running", "quire:http_connections"):
            assert name in metrics.text


def test_tokenize_and_detokenize(server):
    with server.http() as http:
        text = "Hello there, żółć 🎉!"
        tokens = http.post("/tokenize", json={"prompt": text, "return_token_strs": True}).json()
        assert tokens["count"] == len(tokens["tokens"]) == len(tokens["token_strs"])
        plain = http.post("/tokenize", json={"prompt": text, "add_special_tokens": False}).json()["tokens"]
        assert http.post("/detokenize", json={"tokens": plain}).json()["prompt"] == text
        assert http.post("/tokenize", json={"content": text}).json()["tokens"] == plain
        chat = http.post("/tokenize", json={"messages": [{"role": "user", "content": "hi"}]}).json()
        assert chat["count"] > 2
        assert http.post("/detokenize", json={"tokens": [10**8]}).status_code == 400


def test_methods_and_paths(server):
    with server.http() as http:
        assert http.get("/v1/nothing").status_code == 404
        wrong = http.get("/v1/completions")
        assert wrong.status_code == 405
        assert "POST" in wrong.headers["allow"]
        for error in (http.get("/v1/nothing"), wrong):
            assert set(error.json()["error"]) == {"message", "type", "param", "code"}
        assert http.head("/health").status_code == 200
        preflight = http.options("/v1/chat/completions", headers={"Origin": "http://page", "Access-Control-Request-Method": "POST"})
        assert preflight.status_code == 403
        assert "access-control-allow-origin" not in preflight.headers


def test_request_ids(server):
    with server.http() as http:
        answer = http.post("/v1/completions", json=PROMPT, headers={"X-Request-Id": "my-id-1"})
        assert answer.headers["x-request-id"] == "my-id-1"
        assert answer.json()["id"] == "cmpl-my-id-1"


@pytest.mark.parametrize("body", [
    b"", b"{", b"[]", b"null", b"5", b'"text"', b"not json", b'{"prompt":"a"', b'{"prompt":"\xff\xfe"}', b'{"prompt":"\\ud800"}', b"\x00\x01\x02",
    b'{"prompt": ' + b"[" * 100000, b'{"prompt":"a","max_tokens":1e999}', b'{"prompt":"a","max_tokens":"many"}', b'{"prompt":{"a":1}}',
    b'{"prompt":"a","temperature":NaN}', b'{"prompt":"a","stop":{"x":[1]}}', b'{"prompt":[[[1]]]}', b'{"prompt":"a","n":1e18}', b"a=1&b=2",
    b'{"messages":"x"}', b'{"prompt":"a","logit_bias":{"-1":3}}', b'{"prompt":"a","seed":123456789012345678901234567890}',
], ids=lambda b: repr(b[:24]))
def test_bad_bodies_get_a_400_and_the_next_request_is_served(server, body):
    with server.http() as http:
        answer = http.post("/v1/completions", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400, answer.text
        error = answer.json()["error"]
        assert error["type"] == "invalid_request_error"
        assert error["message"]
        assert http.post("/v1/completions", json=PROMPT).status_code == 200


def test_a_body_of_100_mb_gets_a_413(server):
    before = server.rss_bytes()
    for content in (b"x" * 100_000_000, (b"y" * 1_000_000 for _ in range(100))):  # announced, and chunked
        answer = httpx.post(server.url + "/v1/completions", content=content, timeout=HANG_S)
        assert answer.status_code == 413
        assert "MiB" in answer.json()["error"]["message"]
    assert server.rss_bytes() - before < 200_000_000
    assert_serves(server)


def test_a_large_body_that_is_allowed_is_read(server):
    answer = httpx.post(server.url + "/v1/completions", json={"prompt": "word " * 2_000_000}, timeout=HANG_S)
    assert answer.status_code == 400
    assert "tokens" in answer.json()["error"]["message"]
    assert_serves(server)


@pytest.mark.parametrize("start", [
    b"GET", b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Le", b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
    b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"p",
])
def test_half_requests_harm_nobody(server, start):
    for _ in range(20):
        with server.connect() as connection:
            connection.sendall(start)
    assert_serves(server)


@pytest.mark.parametrize("garbage", [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"hello\r\n\r\n", b"GET / HTTP/7.0\r\n\r\n", b"\x00" * 64,
    b"POST /v1/completions HTTP/1.1\r\nContent-Length: -5\r\n\r\n", b"POST /v1/completions HTTP/1.1\r\nContent-Length: 9e9\r\n\r\n",
    b"GET /" + b"a" * 200000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(20000)) + b"\r\n",
], ids=lambda b: repr(b[:24]))
def test_garbage_gets_an_error_and_the_connection_ends(server, garbage):
    with server.connect() as connection:
        connection.sendall(garbage)
        status, body = read_response(connection)
        assert 400 <= status < 600
        assert json.loads(body)["error"]["message"]
    assert_serves(server)


def test_slow_clients_do_not_hold_up_others(server):
    slow = [server.connect() for _ in range(300)]
    try:
        for connection in slow:
            connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-")
        for _ in range(2):
            for connection in slow:
                connection.sendall(b"L")
            assert_serves(server)
    finally:
        for connection in slow:
            connection.close()


def test_pipelined_requests_are_answered_in_order(server):
    body = json.dumps(PROMPT).encode()
    generate = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    version = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with server.connect() as connection:
        connection.sendall(version + generate + version)
        data = b""
        while data.count(b"HTTP/1.1 200 OK") < 3 or not data.endswith(b"}"):
            data += connection.recv(65536)
    assert data.index(b'"version"') < data.index(b'"choices"') < data.rindex(b'"version"')


def test_expect_100_continue(server):
    body = json.dumps(PROMPT).encode()
    with server.connect() as connection:
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
        assert connection.recv(100).startswith(b"HTTP/1.1 100 Continue\r\n\r\n")
        connection.sendall(body)
        assert read_response(connection)[0] == 200


def test_a_thousand_idle_connections_are_held(server):
    connections = [server.connect() for _ in range(1000)]
    try:
        assert_serves(server)
        for connection in connections[::100]:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert read_response(connection)[0] == 200
    finally:
        for connection in connections:
            connection.close()


def test_api_keys(start_server):
    server = start_server("--api-key", "first", "--api-key", "second")
    with server.http() as http:
        for path in ("/health", "/ping", "/version"):
            assert http.get(path).status_code == 200
        for path in ("/v1/models", "/metrics", "/anything"):
            answer = http.get(path)
            assert answer.status_code == 401, path
            assert answer.json()["error"]["code"] == "invalid_api_key"
        assert http.post("/v1/completions", json=PROMPT).status_code == 401
        assert http.post("/tokenize", json={"prompt": "x"}, headers={"Authorization": "Bearer wrong"}).status_code == 401
        assert http.post("/v1/completions", json=PROMPT, headers={"X-Api-Key": "second"}).status_code == 200
        assert http.options("/v1/completions", headers={"Origin": "http://a"}).status_code == 403
    assert server.client(api_key="first").models.list().data


def test_strict_params(start_server):
    server = start_server("--strict-params")
    with server.http() as http:
        answer = http.post("/v1/completions", json={**PROMPT, "frobnicate": 1})
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == "frobnicate"
        assert http.post("/v1/completions", json={**PROMPT, "user": "me"}).status_code == 200


def test_served_model_names(start_server):
    server = start_server("--served-model-name", "alpha", "--served-model-name", "beta")
    client = server.client()
    assert [m.id for m in client.models.list()] == ["alpha", "beta"]
    assert client.completions.create(model="beta", prompt="a", max_tokens=1).model == "beta"


def test_a_taken_port_is_an_error_that_says_so(server, start_server):
    import subprocess

    from server_process import BINARY, DEFAULT_FLAGS

    result = subprocess.run([str(BINARY), "serve", "--port", str(server.port), *DEFAULT_FLAGS], stderr=subprocess.PIPE, text=True, timeout=HANG_S)
    assert result.returncode == 1
    assert str(server.port) in result.stderr
    assert "--port" in result.stderr


def request_lines(server, last):
    """The log lines of requests, from the method on, without their milliseconds, up to the one that contains `last`."""
    wait_until(lambda: any(last in line for line in list(server.log)), lambda: "".join(server.log))
    lines = [re.search(r"(?:GET|POST) /.*", line) for line in list(server.log)]
    return [re.sub(r" \(\d+(\.\d)? ms\)", " (- ms)", line[0].rstrip()) for line in lines if line]


def test_each_request_that_ends_with_an_error_has_a_log_line(start_server):
    server = start_server()
    with server.http() as http:
        assert http.post("/v1/completions", json=PROMPT).status_code == 200
        assert http.post("/v1/completions", json={**PROMPT, "suffix": "x"}).status_code == 400
        assert http.get("/v1/nothing?key=secret").status_code == 404
    assert request_lines(server, "/v1/nothing") == [
        "POST /v1/completions 400 (- ms): suffix is not supported by this build (a suffix (fill in the middle)).",
        "GET /v1/nothing 404 (- ms): There is no GET /v1/nothing."]


def test_all_requests_are_logged_on_request(start_server):
    server = start_server("--log-requests")
    with server.http() as http:
        prompt = {**PROMPT, "ignore_eos": True}
        assert http.post("/v1/completions", json=prompt, headers={"X-Request-Id": "a"}).status_code == 200
        assert http.post("/v1/completions", json={**prompt, "stream": True}, headers={"X-Request-Id": "b"}).status_code == 200
        assert http.get("/health").status_code == 200
    tokens = len(server.post("/tokenize", json={"prompt": PROMPT["prompt"]}).json()["tokens"])
    first, second, third = request_lines(server, "/health")[:3]
    assert first == f"POST /v1/completions 200 (- ms): cmpl-a, {tokens} prompt tokens (0 cached), 4 generated"
    assert second.startswith(f"POST /v1/completions 200 (- ms): cmpl-b, {tokens} prompt tokens")
    assert third == "GET /health 200 (- ms)"
