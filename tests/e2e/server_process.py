"""`quire serve` as a child process, for end-to-end tests. QUIRE_BINARY is the executable (default build/release/quire),
QUIRE_MODEL a model directory (default: the embedded model)."""

import contextlib
import functools
import os
import pathlib
import random
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

import httpx
import openai
import pytest
from slow_model import slow_model

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))  # for scripts; conftest.py does it for tests

from waiting import HANG_S, attempts, wait_until  # noqa: E402

BINARY = pathlib.Path(os.environ.get("QUIRE_BINARY", ROOT / "build" / "release" / "quire"))
LISTENING = re.compile(r"Listening on (http://\S+)")
# A small pool, so that a leak of blocks shows and a test machine need not be large.
DEFAULT_FLAGS = ["--kv-cache-memory", "64MiB"]

# The servers speak plain HTTP, but httpx makes a TLS context for each client and each httpx.get(). That takes 30 ms, more than
# most requests, so all share one.
ssl.create_default_context = functools.cache(ssl.create_default_context)


def free_port():
    """An unused port that connections of other processes do not take meanwhile: their own ports are 32768 and above."""
    for port in random.sample(range(20000, 32768), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    pytest.fail("no port is free")


class ServerProcess:
    """`quire serve` on a free port. slow: a slow model and the generic kernels, so that requests still run when a test sends
    the next ones."""

    def __init__(self, *flags, slow=False):
        if not BINARY.exists():
            pytest.fail(f"{BINARY} does not exist: build it first or set QUIRE_BINARY")
        model = slow_model() if slow else os.environ.get("QUIRE_MODEL")
        command = [str(BINARY), "serve", *([str(model)] if model else []), *flags]
        if "--port" not in flags:
            command += ["--port", "0"]
        if DEFAULT_FLAGS[0] not in flags:
            command += DEFAULT_FLAGS
        environment = {**os.environ, "QUIRE_CPU_ISA": "generic"} if slow else None
        # A line that stderr does not accept as a whole may end inside a character.
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8", errors="backslashreplace", env=environment)
        self.log = []
        self.url = None
        listening = threading.Event()

        def read():
            for line in self.process.stderr:
                self.log.append(line)
                found = LISTENING.search(line)
                if found:
                    self.url = found.group(1)
                    listening.set()
            listening.set()

        self.reader = threading.Thread(target=read, daemon=True)
        self.reader.start()
        listening.wait(HANG_S)
        if self.url is None:
            self.process.kill()
            pytest.fail("the server did not start:\n" + "".join(self.log))
        self.host, port = self.url.removeprefix("http://").rsplit(":", 1)
        self.port = int(port)

    def client(self, **options):
        options = {"api_key": "none", "max_retries": 0, "timeout": HANG_S, **options}
        return openai.OpenAI(base_url=self.url + "/v1", **options)

    def async_client(self, **options):
        options = {"api_key": "none", "max_retries": 0, "timeout": 2 * HANG_S, **options}
        return openai.AsyncOpenAI(base_url=self.url + "/v1", **options)

    def http(self, **options):
        return httpx.Client(base_url=self.url, timeout=HANG_S, **options)

    def get(self, path):
        return httpx.get(self.url + path, timeout=HANG_S)

    def post(self, path, **options):
        return httpx.post(self.url + path, timeout=HANG_S, **options)

    def connect(self):
        return socket.create_connection((self.host, self.port), timeout=HANG_S)

    def metrics(self, *names, label=""):
        """The sum of each metric over its labels, or over the series with one label, NAME="VALUE"; all from one response."""
        text = httpx.get(self.url + "/metrics", timeout=HANG_S).text
        sums = []
        for name in names:
            lines = [line for line in text.splitlines() if re.match(re.escape(name) + r"[{ ]", line) and label in line]
            assert lines, f"/metrics has no {name} {label}"
            sums.append(sum(float(line.rsplit(" ", 1)[1]) for line in lines))
        return sums

    def metric(self, name, label=""):
        return self.metrics(name, label=label)[0]

    def num_aborted(self):
        """Samples that ended before they were complete, because their clients left."""
        return self.metric("quire:request_success_total", 'finished_reason="abort"')

    def becomes_busy(self, num_requests):
        """Waits until so many requests run or wait. The engine updates these metrics once per step."""
        wait_until(lambda: sum(self.metrics("quire:num_requests_running", "quire:num_requests_waiting")) >= num_requests,
                   f"less than {num_requests} requests run or wait")

    def becomes_idle(self):
        """Waits until no request runs, waits or holds KV blocks. That alone does not show that a request was aborted: each ends in time."""
        names = ["quire:num_requests_running", "quire:num_requests_waiting", "quire:kv_cache_usage_perc"]
        wait_until(lambda: not any(self.metrics(*names)), lambda: f"still busy: {dict(zip(names, self.metrics(*names)))}")

    def thread_states(self):
        """For each thread, whether it sleeps (S), runs or wants to run (R), and how often it has left a CPU."""
        states = {}
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            try:
                status = (task / "status").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # the thread has ended
            states[task.name] = (re.search(r"^State:\s+(\S)", status, re.MULTILINE)[1],
                                 sum(map(int, re.findall(r"ctxt_switches:\s+(\d+)", status))))
        return states

    def becomes_quiet(self, pause_s=0.05):
        """Waits for a pause in which all threads sleep and none wakes up. There is none if a thread spins, or polls more often than this."""
        for _ in attempts(lambda: f"threads never rest: {self.thread_states()}"):
            before = self.thread_states()
            time.sleep(pause_s)
            if self.thread_states() == before and all(state == "S" for state, _ in before.values()):
                return

    def peak_rss_bytes(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024

    def rss_bytes(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    def terminate(self, sig=signal.SIGTERM):
        self.process.send_signal(sig)

    def wait(self, seconds=HANG_S):
        """The exit status."""
        return self.process.wait(seconds)

    def stop(self):
        if self.process.poll() is None:
            self.terminate()
            try:
                self.wait()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.wait()
        self.reader.join(HANG_S)
        if not self.reader.is_alive():
            self.process.stderr.close()
