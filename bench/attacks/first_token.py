"""Measures the time to first token of a small streamed completion, alone and next to attacks.

Windows without and with an attack alternate, so that other programs on the machine affect both. The attackers are separate processes that
send a prepared body over and over. In the control measurement they send it to a process that only reads and discards it: this is the part
that the machine and the attackers themselves cause. The bound is on the 90th percentile next to an attack, relative to the larger one of the
control and of the windows without an attack. Exits with 1 if an attack exceeds it.

Usage: first_token.py [--rounds N] [--seconds S] [--nice N] [--prompt-words N] [ATTACK...]       default: all attacks
QUIRE_MODEL is the directory of another model than the embedded one.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import sys
import time

TESTS = pathlib.Path(__file__).resolve().parents[2] / "tests"
sys.path[:0] = [str(TESTS / folder) for folder in ("e2e", "support", "attacks")]

from held_request import request_head  # noqa: E402

MAX_RATIO = 2.0
CONNECTIONS = 2
PAUSE_S = 0.004  # mean pause between two completions
WORDS = "once upon a time there was little dog who liked to run in the park with his friend and red ball".split()


# name: (path, function that makes the body)
ATTACKS = {
    "tokenize_letters": ("/tokenize", lambda: b'{"prompt":"' + b"a" * 30_000_000 + b'"}'),
    "tokenize_words": ("/tokenize", lambda: b'{"prompt":"' + b"once upon a time " * 50_000 + b'"}'),
    "ignored_arrays": ("/v1/completions", lambda: b'{"x":[' + b'[""],' * 6_000_000 + b'1],"prompt":"a","max_tokens":1}'),
    "ignored_strings": ("/v1/completions", lambda: b'{"x":[' + b'"' + (b"s" * 60 + b'","') * 400_000 + b'"],"prompt":1}'),
    "ignored_numbers": ("/v1/completions", lambda: b'{"x":[' + b"1.25," * 800_000 + b'1],"prompt":1}'),
    "prompts_without_output": ("/v1/completions", lambda: json.dumps({"prompt": ["a" * 200] * 4096, "max_tokens": -1}).encode()),
}


def receive_response(connection):
    """Reads one response with a Content-Length. Returns False if the connection ended."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return False
        data += piece
    header, _, rest = data.partition(b"\r\n\r\n")
    size = next(int(line.split(b":")[1]) for line in header.split(b"\r\n") if line.lower().startswith(b"content-length"))
    left = size - len(rest)
    while left > 0:
        piece = connection.recv(min(left, 1 << 20))
        if not piece:
            return False
        left -= len(piece)
    return True


def lower_priority(nice):
    """Where the kernel groups processes by session, niceness orders the threads of one session only, and the group has its own."""
    os.nice(nice)
    with contextlib.suppress(OSError):  # other kernels have no groups
        pathlib.Path("/proc/self/autogroup").write_text(str(nice))


def attack(name, port, nice):
    """Runs in a process and session of its own until it is killed."""
    lower_priority(nice)
    path, make = ATTACKS[name]
    body = make()
    request = request_head(path, len(body)) + body
    print("ready", flush=True)
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port)) as connection:
                while True:
                    connection.sendall(request)
                    if not receive_response(connection):
                        break
        except OSError:
            pass


def discard_requests(connection, buffer):
    while True:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(4096)
            if not piece:
                return
            data += piece
        header, _, rest = data.partition(b"\r\n\r\n")
        left = next(int(line.split(b":")[1]) for line in header.split(b"\r\n") if line.startswith(b"Content-Length")) - len(rest)
        while left > 0:
            received = connection.recv_into(buffer, min(left, len(buffer)))
            if received == 0:
                return
            left -= received
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


def sink():
    """Reads requests and discards them, with one process per connection."""
    listener = socket.create_server(("127.0.0.1", 0))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print(listener.getsockname()[1], flush=True)
    buffer = bytearray(1 << 18)
    while True:
        connection, _ = listener.accept()
        if os.fork() != 0:
            connection.close()
            continue
        listener.close()
        os.setsid()
        lower_priority(19)
        try:
            discard_requests(connection, buffer)
        finally:
            os._exit(0)


def spawn(*arguments):
    process = subprocess.Popen([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True, start_new_session=True)
    return process, process.stdout.readline().strip()


def end(process):
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Attackers:
    """Processes that run only inside of the context."""

    def __init__(self, name, port, nice):
        self.processes = [spawn("--attack", name, "--port", str(port), "--nice", str(nice))[0] for _ in range(CONNECTIONS)]
        for process in self.processes:
            os.killpg(process.pid, signal.SIGSTOP)

    def __enter__(self):
        for process in self.processes:
            os.killpg(process.pid, signal.SIGCONT)

    def __exit__(self, *_):
        for process in self.processes:
            os.killpg(process.pid, signal.SIGSTOP)

    def close(self):
        for process in self.processes:
            end(process)


class Client:
    """prompt_words: the length of the prompts, which are random then, so that no prefix of them is cached."""

    def __init__(self, port, prompt_words=0):
        self.connection = socket.create_connection(("127.0.0.1", port))
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.prompt_words = prompt_words

    def request(self):
        prompt = " ".join(random.choices(WORDS, k=self.prompt_words)) or "Once upon a time"
        body = json.dumps({"prompt": prompt, "max_tokens": 4, "temperature": 0, "ignore_eos": True, "stream": True}).encode()
        return request_head("/v1/completions", len(body)) + body

    def time_to_first_token(self):
        request = self.request()
        begin = time.perf_counter()
        self.connection.sendall(request)
        data = b""
        while b"data: " not in data:
            piece = self.connection.recv(65536)
            assert piece, data
            data += piece
        seconds = time.perf_counter() - begin
        assert data.startswith(b"HTTP/1.1 200"), data[:300]
        while not data.endswith(b"0\r\n\r\n"):
            data += self.connection.recv(65536)
        return seconds

    def run(self, seconds):
        times = []
        stop = time.perf_counter() + seconds
        while time.perf_counter() < stop:
            times.append(self.time_to_first_token())
            time.sleep(random.uniform(0, 2 * PAUSE_S))
        return times


def quantile(times, fraction):
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(fraction * len(ordered)))]


def thread_cpu(pid):
    """Seconds of CPU time per thread: {(id, name): seconds}."""
    used = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
        fields = rest.split()
        used[int(task.name), name] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


class Comparison:
    def __init__(self):
        self.alone = []
        self.attacked = []
        self.threads = {}

    def ratio(self, fraction=0.99):
        return quantile(self.attacked, fraction) / quantile(self.alone, fraction)

    def __str__(self):
        rows = [
            f"{what}: median {1e3 * statistics.median(times):.2f} ms, p90 {1e3 * quantile(times, 0.9):.2f}, "
            f"p99 {1e3 * quantile(times, 0.99):.2f} ({len(times)})"
            for what, times in (("alone", self.alone), ("attacked", self.attacked))
        ]
        return "; ".join(rows) + f"; ratio of p99 {self.ratio():.2f}"


def compare(port, name, target_port, rounds, seconds, nice=0, pid=None, prompt_words=0):
    """Time to first token at `port` while the attack `name` is sent to `target_port`."""
    client = Client(port, prompt_words)
    client.run(0.5)
    result = Comparison()
    attackers = Attackers(name, target_port, nice)
    try:
        for _ in range(rounds):
            result.alone += client.run(seconds)
            before = thread_cpu(pid) if pid else {}
            with attackers:
                client.run(0.3)  # the attack begins
                result.attacked += client.run(seconds)
            if pid:
                for thread, used in thread_cpu(pid).items():
                    result.threads[thread] = result.threads.get(thread, 0) + used - before.get(thread, 0)
            time.sleep(0.5)
            client.run(0.3)
    finally:
        attackers.close()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=", ".join(ATTACKS))
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a window")
    parser.add_argument("--nice", type=int, default=0, help="niceness of the attackers")
    parser.add_argument("--prompt-words", type=int, default=0, help="length of the prompts; default: the same four words each time")
    parser.add_argument("--flags", default="", help="flags of the server")
    parser.add_argument("--no-control", action="store_true")
    parser.add_argument("--attack", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--sink", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.attack:
        return attack(arguments.attack, arguments.port, arguments.nice)
    if arguments.sink:
        return sink()

    from server_process import ServerProcess  # its packages are not needed by the processes above, which start often

    exceeded = False
    server = ServerProcess(*arguments.flags.split())
    options = {name: getattr(arguments, name) for name in ("rounds", "seconds", "nice", "prompt_words")}
    try:
        for name in arguments.attacks or ATTACKS:
            if not arguments.no_control:
                process, port = spawn("--sink")
                try:
                    control = compare(server.port, name, int(port), **options)
                finally:
                    end(process)
                print(f"{name}, control: {control}", flush=True)
            result = compare(server.port, name, server.port, pid=server.process.pid, **options)
            print(f"{name}: {result}", flush=True)
            busy = sorted(((used, thread) for thread, used in result.threads.items() if used > 0.05), reverse=True)
            print("    " + ", ".join(f"{thread[1]} {used:.2f} s" for used, thread in busy), flush=True)
            if not arguments.no_control:
                baseline = max(quantile(control.alone + result.alone, 0.9), quantile(control.attacked, 0.9))
                ratio = quantile(result.attacked, 0.9) / baseline
                print(f"    90th percentile relative to the control: {ratio:.2f} (bound {MAX_RATIO})", flush=True)
                exceeded = exceeded or ratio >= MAX_RATIO
    finally:
        server.stop()
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
