"""Small requests that try to cost much memory or time."""

import json
import os
import threading

import httpx
import pytest
from held_request import HeldRequest, Threads
from waiting import attempts, wait_until

MIB = 1 << 20


def post(server, path, body, timeout=60):
    content = body if isinstance(body, (bytes, str)) else json.dumps(body)
    return httpx.post(server.url + path, content=content, headers={"Content-Type": "application/json"}, timeout=timeout)


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
    assert post(server, "/v1/completions", body).status_code == 200
    assert server.peak_rss_bytes() - before < 100 * MIB


@pytest.mark.parametrize("body,is_long", [(b'{"x":[' + b'[""],' * 6_000_000 + b'1],"prompt":"a","max_tokens":1}', False),
                                          (b'{"x":[' + b"1," * 15_000_000 + b"1]}", True)], ids=["arrays", "numbers"])
def test_bodies_with_too_many_values_are_refused_before_they_are_parsed(target, liveness, body, is_long):
    before = target.peak_rss_bytes()
    with liveness(target):
        response = post(target, "/v1/completions", body)
    assert response.status_code == 413
    assert "too many values" in response.json()["error"]["message"]
    assert target.peak_rss_bytes() - before < 200 * MIB
    if is_long:
        with liveness(target) as checks:
            checks.answered_during("/v1/completions", body, 413)


def test_deep_bodies_are_parsed(target):
    deep = b'{"x":' + b'{"a":' * 90 + b"1" + b"}" * 90 + b',"prompt":"a","max_tokens":1}'
    assert post(target, "/v1/completions", deep).status_code == 200


def test_a_query_is_not_repeated_without_limit(start_server):
    server = start_server("--runner", "pooling")
    body = {"query": "q" * 20000, "documents": ["d"] * 4096}
    response = post(server, "/rerank", body)
    assert response.status_code == 400
    assert "maximum is 1024" in response.json()["error"]["message"]


def test_prompt_logprobs_are_not_repeated_without_limit(target):
    body = {"prompt": "a " * 200, "n": 200, "max_tokens": 1, "echo": True, "logprobs": 20, "temperature": 1}
    copies = {**body, "prompt": ["a " * 200] * 80}
    response = post(target, "/v1/completions", copies)
    assert response.status_code == 400
    assert "log-probabilities" in response.json()["error"]["message"]


# Digits need the most. Their lists are as long as the text, and at this size they fill most of the memory that a doubling list has.
@pytest.mark.parametrize("text,size", [("a", 4_000_000), ("1", 15_000_000), ("thequickbrownfox", 4_000_000), ("hello world ", 4_000_000)])
def test_tokenizing_needs_at_most_24_bytes_per_byte_of_text(start_server, text, size):
    server = start_server()
    body = json.dumps({"prompt": text * (size // len(text))})
    before = server.peak_rss_bytes()
    assert post(server, "/tokenize", body).json()["count"] > 250_000
    assert server.peak_rss_bytes() - before < 24 * len(body)


LETTERS = b'{"prompt":"' + b"a" * 30_000_000 + b'"}'


def pages(size):
    return size // os.sysconf("SC_PAGE_SIZE")


def test_others_are_served_while_large_texts_are_tokenized_and_disconnecting_cancels_that(start_server, liveness):
    server = start_server()
    truncated = b'{"max_tokens":1,"truncate_prompt_tokens":5,"prompt":"' + b"b" * 30_000_000 + b'"}'
    requests = [HeldRequest(server, "/tokenize", LETTERS) for _ in range(5)] + [HeldRequest(server, "/v1/completions", truncated)]
    with liveness(server) as checks:
        for request in requests:
            request.release()
        checks.each_answers()
        for _ in range(10):
            assert post(server, "/v1/completions", {"prompt": "a", "max_tokens": 1}).status_code == 200
        assert httpx.get(server.url + "/metrics", timeout=60).status_code == 200
        assert not all([request.has_response() for request in requests])
        # The work is cancelled with its clients: what is sent next is processed after it, by the same thread, which touches little memory
        # until then. Each of the texts needs 12 bytes per byte.
        threads = Threads(server)
        for request in requests:
            request.close()
        assert post(server, "/tokenize", {"prompt": "a" * (2 * MIB)}).status_code == 200
        assert threads.pages_touched()["quire-work"] < pages(4 * len(LETTERS))
    wait_until(lambda: server.metric("quire:http_requests_in_flight") == 1, "cancelled requests remain in flight")


def test_sigterm_is_obeyed_while_large_texts_are_tokenized(start_server):
    server = start_server("--shutdown-timeout", "60m")
    requests = [HeldRequest(server, "/tokenize", LETTERS).release() for _ in range(3)]
    wait_until(lambda: server.metric("quire:http_requests_in_flight") == 4, "the requests are not in flight")  # and that for metrics
    server.terminate()
    assert server.wait(120) == 0
    # It did not wait for their results.
    for request in requests:
        assert request.status() == 503
        request.close()


def test_ids_are_detokenized_off_the_http_threads(start_server, liveness):
    server = start_server()
    body = b'{"tokens":[' + b"300," * 1_000_000 + b"300]}"
    request = HeldRequest(server, "/detokenize", body)
    threads = Threads(server)
    assert request.release().status() == 200
    touched = threads.pages_touched()
    assert touched["quire-work"] > pages(2 * len(body))
    assert touched["quire-http"] < 0.05 * touched["quire-work"], touched
    with liveness(server) as checks:
        checks.answered_during("/detokenize", body, 200, count=2)


def test_large_responses_are_written_off_the_http_threads(start_server, liveness):
    server = start_server("--max-num-seqs", "64")
    body = {"prompt": ["once upon a time " * 60] * 40, "max_tokens": 0, "echo": True, "logprobs": 20}
    with liveness(server):
        threads = Threads(server)
        response = post(server, "/v1/completions", body, timeout=300)
        assert response.status_code == 200
        touched = threads.pages_touched()
    assert touched["quire-work"] > pages(len(response.content))
    assert touched["quire-http"] < 0.1 * touched["quire-work"], touched


def test_slow_headers_end_with_their_timeout(start_server):
    server = start_server("--http-header-timeout", "1s")
    with server.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\n")
        # Sending fails when the server has closed the connection, not only its own side of it.
        for _ in attempts("header fields postpone the timeout of the header", pause_s=0.05):
            try:
                connection.sendall(b"X: y\r\n")
            except OSError:
                break


def test_streams_without_keep_alive_comments_have_none(start_server):
    server = start_server("--stream-keep-alive", "0", slow=True)
    body = json.dumps({"prompt": "a", "max_tokens": 1, "stream": True})
    response = post(server, "/v1/completions", body)
    assert response.status_code == 200
    assert b": keep-alive" not in response.content
