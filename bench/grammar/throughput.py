#!/usr/bin/env python3
"""Measures what constrained output costs a batch: tokens per second of `quire serve` with a JSON Schema of 24 properties, with and without
jump-ahead, as ratios to free output of the same lengths, in interleaved runs.

    bench/grammar/throughput.py MODEL [--quire build/release/quire] [--threads 2] [--clients 32] [--rounds 3] [--requests 64]

MODEL is a checkpoint directory. With random weights (bench/peers/make_model.py), give it the tokenizer of the model whose shape it has: the
number of tokens that a schema forces depends on it. Every request is sent without a stream, and as many as there are clients run at once.
The requests of a round differ in their seeds, and free output has the lengths of the constrained one. Needs only the standard library.
"""

import argparse
import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import re
import statistics
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).parents[1] / "peers"))
import machine  # noqa: E402

TYPES = [{"type": "integer", "minimum": 0, "maximum": 9999}, {"enum": ["pending", "confirmed", "cancelled"]}, {"type": "boolean"},
         {"type": "string", "maxLength": 24}]
NAMES = ["identifier", "status", "is_active", "customer_name", "quantity", "priority", "is_verified", "shipping_address", "unit_price",
         "payment_state", "requires_signature", "description", "discount_percent", "delivery_state", "is_gift", "contact_person",
         "total_weight", "refund_state", "has_insurance", "warehouse_code", "number_of_items", "review_state", "is_archived", "comment"]
SCHEMA = {"type": "object", "properties": {name: TYPES[i % 4] for i, name in enumerate(NAMES)}, "required": NAMES,
          "additionalProperties": False}
PROMPT = "Extract the order from this message: " + "we would like to have the usual things delivered next week. " * 4


@contextlib.contextmanager
def serving(args, *flags):
    command = [args.quire, "serve", str(args.model), "--port", "0", "--threads", str(args.threads), "--kv-cache-memory", "2GiB", *flags]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        for line in process.stderr:
            if found := re.search(r"Listening on http://([^:]+):(\d+)", line):
                break
        else:
            raise SystemExit("the server did not start")
        yield found.group(1), int(found.group(2))
    finally:
        process.terminate()
        process.communicate()


def send(address, body):
    connection = http.client.HTTPConnection(*address)
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = json.loads(response.read())
    if response.status != 200:
        raise SystemExit(answer)
    return answer["usage"]["completion_tokens"]


def run(args, address, bodies):
    """Tokens per second, and the tokens of each request."""
    with concurrent.futures.ThreadPoolExecutor(args.clients) as pool:
        begin = time.perf_counter()
        counts = list(pool.map(lambda body: send(address, body), bodies))
        return sum(counts) / (time.perf_counter() - begin), counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--quire", default="build/release/quire")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    bodies = [{"prompt": PROMPT, "temperature": 1.0, "max_tokens": 2000, "seed": seed, "structured_outputs": {"json": SCHEMA}}
              for seed in range(args.requests)]
    rates = {"free": [], "constrained": [], "with jump-ahead": []}
    with serving(args, "--no-jump-ahead") as plain, serving(args) as jumping:
        lengths = run(args, jumping, bodies)[1]  # also compiles the schema
        run(args, plain, bodies[:args.clients])
        free = [{"prompt": PROMPT, "temperature": 1.0, "max_tokens": length, "seed": seed, "ignore_eos": True}
                for seed, length in enumerate(lengths)]
        for _ in range(args.rounds):
            rates["free"].append(run(args, plain, free)[0])
            rates["constrained"].append(run(args, plain, bodies)[0])
            rates["with jump-ahead"].append(run(args, jumping, bodies)[0])
    print(f"{machine.describe()['cpu']}, {args.threads} threads, {args.clients} clients, {args.requests} requests of {statistics.mean(lengths):.0f} tokens, "
          f"medians of {args.rounds} interleaved runs")
    base = statistics.median(rates["free"])
    for name, values in rates.items():
        rate = statistics.median(values)
        print(f"{name:16} {rate:8.1f} tokens/s   {rate / base:5.2f} of free output")


if __name__ == "__main__":
    main()
