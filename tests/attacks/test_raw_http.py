"""Byte strings sent to the port, and the status of the response; 0 = the connection is closed without a response."""

import re
import socket

import pytest

HOST = b"Host: localhost\r\n"
BODY = b'{"prompt":"a","max_tokens":1}'


def post(fields, body=BODY, version=b"1.1"):
    return b"POST /v1/completions HTTP/" + version + b"\r\n" + HOST + fields + b"\r\n" + body


def get(fields=b"", target=b"/health", version=b"1.1", host=HOST):
    return b"GET " + target + b" HTTP/" + version + b"\r\n" + host + fields + b"\r\n"


LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)

TABLE = {
    # What is right.
    "get": (get(), 200),
    "get-http-1.0": (get(version=b"1.0", host=b""), 200),
    "post-length": (post(LENGTH), 200),
    "post-chunked": (post(CHUNKED, CHUNKS), 200),
    "post-chunk-extension": (post(CHUNKED, b"%x;a=b\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)), 200),
    "post-trailer": (post(CHUNKED, b"%x\r\n%s\r\n0\r\nX: y\r\n\r\n" % (len(BODY), BODY)), 200),
    "empty-lines-first": (b"\r\n\r\n" + get(), 200),
    "absolute-target": (get(target=b"http://localhost/health"), 200),
    "expect-continue": (post(b"Expect: 100-continue\r\n" + LENGTH), 200),
    "space-around-value": (get(b"X:  \t y \t \r\n"), 200),
    # Request lines.
    "no-version": (b"GET /health\r\n" + HOST + b"\r\n", 400),
    "http-0.9": (b"GET /health\r\n\r\n", 400),
    "http-2": (get(version=b"2.0"), 505),
    "http-1.2-garbage": (get(version=b"1.x"), 400),
    "preface-of-http-2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "tls-hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 50 + b"\r\n\r\n", 400),
    "nul-in-target": (get(target=b"/hea\x00lth"), 400),
    "nul-escaped-in-target": (get(target=b"/health%00"), 400),
    "bad-escape": (get(target=b"/health%zz"), 400),
    "space-in-target": (get(target=b"/health x"), 400),
    "lf-only": (b"GET /health HTTP/1.1\nHost: localhost\n\n", 400),
    "long-target": (get(target=b"/" + b"a" * 70000), 431),
    "dot-segments": (get(target=b"/v1/../health"), 404),
    "double-slash": (get(target=b"//health"), 404),
    # Hosts.
    "no-host": (get(host=b""), 400),
    "two-hosts": (get(host=HOST + b"Host: other\r\n"), 400),
    "same-host-twice": (get(host=HOST + HOST), 400),
    "host-with-space": (get(host=b"Host: a b\r\n"), 400),
    "host-with-path": (get(host=b"Host: localhost/x\r\n"), 400),
    "host-with-user": (get(host=b"Host: localhost@evil\r\n"), 400),
    "empty-host": (get(host=b"Host: \r\n"), 403),
    "foreign-host": (get(host=b"Host: attacker.example\r\n"), 403),
    "foreign-absolute-target": (get(target=b"http://attacker.example/health", host=b"Host: attacker.example\r\n"), 403),
    # Header fields.
    "folded": (get(b"X: a\r\n b\r\n"), 400),
    "folded-tab": (get(b"X: a\r\n\tb\r\n"), 400),
    "folded-first": (b"GET /health HTTP/1.1\r\n " + HOST + b"\r\n", 400),
    "space-before-colon": (get(b"X : y\r\n"), 400),
    "no-colon": (get(b"X y\r\n"), 400),
    "empty-name": (get(b": y\r\n"), 400),
    "nul-in-value": (get(b"X: a\x00b\r\n"), 400),
    "cr-in-value": (get(b"X: a\rb\r\n"), 400),
    "long-header": (get(b"X: " + b"a" * 70000 + b"\r\n"), 431),
    "many-headers": (get(b"X: y\r\n" * 20000), 431),
    "many-empty-lines-first": (b"\r\n" * 6_000_000 + get(), 431),
    # Lengths of bodies.
    "gzip-chunked": (post(b"Transfer-Encoding: gzip, chunked\r\n", CHUNKS), 501),
    "gzip-then-chunked-fields": (post(b"Transfer-Encoding: gzip\r\n" + CHUNKED, CHUNKS), 501),
    "chunked-twice": (post(CHUNKED + CHUNKED, CHUNKS), 400),
    "chunked-then-identity": (post(b"Transfer-Encoding: chunked, identity\r\n", CHUNKS), 501),
    "identity": (post(b"Transfer-Encoding: identity\r\n" , BODY), 501),
    "obscured-chunked": (post(b"Transfer-Encoding: xchunked\r\n", CHUNKS), 501),
    "chunked-http-1.0": (post(CHUNKED, CHUNKS, version=b"1.0"), 400),
    "chunked-and-length": (post(CHUNKED + LENGTH, CHUNKS), 400),
    "two-lengths": (post(b"Content-Length: 5\r\n" + LENGTH), 400),
    "length-list": (post(b"Content-Length: 5, 6\r\n"), 400),
    "length-with-sign": (post(b"Content-Length: +5\r\n"), 400),
    "length-negative": (post(b"Content-Length: -5\r\n"), 400),
    "length-hex": (post(b"Content-Length: 0x5\r\n"), 400),
    "length-too-large": (post(b"Content-Length: 99999999999999999999999\r\n"), 400),
    "length-above-limit": (post(b"Content-Length: 99999999999\r\n"), 413),
    "chunk-size-bad": (post(CHUNKED, b"zz\r\na\r\n0\r\n\r\n"), 400),
    "chunk-size-signed": (post(CHUNKED, b"-1\r\na\r\n0\r\n\r\n"), 400),
    "chunk-size-overflow": (post(CHUNKED, b"fffffffffffffffff\r\na\r\n0\r\n\r\n"), 400),
    "chunk-without-end": (post(CHUNKED, b"1\r\nabc\r\n0\r\n\r\n"), 400),
    # Expectations and types.
    "expect-unknown": (post(b"Expect: 200-ok\r\n" + LENGTH), 417),
    "expect-twice": (post(b"Expect: 100-continue\r\nExpect: other\r\n" + LENGTH), 417),
    "text-plain": (post(b"Content-Type: text/plain\r\n" + LENGTH), 415),
    "form": (post(b"Content-Type: application/x-www-form-urlencoded\r\n" + LENGTH), 415),
    "gzip-body": (post(b"Content-Encoding: gzip\r\n" + LENGTH), 415),
    "json-with-charset": (post(b"Content-Type: application/json; charset=utf-8\r\n" + LENGTH), 200),
    # Methods and paths.
    "unknown-method": (b"BREW /health HTTP/1.1\r\n" + HOST + b"\r\n", 405),
    "connect": (b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + b"\r\n", 404),
    "options-star": (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", 204),
    "trace": (b"TRACE /health HTTP/1.1\r\n" + HOST + b"\r\n", 405),
    "upgrade-to-websocket": (get(b"Upgrade: websocket\r\nConnection: Upgrade\r\n"), 200),
}


def final_status(connection):
    """The status of the first response that is not 100; 0 if there is none."""
    data = b""
    while True:
        while b"\r\n\r\n" not in data:
            try:
                more = connection.recv(65536)
            except ConnectionResetError:
                more = b""
            if not more:
                return 0, data
            data += more
        head, data = data.split(b"\r\n\r\n", 1)
        status = int(head.split(b" ")[1])
        if status != 100:
            return status, head


def send(server, data, pieces):
    with server.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if pieces:
                for i in range(len(data)):
                    connection.sendall(data[i:i + 1])
            else:
                connection.sendall(data)
        except OSError:
            pass  # refused before the end
        return final_status(connection)


@pytest.mark.parametrize("name", TABLE)
def test_status_of(target, name):
    data, expected = TABLE[name]
    status, head = send(target, data, False)
    assert status == expected, head
    # Without CRLF the header does not end: in pieces, the rest is waited for.
    if len(data) < 1000 and name != "lf-only":
        status, head = send(target, data, True)
        assert status == expected, ("byte by byte", head)


def test_bytes_after_a_refused_request_are_not_a_request(target):
    hidden = b"GET /v1/models HTTP/1.1\r\n" + HOST + b"\r\n"
    for data, expected in TABLE.values():
        if expected in (400, 417, 501, 505):
            with target.connect() as connection:
                connection.sendall(data + hidden)
                received = b""
                try:
                    while more := connection.recv(65536):
                        received += more
                except OSError:
                    pass
                assert len(re.findall(rb"HTTP/1\.1 \d{3} ", received)) <= 1, received
