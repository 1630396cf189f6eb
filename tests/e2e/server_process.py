"""`quire serve` as a child process, for end-to-end tests. QUIRE_BINARY is the executable (default build/release/quire),
QUIRE_MODEL a model directory (default: the embedded model)."""

import functools
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import threading
import time

import httpx
import openai
import pytest
from slow_model import slow_model

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("QUIRE_BINARY", ROOT / "build" / "release" / "quire"))
LISTENING = re.compile(r"Listening on (http://\S+)")
# A small pool, so that a leak of blocks shows and a test machine need not be large.
DEFAULT_FLAGS = ["--kv-cache-memory", "64MiB"]

# The servers speak plain HTTP, but httpx makes a TLS context for each client and each httpx.get(). That takes 30 ms, more than
# most requests, so all share one.
ssl.create_default_context = functools.cache(ssl.create_default_context)


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
        begin = time.monotonic()
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
                    self.startup_s = time.monotonic() - begin
                    listening.set()
            listening.set()

        self.reader = threading.Thread(target=read, daemon=True)
        self.reader.start()
        listening.wait(60)
        if self.url is None:
            self.process.kill()
            pytest.fail("the server did not start:\n" + "".join(self.log))
        self.host, port = self.url.removeprefix("http://").rsplit(":", 1)
        self.port = int(port)

    def client(self, **options):
        options = {"api_key": "none", "max_retries": 0, "timeout": 120, **options}
        return openai.OpenAI(base_url=self.url + "/v1", **options)

    def async_client(self, **options):
        options = {"api_key": "none", "max_retries": 0, "timeout": 300, **options}
        return openai.AsyncOpenAI(base_url=self.url + "/v1", **options)

    def http(self, **options):
        return httpx.Client(base_url=self.url, timeout=60, **options)

    def connect(self):
        return socket.create_connection((self.host, self.port), timeout=30)

    def metrics(self, *names):
        """The sum of each metric over its labels, all from one response."""
        text = httpx.get(self.url + "/metrics", timeout=30).text
        sums = []
        for name in names:
            values = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if re.match(re.escape(name) + r"[{ ]", line)]
            assert values, f"/metrics has no {name}"
            sums.append(sum(values))
        return sums

    def metric(self, name):
        return self.metrics(name)[0]

    def becomes_busy(self, num_requests, seconds=10):
        """Waits until so many requests run or wait. The engine updates these metrics once per step."""
        end = time.monotonic() + seconds
        while sum(self.metrics("quire:num_requests_running", "quire:num_requests_waiting")) < num_requests:
            assert time.monotonic() < end, f"less than {num_requests} requests run or wait"
            time.sleep(0.01)

    def becomes_idle(self, seconds):
        """Whether, within `seconds`, no request runs, waits or holds KV blocks."""
        end = time.monotonic() + seconds
        names = ["quire:num_requests_running", "quire:num_requests_waiting", "quire:kv_cache_usage_perc"]
        while True:
            state = self.metrics(*names)
            if not any(state):
                return True
            if time.monotonic() > end:
                print("still busy:", dict(zip(names, state)))
                return False
            time.sleep(0.01)

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_rss_bytes(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024

    def rss_bytes(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    def terminate(self, sig=signal.SIGTERM):
        self.process.send_signal(sig)

    def wait(self, seconds=60):
        return self.process.wait(seconds)

    def stop(self):
        if self.process.poll() is None:
            self.terminate()
            try:
                self.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.wait()
        self.reader.join(5)
        if not self.reader.is_alive():
            self.process.stderr.close()
