#!/usr/bin/env python3
"""Compares quire with other engines on this machine: same shapes, lengths and threads, interleaved runs. See README.md.

    bench/peers/run.py --install                     installs the peers and creates the models
    bench/peers/run.py --quick                       the smallest model, one run
    bench/peers/run.py --out DIR [--resume]          everything; an interrupted run is continued
"""
from __future__ import annotations

import argparse
import os
import pathlib
import sys
import time

import engines
import machine
import measure
import models
import peers
import report
import requests_mix
import results
import rows
import tasks

DECODE_BATCHES = {1: (32, 48), 8: (32, 32), 32: (16, 16), 64: (16, 8)}  # batch: (prompt tokens, decoding steps); a few seconds each
MORE_STEPS = {"smollm2-135m": 3}  # factor for models with short steps
ONCE = ["transformers", "vllm"]   # never the fastest, and slow to run or to start
# The mixed set: (number of requests, divisor of the trace's lengths). Smaller models get more of the trace.
MIXES = {"smollm2-135m": (48, 4), "qwen3-0.6b": (32, 8), "tinyllama-1.1b": (24, 8)}
# Requests per second of `serve`: from a low load to an overload of two cores.
RATES = {"smollm2-135m": ("2", "4", "8"), "qwen3-0.6b": ("1", "2", "4"), "tinyllama-1.1b": ("0.5", "1", "2")}
WORKLOADS = ("decode", "prefill", "offline", "load", "memory", "serve")
TRACE = pathlib.Path("data/workloads/azure-llm-2023/AzureLLMInferenceTrace_conv.csv")
GUESS_S = {"decode": 15.0, "prefill": 12.0, "offline": 50.0, "load": 8.0, "memory": 10.0, "serve": 45.0}


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def shared_trace() -> pathlib.Path:
    """Path of the trace: in `shared` next to the project, or next to one of its parent directories."""
    for base in (peers.ROOT, *peers.ROOT.parents):
        for name in ("shared", "../shared"):
            if (base / name / TRACE).exists():
                return base / name / TRACE
    return pathlib.Path("missing")


class Plan:
    """All measurements in order of importance: row by row, within a row run by run, within a run engine by engine."""

    def __init__(self, options: argparse.Namespace, ready: dict[str, engines.Engine]) -> None:
        self.options, self.ready = options, ready
        self.mixes: dict[str, requests_mix.Mix] = {}
        self.skipped: dict[tuple[str, ...], str] = {}

    def _mix(self, model: str) -> tuple[str, tuple[tuple[int, int], ...]]:
        path = self.options.out / f"mix-{model}.csv"
        if model not in self.mixes:
            self.mixes[model] = requests_mix.make(self.options.trace, *MIXES[model])
            requests_mix.write_csv(self.mixes[model], path)
        return str(path), tuple((p, o) for p, o in self.mixes[model].requests)

    def _cases(self, workload: str, model: str, number_format: str) -> list[tuple[str, tasks.Task]]:
        def task(**more) -> tasks.Task:
            return tasks.Task(model, number_format, workload, **more)

        if workload == "decode":
            steps = MORE_STEPS.get(model, 1)
            return [(str(b), task(batch=b, prompt=p, output=n * steps + 1)) for b, (p, n) in DECODE_BATCHES.items()
                    if b in self.options.batches]
        if workload == "prefill":
            return [(str(n), task(prompt=n)) for n in self.options.prompts]
        if workload == "load":
            return [("first token", task(prompt=8))]
        if workload == "memory":
            return [("peak", task(prompt=512, output=17))]
        path, requests = self._mix(model)
        if workload == "offline":
            return [("mix", task(trace=path, requests=requests))]
        return [(rate, task(trace=path, requests=requests, rate=rate)) for rate in RATES[model]]

    def _tiers(self) -> list[tuple[str, str | None]]:
        """(workload, case or None for all): single-stream decoding first, then prompts, then batches."""
        order: list[tuple[str, str | None]] = []
        for workload in self.options.workloads:
            order += [("decode", str(b)) for b in self.options.batches] if workload == "decode" else [(workload, None)]
        if ("decode", "1") in order and ("prefill", None) in order:
            order.remove(("prefill", None))
            order.insert(order.index(("decode", "1")) + 1, ("prefill", None))
        return order

    def cells(self) -> list[tasks.Cell]:
        found: list[tasks.Cell] = []
        for workload, wanted in self._tiers():
            for model in self.options.models:
                for number_format in self.options.formats:
                    for case, task in self._cases(workload, model, number_format):
                        if wanted is None or case == wanted:
                            found += self._row(case, task)
        return found

    def _row(self, case: str, task: tasks.Task) -> list[tasks.Cell]:
        entrants: list[tuple[str, str]] = []
        for name, engine in self.ready.items():
            variants = engine.variants(task)
            entrants += [(name, variant) for variant in variants]
            if not variants:
                self.skipped[(task.model, task.workload, case, task.format, name, "-")] = f"has no {task.format}"
            elif task.workload == "serve" and (why := getattr(engine, "serves", "")):
                self.skipped[(task.model, task.workload, case, task.format, name, "-")] = why
                entrants = [e for e in entrants if e[0] != name]
        runs = self.options.runs if task.workload != "serve" else min(self.options.runs, 2)
        return [tasks.Cell(task, case, name, variant, run) for run in range(1, runs + 1) for name, variant in entrants
                if run == 1 or name not in self.options.once]


class Clock:
    """Estimates the duration of measurements from that of similar ones, and the time left until the limit."""

    def __init__(self, limit_s: float) -> None:
        self.begin, self.limit_s = time.monotonic(), limit_s
        self.seen: dict[tuple[str, ...], list[float]] = {}

    @staticmethod
    def _kinds(cell: tasks.Cell) -> list[tuple[str, ...]]:
        t = cell.task
        return [cell.key, (t.model, t.workload, cell.case, t.format), (t.model, t.workload, cell.case), (t.model, t.workload)]

    def learn(self, cell: tasks.Cell, seconds: float) -> None:
        for kind in self._kinds(cell):
            self.seen.setdefault(kind, []).append(seconds)

    def estimate(self, cell: tasks.Cell) -> float:
        for kind in self._kinds(cell):
            if kind in self.seen:
                return sum(self.seen[kind]) / len(self.seen[kind])
        scale = models.parameters(cell.task.model) / models.parameters("qwen3-0.6b")
        return 3 + GUESS_S[cell.task.workload] * scale

    def left(self) -> float:
        return self.limit_s - (time.monotonic() - self.begin)


def measure_with_limits(engine: engines.Engine, cell: tasks.Cell, options: argparse.Namespace) -> tasks.Figure:
    """Measures a figure. If it is compared with the machine's limits, these are measured directly before and after it, because they change
    when other programs or virtual machines use the same memory and processors."""
    compared = cell.engine == "quire" and (cell.task.workload == "prefill" or (cell.task.workload == "decode" and cell.task.batch == 1))
    if not (compared and options.limits):
        return engine.measure(cell.task, cell.variant)
    before = machine.limits(options.bench_ops, {options.threads}, seconds=0.3)
    figure = engine.measure(cell.task, cell.variant)
    after = machine.limits(options.bench_ops, {options.threads}, seconds=0.3)
    figure.extra["limits"] = machine.best_of([before, after])
    return figure


def measure_cell(engine: engines.Engine, cell: tasks.Cell, options: argparse.Namespace, saved: results.Results) -> float:
    """Measures, saves and logs one figure. Returns the seconds that it took, without the creation of the model."""
    began = time.monotonic()
    load_before = os.getloadavg()[0]
    try:
        path = engine.prepare(cell.task, cell.variant)
        began = time.monotonic()
        if cell.task.workload == "load":
            measure.into_page_cache(path)
        figure = measure_with_limits(engine, cell, options)
        saved.add(cell, value=figure.value, settings=figure.settings, wall_s=figure.wall_s, load_average=load_before, extra=figure.extra)
        said = f"{figure.value:.4g}"
    except (measure.Failed, RuntimeError, OSError, ValueError, KeyError) as error:
        saved.add(cell, error=f"{type(error).__name__}: {error}"[:400], load_average=load_before)
        said = f"FAILED {error}"
    log(f"    {cell.engine} {cell.variant}: {said[:200]}  ({time.monotonic() - began:.0f} s)")
    return time.monotonic() - began


def measure_all(options: argparse.Namespace, plan: Plan, saved: results.Results) -> None:
    clock = Clock(options.time_limit or float("inf"))
    log("touching free memory for the first time")
    machine.touch_free_memory()
    cells = [c for c in plan.cells() if not saved.has(c)]
    for key, why in plan.skipped.items():
        saved.skip(key, why)
    limits_every = max(1, len(cells) // 4)
    shown: tuple[object, ...] = ()
    given_up: set[tuple[str, ...]] = set()
    for i, cell in enumerate(cells):
        if i % limits_every == 0 and options.limits and clock.left() > 60:
            saved.add_limits(options.bench_ops, options.threads)
        if (cell.key in given_up) or (saved.failed(cell.key) and cell.run > 1):
            continue  # a failed measurement would fail again
        estimate = clock.estimate(cell)
        if cell.run > 1 and estimate > options.repeat_limit:
            continue
        if estimate > clock.left():
            saved.add(cell, error=rows.OUT_OF_TIME)
            given_up.add(cell.key)
            continue
        if (head := (cell.task.model, cell.task.workload, cell.case, cell.task.format, cell.run)) != shown:
            rest = sum(clock.estimate(c) for c in cells[i:])
            log(f"[{i + 1}/{len(cells)}, about {rest / 60:.0f} min left] {' '.join(map(str, head[:4]))}, run {cell.run} of {options.runs}")
            shown = head
        engine = plan.ready[cell.engine]
        engine.setup.limit_s = min(options.limit, max(10.0, clock.left()))
        clock.learn(cell, measure_cell(engine, cell, options, saved))
        try:
            report.write(saved, options.out)
        except Exception as error:  # the raw values are saved, and the run continues
            log(f"    table not written: {type(error).__name__}: {error}")


def prepare_models(plan: Plan) -> None:
    """Creates every model that the plan needs, and logs those that failed."""
    done: set[tuple[str, str, str]] = set()
    for cell in plan.cells():
        if (what := (cell.task.model, cell.engine, cell.variant)) in done:
            continue
        done.add(what)
        try:
            plan.ready[cell.engine].prepare(cell.task, cell.variant)
        except (measure.Failed, RuntimeError, OSError) as error:
            log(f"[models] {' '.join(what)} FAILED: {error}")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    def words(text: str) -> list[str]:
        return [w for w in text.split(",") if w]

    def numbers(text: str) -> list[int]:
        return [int(w) for w in words(text)]

    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--engines", type=words, default=list(engines.ENGINES))
    p.add_argument("--models", type=words, default=["qwen3-0.6b", "tinyllama-1.1b", "smollm2-135m"])
    p.add_argument("--formats", type=words, default=list(models.FORMATS))
    p.add_argument("--workloads", type=words, default=list(WORKLOADS))
    p.add_argument("--batches", type=numbers, default=list(DECODE_BATCHES), help="batch sizes of decode: 1, 8, 32, 64")
    p.add_argument("--prompts", type=numbers, default=[512, 2048], help="prompt lengths of prefill, in tokens")
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--out", type=pathlib.Path, default=peers.ROOT / "build/peers-results")
    p.add_argument("--time-limit", type=float, default=0, help="time limit of the run in seconds; 0 = none")
    p.add_argument("--limit", type=float, default=240, help="time limit of one measurement in seconds")
    p.add_argument("--once", type=words, default=ONCE, help="engines that are measured once per figure (default: transformers, vllm)")
    p.add_argument("--repeat-limit", type=float, default=60, help="measurements that take longer than this many seconds run once, not --runs times")
    p.add_argument("--resume", action="store_true", help="keep the results in DIR, measure the rest, and repeat failed measurements")
    p.add_argument("--quick", action="store_true", help="one run, smollm2-135m only")
    p.add_argument("--install", action="store_true", help="install the peers, create the models, and exit")
    p.add_argument("--report", action="store_true", help="only write the table and the plot again from the results in DIR")
    p.add_argument("--peers-dir", type=pathlib.Path, default=peers.DEFAULT_DIR)
    p.add_argument("--quire", type=pathlib.Path, default=peers.ROOT / "build/release/quire")
    p.add_argument("--bench-ops", type=pathlib.Path, default=None, help="default: bench/ops/bench_ops in the directory of quire")
    p.add_argument("--no-limits", dest="limits", action="store_false", help="do not measure the limits of the machine")
    p.add_argument("--tokenizer", type=pathlib.Path, help="directory of a tokenizer that replaces the generated one; its vocabulary must have the same size")
    p.add_argument("--trace", type=pathlib.Path, default=shared_trace(), help="CSV with ContextTokens and GeneratedTokens")
    options = p.parse_args(arguments)
    if options.quick:
        options.models, options.runs = ["smollm2-135m"], 1
    for name, allowed in (("engines", engines.ENGINES), ("models", models.SHAPES), ("formats", models.FORMATS), ("workloads", WORKLOADS),
                          ("batches", DECODE_BATCHES)):
        if unknown := [w for w in getattr(options, name) if w not in allowed]:
            p.error(f"--{name}: unknown {unknown}; choose from {', '.join(map(str, allowed))}")
    for name in ("peers_dir", "quire", "out", "trace"):
        setattr(options, name, getattr(options, name).resolve())
    options.bench_ops = (options.bench_ops or options.quire.parent / "bench/ops/bench_ops").resolve()
    return options


def main() -> int:
    options = parse()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.report:
        report.write(results.Results(options.out, resume=True), options.out)
        return 0
    failed: dict[str, str] = {}
    if options.install:
        failed = peers.install(options.peers_dir, [*(e for e in options.engines if e in peers.PEERS), "convert"])
    store = models.Store(options.peers_dir, options.tokenizer)
    setup = tasks.Setup(options.quire, options.peers_dir, store, options.threads, options.limit)
    made = {name: engines.ENGINES[name](setup) for name in options.engines}
    unavailable = {name: why for name, engine in made.items() if (why := engine.unavailable())}
    for name, why in unavailable.items():
        log(f"[peers] {name} SKIPPED: {why}")
    plan = Plan(options, {name: engine for name, engine in made.items() if name not in unavailable})
    if options.install:
        prepare_models(plan)
        return 1 if failed else 0
    saved = results.Results(options.out, resume=options.resume)
    saved.forget_failures()
    cells = plan.cells()
    saved.describe({"machine": machine.describe(), "threads": options.threads, "unavailable": unavailable,
                    "versions": {name: engine.version() for name, engine in plan.ready.items()},
                    "mixes": {model: mix.source for model, mix in plan.mixes.items()}})
    log(f"{len(cells)} measurements, {len(saved.measurements)} already done; results in {options.out}")
    try:
        measure_all(options, plan, saved)
    except KeyboardInterrupt:
        log("interrupted; use --resume to continue")
    report.write(saved, options.out)
    print((options.out / "table.md").read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
