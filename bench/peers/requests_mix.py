"""The mixed set of requests: lengths of a trace of real conversations, scaled down to about a minute of work for two cores."""
from __future__ import annotations

import csv
import dataclasses
import math
import pathlib
import random

SEED = 7


@dataclasses.dataclass
class Mix:
    requests: list[list[int]]  # [prompt, output] tokens
    source: str                # printed with the results


def from_trace(path: pathlib.Path, count: int, divisor: int) -> Mix:
    with open(path, newline="", encoding="utf-8") as file:
        rows = [(int(r["ContextTokens"]), int(r["GeneratedTokens"])) for r in csv.DictReader(file)]
    drawn = random.Random(SEED).sample(rows, count)
    return Mix([[max(8, p // divisor), max(4, o // divisor)] for p, o in drawn],
               f"{count} requests drawn from {path.name} (Azure, conversations; seed {SEED}), lengths divided by {divisor}")


def lognormal(count: int, divisor: int) -> Mix:
    """Log-normal lengths similar to those of the trace, for machines without the trace."""
    draw = random.Random(SEED)
    length = [(draw.lognormvariate(math.log(928), 0.9), draw.lognormvariate(math.log(129), 0.9)) for _ in range(count)]
    return Mix([[max(8, int(p) // divisor), max(4, int(o) // divisor)] for p, o in length],
               f"{count} requests, prompts lognormal(median 928, sigma 0.9), outputs lognormal(median 129, sigma 0.9), seed {SEED}, "
               f"lengths divided by {divisor}")


def make(trace: pathlib.Path, count: int, divisor: int) -> Mix:
    mix = from_trace(trace, count, divisor) if trace.exists() else lognormal(count, divisor)
    prompt, output = (sum(r[i] for r in mix.requests) for i in (0, 1))
    mix.source += f": {prompt} prompt and {output} output tokens"
    return mix


def write_csv(mix: Mix, path: pathlib.Path) -> pathlib.Path:
    """Writes a trace file for `quire bench`."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["TIMESTAMP", "ContextTokens", "GeneratedTokens"])
        for i, (prompt, output) in enumerate(mix.requests):
            out.writerow([f"2023-11-16 00:00:{i % 60:02}.0000000", prompt, output])
    return path
