"""The limits of the machine, measured by bench_ops in the same run as the engines."""
from __future__ import annotations

import ctypes
import json
import mmap
import os
import pathlib
import platform

import measure

# Names in bench_ops of the peak for a format, best match first. A machine may have no instructions for the first one.
PEAK_NAMES = {"f32": ("float32",), "bf16": ("bfloat16", "float32"), "int8": ("int8",), "int4": ("int8",), "int4-g128": ("int8",)}


def describe() -> dict:
    model = next((line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.processor())
    flags = next((line.split() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), [])
    units = [f for f in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8", "avx_vnni") if f in flags]
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "units": units, "kernel": platform.release(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")}


def touch_free_memory(share: float = 0.9) -> None:
    """Touches most of the free memory once and frees it.

    A virtual machine gets its memory page by page on first touch, at a tenth of the speed of later accesses. Without this, the first engine
    to use such pages would appear slower than the engines measured after it.
    """
    with open("/proc/meminfo", encoding="ascii") as file:
        free = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemFree:"))
    size = int(free * share) // (2 << 20) * (2 << 20)
    if size == 0:
        return
    # In a child process: otherwise the memory would count towards the peak memory of every program that this process starts.
    child = os.fork()
    if child != 0:
        os.waitpid(child, 0)
        return
    with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        start = ctypes.c_char.from_buffer(memory)
        ctypes.memset(ctypes.addressof(start), 1, size)
        del start  # the mapping cannot be closed while a pointer refers to it
    os._exit(0)


def limits(bench_ops: pathlib.Path, counts: set[int], seconds: float = 1.0) -> dict[str, dict[str, float]]:
    """{"threads": {"read": B/s, "float32": FLOP/s, …}} for each number of threads; 0 = no such instructions."""
    if not bench_ops.exists():
        raise measure.Failed(f"{bench_ops} is not built: configure with -DQUIRE_BUILD_BENCH=ON and build bench_ops")
    found: dict[str, dict[str, float]] = {}
    for count in sorted(counts):
        done = measure.run([str(bench_ops), "--benchmark_filter=^Machine", "--benchmark_format=json", f"--benchmark_min_time={seconds}"],
                           120, {"QUIRE_BENCH_THREADS": str(count)})
        row, = json.loads(done.stdout)["benchmarks"]
        found[str(count)] = {name.split()[0]: value for name, value in row.items() if name.endswith("/s")}
    return found


def best_of(samples: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """The maximum of several measurements, because a limit is the best that the machine reached."""
    best: dict[str, dict[str, float]] = {}
    for sample in samples:
        for threads, figures in sample.items():
            row = best.setdefault(threads, {})
            for name, value in figures.items():
                row[name] = max(value, row.get(name, 0.0))
    return best


def bandwidth(best: dict[str, dict[str, float]], threads: int) -> float | None:
    """Read bandwidth of memory, in bytes/s, with data that does not fit in a cache."""
    return best.get(str(threads), {}).get("read")


def peak(best: dict[str, dict[str, float]], threads: int, number_format: str) -> float | None:
    """Operations/s of the fastest instructions for a format, or None if they were not measured."""
    row = best.get(str(threads), {})
    return next((row[name] for name in PEAK_NAMES[number_format] if row.get(name)), None)
