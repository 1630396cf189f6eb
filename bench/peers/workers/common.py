"""Code shared by the workers: the job on the command line, random prompts, and the result.

A worker runs in its engine's own environment, does one measurement after a warm-up of the same shape but fewer tokens, and prints
one JSON object as its last line. Times are of the monotonic clock, in seconds.
"""
from __future__ import annotations

import dataclasses
import json
import random
import sys
import time
from collections.abc import Callable
from typing import Protocol

WARMUP_OUTPUT = 4


@dataclasses.dataclass
class Job:
    model: str                       # directory
    format: str                      # one of models.FORMATS
    threads: int
    workload: str                    # batch, offline or load
    vocab: int
    first_token: int
    seed: int
    batch: int = 1
    prompt: int = 8                  # tokens of each prompt
    output: int = 1                  # tokens generated for each
    requests: list[list[int]] = dataclasses.field(default_factory=list)  # offline: [prompt, output] tokens
    max_seqs: int = 32
    options: dict = dataclasses.field(default_factory=dict)

    def prompts(self, lengths: list[int], salt: int) -> list[list[int]]:
        draw = random.Random(self.seed * 1009 + salt)
        return [[draw.randrange(self.first_token, self.vocab) for _ in range(n)] for n in lengths]


@dataclasses.dataclass
class Timeline:
    """Times of each sequence's tokens, from which prefill and decode rates are computed as in `quire bench latency`."""
    begin: float = 0.0
    end: float = 0.0
    first: dict[int, float] = dataclasses.field(default_factory=dict)
    counts: dict[int, int] = dataclasses.field(default_factory=dict)
    late_tokens: int = 0  # tokens of all sequences after the first token of the last one
    last_first: float = 0.0

    def start(self) -> None:
        self.begin = time.perf_counter()

    def tokens(self, sequence: int, count: int, expected: int) -> None:
        """`count` more tokens of one sequence; `expected` is the number of sequences."""
        now = time.perf_counter()
        complete = len(self.first) == expected
        if sequence not in self.first:
            self.first[sequence] = self.last_first = now
            count_late = 0
        else:
            count_late = count if complete else 0
        self.counts[sequence] = self.counts.get(sequence, 0) + count
        self.late_tokens += count_late
        self.end = now


def batch_result(job: Job, line: Timeline) -> dict:
    decode_s = line.end - line.last_first
    return {"prefill_tokens_per_s": job.batch * job.prompt / (line.last_first - line.begin),
            "decode_tokens_per_s": line.late_tokens / decode_s if line.late_tokens and decode_s > 0 else None,
            "elapsed_s": line.end - line.begin, "generated": sum(line.counts.values()), "expected": job.batch * job.output}


def offline_result(job: Job, generated: int, seconds: float) -> dict:
    prompt, output = sum(r[0] for r in job.requests), sum(r[1] for r in job.requests)
    return {"total_tokens_per_s": (prompt + output) / seconds, "output_tokens_per_s": output / seconds, "elapsed_s": seconds,
            "generated": generated, "expected": output}


class Engine(Protocol):
    """One engine with the model loaded."""
    settings: str  # settings of the engine, printed with the results

    def run(self, prompts: list[list[int]], outputs: list[int], line: Timeline) -> None:
        """Runs one batch; prompt i gets outputs[i] tokens."""

    def offline(self, job: Job) -> dict:
        """Runs all requests of the job at once, after a warm-up."""


def offline_at_once(job: Job, engine: Engine) -> dict:
    """For an engine with its own batching: all requests in one call."""
    lengths = [r[0] for r in job.requests]
    line = Timeline()
    engine.run(job.prompts(lengths[:4], 1), [WARMUP_OUTPUT] * min(4, len(lengths)), Timeline())
    engine.run(job.prompts(lengths, 2), [r[1] for r in job.requests], line)
    return offline_result(job, sum(line.counts.values()), line.end - line.begin)


def measure(job: Job, make: Callable[[Job], Engine]) -> dict:
    begin = time.perf_counter()
    engine = make(job)
    loaded = time.perf_counter()
    line = Timeline()
    if job.workload == "offline":
        result = engine.offline(job)
    else:
        if job.workload != "load":
            engine.run(job.prompts([job.prompt] * job.batch, 1), [min(WARMUP_OUTPUT, job.output)] * job.batch, Timeline())
        engine.run(job.prompts([job.prompt] * job.batch, 2), [job.output] * job.batch, line)
        result = batch_result(job, line)
    return {**result, "load_s": loaded - begin, "load_to_first_s": line.last_first - begin, "settings": engine.settings}


def main(make: Callable[[Job], Engine]) -> None:
    result = measure(Job(**json.loads(sys.argv[1])), make)
    sys.stdout.write("\n" + json.dumps(result) + "\n")
    sys.stdout.flush()
