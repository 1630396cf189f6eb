"""Runs one process per measurement, with a time limit; returns its peak memory and its output."""
from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator


class Failed(Exception):
    """A failed measurement, with the reason."""


@dataclasses.dataclass
class Done:
    stdout: str
    stderr: str
    wall_s: float
    peak_rss: int  # bytes
    cpu_s: float   # of all threads; less than threads * wall_s if other programs use the machine

    def last_json(self) -> dict:
        for line in reversed(self.stdout.splitlines()):
            if line.startswith("{"):
                return json.loads(line)
        raise Failed(f"no JSON in the output: {self.stdout[-300:]!r}")


def _reap(process: subprocess.Popen, limit_s: float) -> tuple[int, resource.struct_rusage, bool]:
    """Waits for the process and takes its resource usage; kills its group after `limit_s`. Returns (status, usage, was killed)."""
    killed = threading.Event()

    def kill() -> None:
        killed.set()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(limit_s, kill)
    timer.start()
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        kill()
        raise
    finally:
        timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage, killed.is_set()


def run(command: list[str], limit_s: float, env: dict[str, str] | None = None) -> Done:
    """Raises Failed if the process fails, prints nothing, or takes longer than `limit_s`."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env={**os.environ, **(env or {})},
                                   start_new_session=True)
        code, usage, killed = _reap(process, limit_s)
        wall = time.perf_counter() - begin
        out.seek(0)
        err.seek(0)
        stdout, stderr = out.read(), err.read()
    if killed:
        raise Failed(f"stopped after its limit of {limit_s:.0f} s")
    if code != 0:
        said = (stderr.strip() or stdout.strip()).splitlines()
        raise Failed(f"exit code {code}: {said[-1][:300] if said else 'nothing said'}")
    return Done(stdout, stderr, wall, usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url + "/health", timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


@contextlib.contextmanager
def server(command: list[str], url: str, start_limit_s: float, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen]:
    """Starts a server and waits until /health responds. Its process group is terminated at the end of the block."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **(env or {})},
                                   start_new_session=True)
        try:
            end = time.monotonic() + start_limit_s
            while not _healthy(url):
                if process.poll() is not None:
                    log.seek(0)
                    raise Failed(f"server ended with exit code {process.returncode}: {log.read()[-300:]!r}")
                if time.monotonic() > end:
                    raise Failed(f"server not healthy after {start_limit_s:.0f} s")
                time.sleep(0.1)
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait(20)


def into_page_cache(path: pathlib.Path) -> None:
    """Reads files once, so that the next process that loads them finds them in the page cache."""
    for file in [path] if path.is_file() else sorted(path.rglob("*")):
        if file.is_file():
            with open(file, "rb", buffering=0) as data:
                while data.read(16 << 20):
                    pass
