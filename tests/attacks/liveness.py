"""Whether /health responds while something else happens. Nothing is timed: checks are counted, and compared with the order of other events."""

import http.client
import threading

import pytest
from held_request import HeldRequest
from waiting import HANG_S, wait_until

# The server assigns new connections to its two HTTP threads in turn, so each thread has two of these.
CONNECTIONS = 4
# An HTTP thread that works on requests itself answers one or two checks between two of them, far less than this.
CHECKS = 10
TRIES = 20


class Liveness:
    """A context in which some connections ask /health again and again. All checks must be answered with status 200."""

    def __init__(self, server):
        self.server = server
        self.answers = [0] * CONNECTIONS
        self.failures = []
        self.done = threading.Event()

    def _ask(self, connection):
        connection.request("GET", "/health")
        response = connection.getresponse()
        response.read()
        assert response.status == 200, response.status

    def _run(self, connection, i):
        try:
            while not self.done.wait(0.002):  # leaves the processor to the server
                self._ask(connection)
                self.answers[i] += 1
        except Exception as error:  # noqa: BLE001
            self.failures.append(repr(error))

    def __enter__(self):
        self.connections = [http.client.HTTPConnection(self.server.host, self.server.port, timeout=HANG_S) for _ in range(CONNECTIONS)]
        for connection in self.connections:
            self._ask(connection)  # one after the other, so that the server accepts them in this order
        self.threads = [threading.Thread(target=self._run, args=each, daemon=True) for each in zip(self.connections, range(CONNECTIONS))]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, kind, value, traceback):
        self.done.set()
        for thread in self.threads:
            thread.join(HANG_S)
        for connection in self.connections:
            connection.close()
        if kind is None:
            assert not self.failures, self.failures

    def each_answers(self, count=CHECKS):
        """Returns when each connection has had so many responses to checks that it sent after the call."""
        wanted = [answers + count + 1 for answers in self.answers]  # the response to one more check may be under way
        wait_until(lambda: self.failures or all(map(int.__ge__, self.answers, wanted)), lambda: f"{self.answers} responses of {wanted}")
        assert not self.failures, self.failures

    def answered_during(self, path, body, status, count=4):
        """Sends a large request `count` times at once. Each connection has to get CHECKS responses before the server has responded to all
        of them. Where HTTP threads do the work, it never does. Otherwise it may happen by chance that the requests end first, so there are
        some tries."""
        for _ in range(TRIES):
            requests = [HeldRequest(self.server, path, body) for _ in range(count)]
            for request in requests:
                request.release()
            self.each_answers()
            in_progress = not all([request.has_response() for request in requests])
            for request in requests:
                assert request.status() == status
                request.close()
            if in_progress:
                return
        pytest.fail(f"{path}: in {TRIES} tries, all requests ended before each HTTP thread had responded to {CHECKS} checks of /health")
