"""Measures how long /health takes while the server works on requests that cost much. Exits with 1 if the 99th percentile of one of them
exceeds the bound of docs/reliability.md.

Usage: health.py [--seconds S] [NAME...]       default: all
"""

import argparse
import contextlib
import http.client
import json
import pathlib
import socket
import sys
import threading
import time

TESTS = pathlib.Path(__file__).resolve().parents[2] / "tests"
sys.path[:0] = [str(TESTS / folder) for folder in ("e2e", "support", "attacks")]

from first_token import quantile  # noqa: E402
from held_request import request_head  # noqa: E402
from server_process import ServerProcess  # noqa: E402

BOUND_S = 0.1
PAUSE_S = 0.02
LOGPROBS = {"prompt": ["once upon a time " * 60] * 40, "max_tokens": 0, "echo": True, "logprobs": 20}
TEMPLATE = "{% for i in range(10000) %}{% for j in range(10000) %}x{% endfor %}{% endfor %}"
# name: (path, function that makes the body, requests at once)
REQUESTS = {
    "letters": ("/tokenize", lambda: b'{"prompt":"' + b"a" * 30_000_000 + b'"}', 5),
    "ignored_arrays": ("/v1/completions", lambda: b'{"x":[' + b'[""],' * 6_000_000 + b'1],"prompt":"a","max_tokens":1}', 1),
    "ignored_numbers": ("/v1/completions", lambda: b'{"x":[' + b"1," * 15_000_000 + b"1]}", 1),
    "ids": ("/detokenize", lambda: b'{"tokens":[' + b"300," * 2_000_000 + b"300]}", 1),
    "large_response": ("/v1/completions", lambda: json.dumps(LOGPROBS).encode(), 3),
    "template": ("/v1/chat/completions", lambda: json.dumps({"messages": [{"role": "user", "content": "hi"}], "chat_template": TEMPLATE}).encode(), 4),
}


def send_repeatedly(server, path, body, done):
    while not done.is_set():
        with contextlib.suppress(OSError), socket.create_connection((server.host, server.port)) as connection:
            connection.settimeout(1)
            connection.sendall(request_head(path, len(body)) + body)
            while not done.is_set():
                with contextlib.suppress(TimeoutError):
                    data = connection.recv(1 << 20)
                    if not data or len(data) < 1 << 16:  # about the end of the response
                        break


def health_times(server, seconds):
    times = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begin = time.monotonic()
        connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        connection.close()
        times.append(time.monotonic() - begin)
        time.sleep(PAUSE_S)
    return sorted(times)


def measure(name, seconds):
    path, make, count = REQUESTS[name]
    body = make()
    server = ServerProcess("--trust-request-chat-template")
    done = threading.Event()
    threads = [threading.Thread(target=send_repeatedly, args=(server, path, body, done)) for _ in range(count)]
    try:
        for thread in threads:
            thread.start()
        return health_times(server, seconds)
    finally:
        done.set()
        for thread in threads:
            thread.join()
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(REQUESTS))
    parser.add_argument("--seconds", type=float, default=8.0, help="per request")
    arguments = parser.parse_args()
    exceeded = False
    for name in arguments.names or REQUESTS:
        times = measure(name, arguments.seconds)
        p99 = quantile(times, 0.99)
        exceeded = exceeded or p99 >= BOUND_S
        print(f"{name}: /health median {1e3 * times[len(times) // 2]:.2f} ms, p99 {1e3 * p99:.2f} ms (bound {1e3 * BOUND_S:.0f} ms), "
              f"{len(times)} checks", flush=True)
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
