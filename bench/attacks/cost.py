"""Measures CPU time and memory of inputs that a search makes ever more expensive: requests, chat templates, tokenizer files, checkpoints and
GGUF files. tests/attacks/cost_searches.py has the searches and the limits on memory. Ends at the first input that exceeds a limit.

Usage: cost.py [--rounds N] [--seed N] [NAME...]       default: all
"""

import argparse
import pathlib
import random
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parents[2] / "tests"
sys.path[:0] = [str(TESTS / folder) for folder in ("e2e", "support", "attacks")]

import httpx  # noqa: E402
from cost_searches import FILE_SEARCHES, LAUNCHER, REQUEST_FLAGS, Files, Meter, search_requests  # noqa: E402
from server_process import ServerProcess  # noqa: E402

# CPU seconds of an input: a constant, above what an ordinary one takes, and per byte.
SECONDS = {"template": (0.8, 0.0), "tokenizer": (0.8, 5e-6), "checkpoint": (0.5, 5e-6), "GGUF file": (0.5, 1e-6)}


class TimedMeter(Meter):
    def __init__(self, server, http):
        super().__init__(server, http)
        self.clock = (~server.process.pid << 3) | 2  # CPU time of another process, see clock_getcpuclockid(3)

    def start(self):
        super().start()
        self.cpu = time.clock_gettime(self.clock)

    def costs(self):
        costs, tokens = super().costs()
        return {**costs, "seconds": time.clock_gettime(self.clock) - self.cpu}, tokens

    @staticmethod
    def limits(sent, received, tokens):
        return {**Meter.limits(sent, received, tokens), "seconds": 0.15 + 3e-6 * sent + 2e-3 * tokens + 1e-6 * received}

    @staticmethod
    def rank(costs, tokens):
        return {**Meter.rank(costs, tokens), "seconds": max(0, costs["seconds"] - 1e-3 * tokens)}


class TimedFiles(Files):
    launcher = LAUNCHER.replace("usage.ru_maxrss * 1024", "usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime")
    LIMITS = {name: {**limits, "seconds": SECONDS[name]} for name, limits in Files.LIMITS.items()}


def measure_requests(seed, rounds):
    server = ServerProcess(*REQUEST_FLAGS)
    try:
        with httpx.Client(base_url=server.url, timeout=120) as http:
            meter = TimedMeter(server, http)
            search_requests(meter, seed, rounds)
            meter.report()
    finally:
        server.stop()


def measure_files(name, seed, rounds):
    files = TimedFiles(name, seed)
    with tempfile.TemporaryDirectory() as directory:
        FILE_SEARCHES[name](files, pathlib.Path(directory), rounds)
    files.report()


def main():
    names = ["requests", *FILE_SEARCHES]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    parser.add_argument("--rounds", type=int, default=300, help="inputs of each search")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    arguments = parser.parse_args()
    print(f"--seed {arguments.seed}")
    try:
        for name in arguments.names or names:
            if name == "requests":
                measure_requests(arguments.seed, arguments.rounds)
            else:
                measure_files(name, arguments.seed, arguments.rounds)
    except AssertionError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
