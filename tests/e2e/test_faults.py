"""The real program while single calls fail: memory, files, threads, connections.

Each round makes the k-th call of one kind fail on one thread while a scripted session runs. What is allowed: the right answer, a
clean error, or a clean exit with a non-zero status. What is not: a hang, a signal, a wrong answer, or a server that says it is
healthy and then does not answer. Each test tries a random sample of k, QUIRE_FAULT_ROUNDS of them (default 6).
QUIRE_FAULT_CALLS=FIRST-LAST tries every k in a range instead."""

import os
import random
import subprocess

import httpx
import pytest
from server_process import BINARY, ServerProcess, free_port
from faults.control import FaultControl, build_library
from waiting import HANG_S, attempts

ROUNDS = int(os.environ.get("QUIRE_FAULT_ROUNDS", "6"))
CALLS = os.environ.get("QUIRE_FAULT_CALLS")
pytestmark = pytest.mark.timeout(0 if CALLS else 300 + 10 * ROUNDS)
PROMPT = "Once upon a time there was a little girl who lived in a small house by the sea. " * 3


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build_library(tmp_path_factory.mktemp("interpose"))


class FaultyServer:
    def __init__(self, library, directory):
        self.faults = FaultControl(directory)
        self.num_others = 0
        os.environ.update(self.faults.environment(library))
        try:
            self.server = ServerProcess(
                "--threads", "2", "--kv-cache-memory", "1MiB", "--max-model-len", "256", "--kv-disk-cache", str(directory / "kv"),
                "--kv-disk-cache-size", "64MiB", "--shutdown-timeout", "5", "--log-requests",
            )
        finally:
            for name in ("LD_PRELOAD", "QUIRE_FAULTS"):
                del os.environ[name]

    def complete(self, text, max_tokens):
        """The text, or None for a clean error."""
        body = {"model": "quire-tiny", "prompt": text, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True}
        try:
            answer = httpx.post(self.server.url + "/v1/completions", json=body, timeout=HANG_S)
        except httpx.TimeoutException:
            raise AssertionError("a request hangs")
        except httpx.HTTPError:
            return None  # the connection was refused or closed
        return answer.json()["choices"][0]["text"] if answer.status_code == 200 else None

    def stream(self, text, max_tokens):
        body = {"model": "quire-tiny", "prompt": text, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, "stream": True}
        try:
            with httpx.stream("POST", self.server.url + "/v1/completions", json=body, timeout=HANG_S) as answer:
                lines = [line for line in answer.iter_lines() if line.startswith("data: ")]
        except httpx.TimeoutException:
            raise AssertionError("a stream hangs")
        except httpx.HTTPError:
            return None
        return lines

    def session(self):
        """Requests of several kinds. Returns the completions. The prompts of others evict the first one to the disk."""
        texts = [self.complete(PROMPT, 24), self.complete("The dog", 8)]
        for _ in range(3):
            self.num_others += 1
            self.complete(f"{self.num_others} " + PROMPT * 2, 1)
        self.stream("One day", 8)
        messages = [{"role": "user", "content": "Tell me a story."}]
        for path, body in (
            ("/metrics", None),
            ("/v1/models", None),
            ("/health", None),
            ("/v1/chat/completions", {"messages": messages, "max_tokens": 4, "logprobs": True, "top_logprobs": 2, "n": 2}),
            ("/tokenize", {"messages": messages}),
            ("/tokenize", {"prompt": "a dog " * 20000}),  # received by the thread for large bodies
            ("/v1/completions", {"prompt": ["a", "b"], "max_tokens": 2, "logprobs": 1, "echo": True, "unknown": {"x": [1, 2]}}),
        ):
            method = "GET" if body is None else "POST"
            try:
                httpx.request(method, self.server.url + path, json=body, timeout=HANG_S)
            except httpx.TimeoutException:
                raise AssertionError(f"{path} hangs")
            except httpx.HTTPError:
                pass
        return texts

    def healthy(self):
        try:
            return httpx.get(self.server.url + "/health", timeout=HANG_S).status_code == 200
        except httpx.TimeoutException:
            raise AssertionError("/health hangs")
        except httpx.HTTPError:
            return False

    def log(self):
        return "".join(self.server.log[-20:])


def check_outcome(faulty, texts, expected, what):
    """Raises AssertionError unless the server is well or has ended cleanly. Returns whether it still runs."""
    for text, right in zip(texts, expected):
        assert text is None or text == right, f"{what}: a wrong answer"
    process = faulty.server.process
    if process.poll() is None and not faulty.healthy():
        try:
            faulty.server.wait()
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{what}: unhealthy, and still running\n{faulty.log()}")
    if process.poll() is not None:
        assert process.returncode > 0, f"{what}: exit status {process.returncode}\n{faulty.log()}"
        return False
    assert faulty.complete("The dog", 8) == expected[1], f"{what}: healthy, but a request fails\n{faulty.log()}"
    return True


# The calls of each thread that a session makes.
TARGETS = [
    ("malloc", "quire-engine"),
    ("malloc", "quire-worker"),
    ("malloc", "quire-kv-disk"),
    ("malloc", "quire-http"),
    ("malloc", "quire-receive"),
    ("malloc", "quire-work"),
    ("pread", "quire-kv-disk"),
    ("pwrite", "quire-kv-disk"),
    ("mmap", "quire-engine"),
    ("write", ""),
    ("accept", ""),
]


def failing_calls(seed, first, last):
    """The numbers of the calls that fail: the first one and a random sample of the others, or those of QUIRE_FAULT_CALLS."""
    if CALLS is not None:
        begin, end = map(int, CALLS.split("-"))
        return range(begin, min(end, last) + 1)
    others = range(first + 1, last + 1)
    return [first, *random.Random(seed).sample(others, min(ROUNDS - 1, len(others)))]


# Whether these threads make the call in a session depends on its timing.
SOMETIMES = [("malloc", "quire-worker"), ("malloc", "quire-kv-disk"), ("pread", "quire-kv-disk"), ("mmap", "quire-engine")]


@pytest.mark.parametrize("call,thread", TARGETS, ids=[f"{call}-{thread or 'any'}" for call, thread in TARGETS])
def test_a_failing_call_is_an_error_and_nothing_worse(library, tmp_path, call, thread):
    faulty = FaultyServer(library, tmp_path)
    expected = faulty.session()
    assert None not in expected
    faulty.faults.arm(call, thread, 0)
    faulty.session()
    num_calls, _ = faulty.faults.disarm()
    rounds, hits, exits = 0, 0, 0
    try:
        for failing in failing_calls(f"{call} {thread}", 1, num_calls):
            faulty.faults.arm(call, thread, failing)
            texts = faulty.session()
            _, fired = faulty.faults.disarm()
            rounds += 1
            hits += fired
            if not check_outcome(faulty, texts, expected, f"{call} number {failing} on {thread or 'any thread'}"):
                exits += 1
                faulty = FaultyServer(library, tmp_path)
        print(f"{call} on {thread or 'any thread'}: {num_calls} calls, {rounds} rounds, {hits} failures, {exits} clean exits")
        assert hits > 0 or (call, thread) in SOMETIMES, "no round hit anything"
    finally:
        faulty.server.stop()


def fail_calls_of_a_start(call, num_calls, run):
    """Calls run(k), which returns whether the k-th call failed, for a random sample of k or for those in QUIRE_FAULT_CALLS."""
    # CLI11 has objects with static storage duration that allocate before main(), where nothing can be caught.
    first = 500 if call == "malloc" else 1
    hits = sum(run(failing) for failing in failing_calls(call, first, num_calls))
    assert hits > 0 or num_calls == 0, "no round hit anything"


@pytest.mark.parametrize("call", ["malloc", "mmap", "thread", "pread", "write"])
def test_a_start_that_fails_says_why(library, tmp_path, call):
    """`quire generate` with the k-th call of the whole process failing: the right text, or an error and status 1."""
    command = [str(BINARY), "generate", "--prompt", "The dog", "--max-tokens", "4", "--temperature", "0", "--threads", "2",
               "--kv-cache-memory", "8MiB"]
    right = subprocess.run(command, capture_output=True, timeout=HANG_S).stdout
    faults = FaultControl(tmp_path)
    environment = {**os.environ, **faults.environment(library)}

    def run(failing):
        faults.arm(call, "", failing)
        done = subprocess.run(command, capture_output=True, timeout=HANG_S, env=environment)
        return done, *faults.disarm()

    _, num_calls, _ = run(0)

    def check(failing):
        done, _, fired = run(failing)
        what = f"{call} number {failing} of {num_calls}: status {done.returncode}\n{done.stderr.decode()[-2000:]}"
        assert done.returncode >= 0, what
        if done.returncode == 0:
            assert done.stdout == right or call == "write", what
        else:
            assert done.stderr.strip(), what
        return fired

    fail_calls_of_a_start(call, num_calls, check)


@pytest.mark.parametrize("call", ["malloc", "mmap", "thread"])
def test_a_server_start_that_fails_says_why(library, tmp_path, call):
    """`quire serve` with the k-th call of the whole process failing: a server that responds and stops, or an error and status 1."""
    port = free_port()
    command = [str(BINARY), "serve", "--port", str(port), "--threads", "2", "--kv-cache-memory", "8MiB", "--shutdown-timeout", "5"]
    faults = FaultControl(tmp_path)
    environment = {**os.environ, **faults.environment(library)}

    def responds(process):
        """Whether the server responds twice before it ends. Its log may lack the line about listening."""
        responses = 0
        for _ in attempts("the program neither listens nor ends"):
            if responses == 2 or process.poll() is not None:
                return responses == 2
            try:
                httpx.get(f"http://127.0.0.1:{port}/health", timeout=HANG_S)
                responses += 1
            except httpx.TimeoutException:
                raise AssertionError("/health hangs")
            except httpx.HTTPError:
                pass  # it does not listen yet, or the failing call was that of this connection

    def run(failing):
        faults.arm(call, "", failing)
        with (tmp_path / "log").open("w+", encoding="utf-8", errors="backslashreplace") as log:
            process = subprocess.Popen(command, stderr=log, env=environment)
            try:
                ready = responds(process)
                if ready:
                    process.terminate()
                process.wait(HANG_S)
            finally:
                process.kill()
            log.seek(0)
            text = log.read()
        assert process.returncode >= 0, f"{call} number {failing}: status {process.returncode}\n{text}"
        assert ready or (process.returncode > 0 and text.strip()), f"{call} number {failing}: status {process.returncode}, {text}"
        return faults.disarm()

    num_calls, _ = run(0)
    fail_calls_of_a_start(call, num_calls, lambda failing: run(failing)[1])
