"""Computes the medians and ratios of the table and the plot from the raw values."""
from __future__ import annotations

import dataclasses
import statistics

import machine
import models
from results import Results

LOWER_IS_BETTER = ("load", "memory")
# Targets: minimum ratio to the fastest peer, and minimum fraction of the machine's limit.
BATCH_1, BATCHES, QUANTIZED_PREFILL, OFFLINE, LOAD, SERVED = 1.10, 1.30, 1.20, 1.50, 1.00, 1.50
OVER_TRANSFORMERS = 24.0
OF_BANDWIDTH, OF_PEAK = 0.90, 0.80
OUT_OF_TIME = "not measured: the time limit was near"
LARGE_BYTES = 500e6           # size of bfloat16 weights; smaller models partly fit in the caches
MEMORY_BYTES = 150e6


@dataclasses.dataclass
class Entry:
    """One engine in a row: its fastest variant."""
    value: float | None
    variant: str = ""
    settings: str = ""
    runs: int = 0
    spread: float = 0.0  # (largest - smallest) / median
    why: str = ""        # reason if there is no value
    skipped: bool = False  # not planned: the engine does not have the format or a server
    done: list[dict] = dataclasses.field(default_factory=list)  # its measurements
    medians: dict[str, float] = dataclasses.field(default_factory=dict)  # by variant


@dataclasses.dataclass
class Row:
    model: str
    workload: str
    case: str
    format: str
    entries: dict[str, Entry]
    of_limit: float | None = None
    wanted_ratio: float | None = None
    wanted_limit: float | None = None

    @property
    def label(self) -> str:
        what = {"decode": f"decode, batch {self.case}", "prefill": f"prompt of {self.case}", "offline": "offline, mixed",
                "load": "load to first token", "memory": "memory beyond weights", "serve": f"served, {self.case} requests/s"}
        return f"{self.model} {self.format}: {what[self.workload]}"

    @property
    def reached(self) -> bool:
        """False if the time limit was reached before any engine was measured."""
        return any(not e.skipped and e.why != OUT_OF_TIME for e in self.entries.values())

    @property
    def best_peer(self) -> str | None:
        peers = {n: e.value for n, e in self.entries.items() if n != "quire" and e.value is not None}
        if not peers:
            return None
        return (min if self.workload in LOWER_IS_BETTER else max)(peers, key=lambda n: peers[n])

    @property
    def ratio(self) -> float | None:
        """Above 1 if quire is better."""
        ours, peer = self.entries.get("quire"), self.best_peer
        if ours is None or not ours.value or peer is None or not self.entries[peer].value:
            return None
        over = ours.value / self.entries[peer].value
        return 1 / over if self.workload in LOWER_IS_BETTER else over


def kv_bytes(model: str, tokens: int, number_format: str) -> int:
    s = models.SHAPES[model]
    return tokens * 2 * s["num_hidden_layers"] * s["num_key_value_heads"] * models.head_size(model) * (4 if number_format == "f32" else 2)


def value_of(m: dict) -> float:
    if m["workload"] != "memory":
        return m["value"]
    return m["extra"]["peak_rss"] - m["extra"]["weight_bytes"] - kv_bytes(m["model"], m["prompt"] + m["output"], m["format"])


def entry_of(measurements: list[dict]) -> Entry:
    """The fastest variant of one engine in one row."""
    best = Entry(None, why="; ".join(sorted({m["error"] for m in measurements if "error" in m})))
    medians: dict[str, float] = {}
    for variant in sorted({m["variant"] for m in measurements}):
        done = [m for m in measurements if m["variant"] == variant and "error" not in m]
        if not done:
            continue
        values = [value_of(m) for m in done]
        median = medians[variant] = statistics.median(values)
        lower = done[0]["workload"] in LOWER_IS_BETTER
        if best.value is None or (median < best.value if lower else median > best.value):
            best = Entry(median, variant, done[0]["settings"], len(values), (max(values) - min(values)) / abs(median) if median else 0.0,
                         done=done)
    best.medians = medians
    return best


def bytes_per_pass(model: str, number_format: str, weight_bytes: int | None) -> float:
    """Bytes of weights that one decoding step reads: the size that quire reports, without an untied embedding."""
    nominal = {"f32": 4.0, "bf16": 2.0, "int8": 1.0, "int4": 0.5, "int4-g128": 0.5}
    if not weight_bytes:
        return models.linear_weights(model) * nominal[number_format]
    s = models.SHAPES[model]
    embedding = 0 if s["tie_word_embeddings"] else s["vocab_size"] * s["hidden_size"] * (4 if number_format == "f32" else 2)
    return weight_bytes - embedding


def set_limit(row: Row, best: dict[str, dict[str, float]], threads: int) -> None:
    """Sets row.of_limit: the median of each figure divided by the limit measured next to it, or by the best limit of the run."""
    ours = row.entries.get("quire")
    if ours is None or ours.value is None:
        return
    decode, prefill = row.workload == "decode" and row.case == "1", row.workload == "prefill"
    if not (decode or prefill):
        return
    parts = []
    for m in ours.done:
        limits = m["extra"].get("limits", best)
        if decode:
            limit, per_token = machine.bandwidth(limits, threads), bytes_per_pass(row.model, row.format, m["extra"].get("weight_bytes"))
        else:
            tokens = int(row.case)
            limit, per_token = machine.peak(limits, threads, row.format), models.flops_of_prompt(row.model, tokens) / tokens
        if limit:
            parts.append(m["value"] * per_token / limit)
    if not parts:
        return
    row.of_limit = statistics.median(parts)
    if decode:
        row.wanted_limit = OF_BANDWIDTH if models.parameters(row.model) * 2 > LARGE_BYTES else None
    else:
        row.wanted_limit = OF_PEAK if row.format in ("f32", "bf16") else None


def wanted_ratio(workload: str, case: str, number_format: str) -> float | None:
    if workload == "decode":
        return BATCH_1 if case == "1" else BATCHES
    if workload == "prefill":
        return QUANTIZED_PREFILL if number_format.startswith("int") else None
    return {"offline": OFFLINE, "load": LOAD}.get(workload)


def of(saved: Results) -> list[Row]:
    """All rows, in the order in which they were measured first."""
    threads = saved.about.get("threads", 1)
    best = machine.best_of(saved.limits)
    groups: dict[tuple[str, ...], dict[str, list[dict]]] = {}
    for m in saved.measurements:
        groups.setdefault((m["model"], m["workload"], m["case"], m["format"]), {}).setdefault(m["engine"], []).append(m)
    found = []
    for key, by_engine in groups.items():
        row = Row(*key, {name: entry_of(values) for name, values in by_engine.items()}, wanted_ratio=wanted_ratio(*key[1:]))
        for s in saved.skips:
            if (s["model"], s["workload"], s["case"], s["format"]) == key and s["engine"] not in row.entries:
                row.entries[s["engine"]] = Entry(None, why=s["why"], skipped=True)
        set_limit(row, best, threads)
        found.append(row)
    return found


def over_transformers(rows: list[Row], row: Row) -> float | None:
    """Ratio of an offline row to transformers with static batches in its fastest format."""
    theirs = [r.entries["transformers"].value for r in rows if r.model == row.model and r.workload == "offline"
              and "transformers" in r.entries and r.entries["transformers"].value]
    ours = row.entries.get("quire")
    return ours.value / max(theirs) if ours and ours.value and theirs else None


@dataclasses.dataclass
class Served:
    """Throughput at a TPOT p99 that is at most the peer's at the peer's best throughput."""
    model: str
    format: str
    peer: str
    tpot_p99_ms: float
    theirs: float
    ours: float | None

    @property
    def ratio(self) -> float | None:
        return self.ours / self.theirs if self.ours is not None else None


def served(rows: list[Row]) -> list[Served]:
    points: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
    for row in rows:
        if row.workload != "serve":
            continue
        for name, entry in row.entries.items():
            if entry.value is not None:
                tpot = entry.done[-1]["extra"]["report"]["tpot_ms"]["p99"]
                points.setdefault((row.model, row.format), {}).setdefault(name, []).append((tpot, entry.value))
    found = []
    for (model, number_format), engines in points.items():
        for name, theirs in engines.items():
            if name == "quire" or "quire" not in engines:
                continue
            tpot, throughput = max(theirs, key=lambda point: point[1])
            within = [value for p99, value in engines["quire"] if p99 <= tpot]
            found.append(Served(model, number_format, name, tpot, throughput, max(within, default=None)))
    return found
