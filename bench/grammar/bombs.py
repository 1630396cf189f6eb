#!/usr/bin/env python3
"""Measures what constraints that are expensive to compile cost another client: the time to first token of a small streamed completion
without a constraint, alone and while other connections send such constraints. Windows without and with them alternate, so that other
programs on the machine affect both. Also prints how the constraints were answered, and the memory of the server before and after.

    bench/grammar/bombs.py [MODEL] [BOMB...] [--quire build/release/quire] [--connections 4] [--rounds 4] [--seconds 3] [--flags "..."]

MODEL is a checkpoint directory; by default the embedded model, whose steps take less than a millisecond. Every constraint that is sent is
another one, except for "same", the control of "different": what the requests cost apart from compiling. Exits with 1 if a ratio of medians
exceeds 1.2. Needs only the standard library.
"""

import argparse
import collections
import http.client
import itertools
import json
import multiprocessing
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

MAX_RATIO = 1.2
NICE = 10  # of the processes that send constraints: they stand for other machines


def properties(count, number):
    return {"type": "object", "properties": {f"p{number}_{i}": {"type": ["string", "integer"], "maxLength": 40} for i in range(count)},
            "additionalProperties": False}


def choices(number):
    """2^20 combinations of cases."""
    pairs = [{"anyOf": [{"required": [f"a{number}_{i}"]}, {"required": [f"b{i}"]}]} for i in range(20)]
    return {"type": "object", "allOf": pairs}


def loops(number):
    """References that lead back to themselves, through other keywords and directly."""
    a, b = f"a{number}", f"b{number}"
    definitions = {a: {"allOf": [{"$ref": f"#/$defs/{b}"}, {"anyOf": [{"$ref": f"#/$defs/{a}"}, {"not": {"$ref": f"#/$defs/{b}"}}]}]},
                   b: {"if": {"$ref": f"#/$defs/{a}"}, "then": {"$ref": f"#/$defs/{b}"}, "else": {"properties": {"x": {"$ref": f"#/$defs/{a}"}}}}}
    return {"$defs": definitions, "$ref": f"#/$defs/{a}"}


# name: function that makes the fields of a request from a number
BOMBS = {
    "repetitions": lambda number: {"guided_regex": f"(a{{1,1000}}){{1,{1000 + number}}}"},
    "classes": lambda number: {"guided_regex": f"([a-z]{{1,400}}[0-9a-f]{{1,{400 + number}}}x?){{1,400}}"},
    "cases": lambda number: {"guided_json": choices(number)},
    "parentheses": lambda number: {"guided_regex": "(" * 30_000 + f"a{number}" + ")" * 30_000},
    "loops": lambda number: {"guided_json": loops(number)},
    "megabyte": lambda number: {"guided_json": properties(15_000, number)},
    "hundreds": lambda number: {"guided_json": properties(200, number)},
    "different": lambda number: {"guided_json": properties(3, number)},
    "same": lambda _: {"guided_json": properties(3, 0)},
}


def post(connection, body):
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    return connection.getresponse()


def send_bombs(name, address, first, active, results):
    """Runs in a process of its own until it is terminated, and sends while `active` is set."""
    os.nice(NICE)
    connection = http.client.HTTPConnection(*address, timeout=600)
    for number in itertools.count(first, 1000):
        active.wait()
        begin = time.perf_counter()
        response = post(connection, {"prompt": "a", "max_tokens": 1, **BOMBS[name](number)})
        message = response.read().decode(errors="replace")
        results.put((response.status, time.perf_counter() - begin, message[:200] if response.status != 200 else ""))


def time_to_first_token(connection):
    begin = time.perf_counter()
    response = post(connection, {"prompt": "Once upon a time", "max_tokens": 4, "temperature": 0, "ignore_eos": True, "stream": True})
    response.readline()
    seconds = time.perf_counter() - begin
    text = response.read()
    if response.status != 200:
        raise SystemExit(f"status {response.status}: {text[:300]}")
    return seconds


def window(connection, seconds):
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        times.append(time_to_first_token(connection))
        time.sleep(0.004)
    return times


def memory(pid):
    """Resident memory and its maximum in MiB."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return [int(re.search(rf"{name}:\s+(\d+)", status).group(1)) // 1024 for name in ("VmRSS", "VmHWM")]


def p90(times):
    return sorted(times)[int(0.9 * (len(times) - 1))]


def drain(results):
    answers = []
    while not results.empty():
        answers.append(results.get())
    return answers


def compare(name, address, pid, args):
    active, results = multiprocessing.Event(), multiprocessing.Queue()
    senders = [multiprocessing.Process(target=send_bombs, args=(name, address, i, active, results), daemon=True)
               for i in range(1, args.connections + 1)]
    for sender in senders:
        sender.start()
    connection = http.client.HTTPConnection(*address, timeout=600)
    before = memory(pid)
    alone, attacked, ratios = [], [], []
    window(connection, 0.5)
    try:
        for _ in range(args.rounds):
            first = window(connection, args.seconds)
            active.set()
            window(connection, 0.3)
            second = window(connection, args.seconds)
            active.clear()
            time.sleep(args.pause)
            alone += first
            attacked += second
            ratios.append(statistics.median(second) / statistics.median(first))
    finally:
        for sender in senders:
            sender.terminate()
            sender.join()
    time.sleep(args.pause)
    after = memory(pid)
    answers = drain(results)
    ratio = statistics.median(ratios)
    print(f"{name}: alone median {1e3 * statistics.median(alone):.2f} ms, p90 {1e3 * p90(alone):.2f}; next to them median "
          f"{1e3 * statistics.median(attacked):.2f}, p90 {1e3 * p90(attacked):.2f}; ratio of medians {ratio:.2f} "
          f"({min(ratios):.2f} to {max(ratios):.2f})")
    statuses = collections.Counter(status for status, _, _ in answers)
    longest = max((seconds for _, seconds, _ in answers), default=0)
    print(f"    answers {dict(statuses)}, the longest after {longest:.2f} s; memory {before[0]} -> {after[0]} MiB, "
          f"maximum {before[1]} -> {after[1]} MiB")
    if message := next((message for _, _, message in answers if message), ""):
        print(f"    {message}")
    sys.stdout.flush()
    return ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="MODEL|BOMB", help=", ".join(BOMBS))
    parser.add_argument("--quire", default="build/release/quire")
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a window")
    parser.add_argument("--pause", type=float, default=1.0, help="between windows, for what is still being compiled")
    parser.add_argument("--flags", default="--kv-cache-memory 64MiB", help="flags of the server")
    args = parser.parse_args()
    models = [name for name in args.names if name not in BOMBS]
    if len(models) > 1:
        parser.error(f"there is no bomb of the name {models[1]}")
    command = [args.quire, "serve", *models, "--port", "0", *args.flags.split()]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        for line in process.stderr:
            if found := re.search(r"Listening on http://([^:]+):(\d+)", line):
                break
        else:
            raise SystemExit("the server did not start")
        address = found.group(1), int(found.group(2))
        ratios = {name: compare(name, address, process.pid, args) for name in args.names if name in BOMBS} or {
            name: compare(name, address, process.pid, args) for name in BOMBS}
    finally:
        process.terminate()
        process.communicate()
    # What requests cost that compile nothing is not a cost of compiling.
    bounds = {name: max(MAX_RATIO, ratios.get("same", 0) * MAX_RATIO) if name == "different" else MAX_RATIO for name in ratios}
    slow = [name for name, ratio in ratios.items() if name != "same" and ratio > bounds[name]]
    if slow:
        print(f"more than {MAX_RATIO} times: {', '.join(slow)}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
