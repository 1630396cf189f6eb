"""Large bodies are received and parsed by threads of low priority, so that they delay the streams of other clients as little as possible.
bench/attacks/first_token.py measures how much that is."""

import os

from held_request import HeldRequest, Threads, request_head

MIB = 1 << 20
LETTERS = b'{"prompt":"' + b"a" * (10 * MIB) + b'"}'


def pages(size):
    return size // os.sysconf("SC_PAGE_SIZE")


def test_large_bodies_are_received_and_parsed_at_a_low_priority(start_server):
    """The HTTP threads, which serve the streams of all clients, only notice that a large body arrives."""
    server = start_server()
    threads = Threads(server)
    request = HeldRequest(server, "/tokenize", LETTERS)
    received = threads.pages_touched()
    assert received["quire-receive"] > 0.9 * pages(len(LETTERS)), received
    assert received["quire-http"] < 0.05 * received["quire-receive"], received
    threads.start()
    assert request.release().status() == 200
    parsed = threads.pages_touched()
    assert parsed["quire-work"] > 0.9 * pages(len(LETTERS)), parsed
    assert parsed["quire-http"] < 0.05 * parsed["quire-work"], parsed

    niceness = threads.niceness()
    own = min(niceness["quire-http"])
    assert min(niceness["quire-receive"]) >= min(19, own + 10)
    assert max(niceness["quire-work"]) >= min(19, own + 10)


def stream(server):
    """An endless stream of tokens."""
    body = b'{"prompt":"a","max_tokens":1000,"ignore_eos":true,"stream":true}'
    connection = server.connect()
    connection.sendall(request_head("/v1/completions", len(body)) + body)
    assert connection.recv(65536).startswith(b"HTTP/1.1 200")
    return connection


def test_threads_for_large_bodies_pause_again_and_again_while_the_engine_is_busy(start_server):
    server = start_server(slow=True)
    body = b'{"prompt":"' + b"a" * (3 * MIB) + b'"}'

    def pauses():
        request = HeldRequest(server, "/tokenize", body)
        threads = Threads(server)
        assert request.release().status() == 200
        return threads.waits()["quire-work"]

    with stream(server):
        assert pauses() > 50
    server.becomes_idle()
    assert pauses() < 10
