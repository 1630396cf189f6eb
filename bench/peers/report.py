"""The Markdown table of a run, and the plot (plot.py) in the same directory."""
from __future__ import annotations

import pathlib

import machine
import plot
import rows
from results import Results

UNITS = {"decode": "tokens/s", "prefill": "tokens/s", "offline": "tokens/s, prompt and output", "load": "s", "memory": "MB",
         "serve": "output tokens/s"}


def number(value: float | None, workload: str = "") -> str:
    if value is None:
        return "–"
    if workload == "memory":
        return f"{value / 1e6:.0f}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 100 else f"{value:.0f}"


def verdict(value: float | None, wanted: float | None) -> str:
    if value is None:
        return "–"
    if wanted is None:
        return f"{value:.2f}"
    return f"{value:.2f} ({'≥' if value >= wanted else '**<**'} {wanted:.2f})"


def table(found: list[rows.Row], workload: str) -> list[str]:
    chosen = [r for r in found if r.workload == workload and r.reached]
    if not chosen:
        return []
    names = list(dict.fromkeys(n for r in chosen for n in r.entries))
    names.sort(key=lambda n: n != "quire")
    lines = ["", f"## {workload} ({UNITS[workload]}, median)", "",
             "| row | " + " | ".join(names) + " | fastest peer | quire / fastest peer (target) | fraction of the machine's limit (target) |",
             "|---|" + "---:|" * len(names) + "---|---|---|"]
    for row in chosen:
        cells = []
        for name in names:
            entry = row.entries.get(name)
            if entry is None or entry.value is None:
                cells.append("" if entry is None or entry.skipped else "✗")
            else:
                others = [f"{v} {number(m)}" for v, m in entry.medians.items() if v != entry.variant] if workload == "load" else []
                cells.append(number(entry.value, workload) + (f" ({entry.variant}; {', '.join(others)})" if others else ""))
        ratio = verdict(row.ratio, row.wanted_ratio)
        if workload == "memory":
            ours = row.entries.get("quire")
            ratio = "–" if ours is None or ours.value is None else \
                f"{ours.value / 1e6:.0f} MB ({'<' if ours.value < rows.MEMORY_BYTES else '**≥**'} {rows.MEMORY_BYTES / 1e6:.0f})"
        if workload == "offline" and (times := rows.over_transformers(found, row)) is not None:
            ratio += f"; {times:.1f} × transformers ({'≥' if times >= rows.OVER_TRANSFORMERS else '**<**'} {rows.OVER_TRANSFORMERS:.0f})"
        lines.append(f"| {row.label} | " + " | ".join(cells) + f" | {row.best_peer or '–'} | {ratio} | "
                     f"{verdict(row.of_limit, row.wanted_limit)} |")
    return lines


def serving_tables(found: list[rows.Row]) -> list[str]:
    lines: list[str] = []
    for row in (r for r in found if r.workload == "serve"):
        for name, entry in row.entries.items():
            if entry.value is None:
                continue
            r = entry.done[-1]["extra"]["report"]
            lines.append(f"| {row.label} | {name} | " + " | ".join(
                number(r[phase][p]) for phase in ("ttft_ms", "tpot_ms") for p in ("p50", "p90", "p99")) + f" | {number(entry.value)} |")
    if lines:
        lines = ["", "Latencies of the last run, ms:", "",
                 "| row | engine | TTFT p50 | p90 | p99 | TPOT p50 | p90 | p99 | output tokens/s |",
                 "|---|---|---:|---:|---:|---:|---:|---:|---:|", *lines]
    equal = rows.served(found)
    if equal:
        lines += ["", f"Served throughput at a TPOT p99 that is at most the peer's at its best throughput (target: ≥ {rows.SERVED:.2f}):",
                  "", "| model | format | peer | its TPOT p99, ms | peer, tokens/s | quire, tokens/s | ratio |",
                  "|---|---|---|---:|---:|---:|---|"]
        lines += [f"| {s.model} | {s.format} | {s.peer} | {number(s.tpot_p99_ms)} | {number(s.theirs)} | {number(s.ours)} | "
                  f"{verdict(s.ratio, rows.SERVED)} |" for s in equal]
    return lines


def about(saved: Results, found: list[rows.Row]) -> list[str]:
    what, best, threads = saved.about, machine.best_of(saved.limits), saved.about.get("threads", 1)
    host = what.get("machine", {})
    runs = [e.runs for r in found for e in r.entries.values()]
    lines = ["# quire compared with other engines", "",
             f"{host.get('cpu', '?')}, {host.get('cores', '?')} cores ({', '.join(host.get('units', []))}), {threads} threads for "
             f"every engine, random weights; medians of up to {max(runs, default=0)} interleaved runs.", "", "| limits of the machine | " +
             " | ".join(f"{count} threads" for count in best) + " |", "|---|" + "---:|" * len(best)]
    for name in dict.fromkeys(n for figures in best.values() for n in figures):
        unit = "GB/s" if name == "read" else "GFLOP/s or GOP/s"
        lines.append(f"| {name} ({unit}) | " + " | ".join(number(best[c].get(name, 0) / 1e9) for c in best) + " |")
    if saved.limits_error:
        lines.append(f"\nLimits not measured: {saved.limits_error}")
    loads = [m["load_average"] for m in saved.measurements if "load_average" in m]
    if loads:
        lines += ["", f"Load average before a measurement: minimum {min(loads):.1f}, maximum {max(loads):.1f} (includes the engines' "
                  "own threads)."]
    lines += ["", "✗ = failed, with the reason below; empty = not supported by the engine. Prefill: prompt tokens per second until the first token. "
              "Decode: tokens of all sequences after the first token of the last one. Limits are measured directly before and after each "
              "figure: for decode at batch 1, the bytes of weights that a step reads, relative to the read bandwidth; for prefill, the "
              "arithmetic relative to the peak of the format's instructions."]
    return lines


def notes(saved: Results, found: list[rows.Row]) -> list[str]:
    lines = ["", "## Engines and settings", ""]
    lines += [f"- {name}: {version}" for name, version in saved.about.get("versions", {}).items()]
    lines += [f"- {name}: not measured, {why}" for name, why in saved.about.get("unavailable", {}).items()]
    lines += [f"- mixed set of {model}: {source}" for model, source in saved.about.get("mixes", {}).items()]
    settings = dict.fromkeys((n, r.workload, e.settings) for r in found for n, e in r.entries.items() if e.settings)
    lines += ["", "| engine | workload | settings |", "|---|---|---|", *(f"| {n} | {w} | {s} |" for n, w, s in settings)]
    skipped = dict.fromkeys(f"{n} {e.why}" for r in found for n, e in r.entries.items() if e.skipped)
    lines += ["", f"Skipped: {', '.join(skipped)}."] if skipped else []
    late = [r.label for r in found if not r.reached]
    lines += ["", f"Not reached in the time limit: {'; '.join(late)}"] if late else []
    missing = [(r.label, n, e.why) for r in found if r.reached for n, e in r.entries.items() if e.value is None and not e.skipped]
    if missing:
        lines += ["", "## Failed measurements", "", *(f"- {label}, {name}: {why or 'nothing'}" for label, name, why in missing)]
    spread = [(e.spread, r.label, n) for r in found for n, e in r.entries.items() if e.runs > 1]
    if spread:
        lines += ["", "Largest spread of runs, (maximum - minimum) / median: " +
                  "; ".join(f"{s:.0%} {label} {name}" for s, label, name in sorted(spread, reverse=True)[:3])]
    return lines


def write(saved: Results, out: pathlib.Path) -> None:
    """Writes DIR/table.md, DIR/ratios.svg and DIR/summary.svg."""
    found = rows.of(saved)
    lines = about(saved, found)
    for workload in UNITS:
        lines += table(found, workload)
        if workload == "serve":
            lines += serving_tables(found)
    lines += notes(saved, found)
    (out / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (out / "ratios.svg").write_text(plot.draw(found), encoding="utf-8")
    (out / "summary.svg").write_text(plot.draw(plot.headlines(found), plot.SUMMARY), encoding="utf-8")
