"""Small requests that try to cost much memory or time."""

import json
import threading
import time

import httpx
import pytest

MIB = 1 << 20


def post(server, path, body, timeout=60):
    content = body if isinstance(body, (bytes, str)) else json.dumps(body)
    return httpx.post(server.url + path, content=content, headers={"Content-Type": "application/json"}, timeout=timeout)


def send_only(server, path, body):
    """Sends a request and leaves the connection open, without reading."""
    connection = server.connect()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)
    return connection


def test_prompts_of_a_request_share_their_parameters(start_server):
    server = start_server()
    assert post(server, "/v1/completions", {"prompt": "a", "max_tokens": 1}).status_code == 200
    before = server.peak_rss_bytes()
    body = json.dumps({"prompt": ["a"] * 4096, "max_tokens": 1, "allowed_token_ids": [1] * 60000}, separators=(",", ":"))
    assert len(body) < 140_000
    # More ids than the vocabulary has are refused; as many as it has are shared.
    assert post(server, "/v1/completions", body).status_code == 400
    body = json.dumps({"prompt": ["a"] * 4096, "max_tokens": 1, "allowed_token_ids": list(range(400)), "stop": ["x" * 100] * 100})
    post(server, "/v1/completions", body, timeout=300)
    assert server.peak_rss_bytes() - before < 100 * MIB
    server.becomes_idle()


def test_many_stop_strings_are_shared_by_prompts_and_samples(start_server):
    server = start_server("--max-num-queued-reqs", "100000")
    assert post(server, "/v1/completions", {"prompt": "a", "max_tokens": 1}).status_code == 200
    before = server.peak_rss_bytes()
    body = {"prompt": ["a"] * 1024, "n": 16, "max_tokens": 1, "stop": ["s" * 127] * 128}
    connection = send_only(server, "/v1/completions", json.dumps(body).encode())
    time.sleep(2)
    assert server.peak_rss_bytes() - before < 100 * MIB
    connection.close()
    server.becomes_idle()


def test_bodies_with_too_many_values_are_refused_before_they_are_parsed(target, liveness):
    before = target.peak_rss_bytes()
    bodies = [b'{"x":[' + b'[""],' * 6_000_000 + b'1],"prompt":"a","max_tokens":1}', b'{"x":[' + b"1," * 15_000_000 + b"1]}"]
    with liveness(target):
        # Several times, so that the 99th percentile is not the time of a single request.
        for body in bodies * 8:
            response = post(target, "/v1/completions", body)
            assert response.status_code == 413
            assert "too many values" in response.json()["error"]["message"]
    assert target.peak_rss_bytes() - before < 200 * MIB
    deep = b'{"x":' + b'{"a":' * 90 + b"1" + b"}" * 90 + b',"prompt":"a","max_tokens":1}'
    assert post(target, "/v1/completions", deep).status_code == 200


def test_a_query_is_not_repeated_without_limit(start_server):
    server = start_server("--runner", "pooling")
    body = {"query": "q" * 20000, "documents": ["d"] * 4096}
    response = post(server, "/rerank", body)
    assert response.status_code == 400
    assert "limit" in response.json()["error"]["message"]


def test_prompt_logprobs_are_not_repeated_without_limit(target):
    body = {"prompt": "a " * 200, "n": 200, "max_tokens": 1, "echo": True, "logprobs": 20, "temperature": 1}
    copies = {**body, "prompt": ["a " * 200] * 80}
    response = post(target, "/v1/completions", copies)
    assert response.status_code == 400
    assert "log-probabilities" in response.json()["error"]["message"]


@pytest.mark.parametrize("text", ["a", "1", "thequickbrownfox", "hello world "])
def test_tokenizing_needs_at_most_24_bytes_per_byte_of_text(start_server, text):
    server = start_server()
    body = json.dumps({"prompt": text * (15_000_000 // len(text))})
    before = server.peak_rss_bytes()
    assert post(server, "/tokenize", body).json()["count"] > 1_000_000
    assert server.peak_rss_bytes() - before < 24 * len(body)


def test_health_responds_while_large_texts_are_tokenized(start_server, liveness):
    server = start_server()
    letters = b'{"prompt":"' + b"a" * 30_000_000 + b'"}'
    truncated = b'{"max_tokens":1,"truncate_prompt_tokens":5,"prompt":"' + b"b" * 30_000_000 + b'"}'
    with liveness(server) as measured:
        connections = [send_only(server, "/tokenize", letters) for _ in range(5)]
        connections.append(send_only(server, "/v1/completions", truncated))
        end = time.monotonic() + 5
        while time.monotonic() < end:
            assert post(server, "/v1/completions", {"prompt": "a", "max_tokens": 1}).status_code == 200
        assert httpx.get(server.url + "/metrics", timeout=10).status_code == 200
    assert len(measured.seconds) > 50
    # The work is cancelled with its clients.
    for connection in connections:
        connection.close()
    end = time.monotonic() + 8
    while server.metric("quire:http_requests_in_flight") > 1:
        assert time.monotonic() < end
        time.sleep(0.05)
    used = server.cpu_seconds()
    time.sleep(1)
    assert server.cpu_seconds() - used < 0.5


def test_sigterm_is_obeyed_while_large_texts_are_tokenized(start_server):
    server = start_server()
    letters = b'{"prompt":"' + b"a" * 30_000_000 + b'"}'
    connections = [send_only(server, "/tokenize", letters) for _ in range(3)]
    time.sleep(1.5)
    begin = time.monotonic()
    server.terminate()
    assert server.wait(30) == 0
    assert time.monotonic() - begin < 5
    for connection in connections:
        connection.close()


def test_ids_are_detokenized_in_bounded_time(target, liveness):
    body = b'{"tokens":[' + b"300," * 2_000_000 + b"300]}"
    with liveness(target):
        assert post(target, "/detokenize", body).status_code == 200


def test_large_responses_do_not_block_other_requests(start_server, liveness):
    server = start_server("--max-num-seqs", "64")
    body = {"prompt": ["once upon a time " * 60] * 40, "max_tokens": 0, "echo": True, "logprobs": 20}
    with liveness(server):
        threads = [threading.Thread(target=post, args=(server, "/v1/completions", body, 300)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def test_lines_before_a_request_cost_linear_time(target, liveness):
    with liveness(target), target.connect() as connection:
        begin = time.monotonic()
        try:
            for _ in range(200):
                connection.sendall(b"\r\n" * 32768)
        except OSError:
            pass  # refused: there is a limit
        assert time.monotonic() - begin < 5


def test_slow_headers_end_with_their_timeout(start_server):
    server = start_server("--http-header-timeout", "1s")
    with server.connect() as connection:
        begin = time.monotonic()
        connection.sendall(b"GET /health HTTP/1.1\r\n")
        # Sending fails when the server has closed the connection, not only its own side of it.
        with pytest.raises(OSError):
            while time.monotonic() - begin < 15:
                connection.sendall(b"X: y\r\n")
                time.sleep(0.05)
        assert time.monotonic() - begin < 5


def test_streams_without_keep_alive_comments_use_no_cpu(start_server):
    server = start_server("--stream-keep-alive", "0", slow=True)
    body = json.dumps({"prompt": "a", "max_tokens": 1, "stream": True})
    response = post(server, "/v1/completions", body)
    assert response.status_code == 200
    assert b": keep-alive" not in response.content
