"""Measures how long /health takes while something else happens."""

import http.client
import os
import threading
import time

# Sanitizers make everything slower, so that only hangs are found with them.
LIMIT_S = float(os.environ.get("QUIRE_LIVENESS_LIMIT_S", "0.1"))


class Liveness:
    def __init__(self, server, limit_s=LIMIT_S):
        self.server = server
        self.limit_s = limit_s
        self.seconds = []
        self.failures = []
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        while not self.done.is_set():
            begin = time.monotonic()
            try:
                connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=60)
                connection.request("GET", "/health")
                status = connection.getresponse().status
                if status != 200:
                    self.failures.append(status)
                connection.close()
            except OSError as error:
                self.failures.append(repr(error))
            self.seconds.append(time.monotonic() - begin)
            self.done.wait(0.02)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, value, traceback):
        self.done.set()
        self.thread.join(90)
        if kind is not None:
            return
        assert not self.failures, self.failures[:5]
        assert self.p99() < self.limit_s, f"/health took {self.p99():.3f} s (99th percentile of {len(self.seconds)})"

    def p99(self):
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
