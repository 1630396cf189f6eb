"""What the machine itself can do, measured by quire's bench_ops in the same run as everything else."""
from __future__ import annotations

import json
import os
import pathlib
import platform

import measure

# Names of bench_ops that say what arithmetic of a format can reach, best fitting first; a format's own unit may not exist.
PEAK_NAMES = {"f32": ("fma",), "bf16": ("bf16", "fma"), "int8": ("vnni", "i8", "int8"), "int4": ("vnni", "i8", "int8")}


def describe() -> dict:
    model = next((line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.processor())
    flags = next((line.split() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), [])
    units = [f for f in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8", "avx_vnni") if f in flags]
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "units": units, "kernel": platform.release(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")}


def limits(bench_ops: pathlib.Path, threads: int, limit_s: float = 120) -> dict[str, dict[str, float]]:
    """{"threads": {"Machine/…": FLOP/s or B/s}} for one thread and for all."""
    if not bench_ops.exists():
        raise measure.Failed(f"{bench_ops} is not built: configure with -DQUIRE_BUILD_BENCH=ON and build bench_ops")
    found: dict[str, dict[str, float]] = {}
    for count in sorted({1, threads}):
        done = measure.run([str(bench_ops), "--benchmark_filter=Machine", "--benchmark_format=json", "--benchmark_min_time=0.5"], limit_s,
                           {"QUIRE_BENCH_THREADS": str(count)})
        found[str(count)] = {b["name"].removesuffix("/real_time"): max(b.get("FLOP/s", 0.0), b.get("B/s", 0.0))
                             for b in json.loads(done.stdout)["benchmarks"]}
    return found


def best_of(samples: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """The largest figure of several measurements: a limit is what the machine reached at its best."""
    best: dict[str, dict[str, float]] = {}
    for sample in samples:
        for threads, figures in sample.items():
            row = best.setdefault(threads, {})
            for name, value in figures.items():
                row[name] = max(value, row.get(name, 0.0))
    return best


def bandwidth(best: dict[str, dict[str, float]], threads: int) -> float | None:
    """Bytes/s read from memory beyond any cache."""
    row = best.get(str(threads), {})
    sizes = {int(name.rsplit("/", 1)[1].removesuffix("MiB")): value for name, value in row.items() if name.startswith("Machine/read/")}
    return sizes[max(sizes)] if sizes else None


def peak(best: dict[str, dict[str, float]], threads: int, number_format: str) -> float | None:
    """Operations/s of the widest unit for a format, or None where none was measured."""
    row = {name.removeprefix("Machine/").lower(): value for name, value in best.get(str(threads), {}).items()}
    for wanted in PEAK_NAMES[number_format]:
        fitting = [value for name, value in row.items() if wanted in name]
        if fitting:
            return max(fitting)
    return None
