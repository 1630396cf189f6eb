#!/usr/bin/env python3
"""Prints the tables of docs/gpu.md from the results of run.sh.

Usage: tables.py RESULTS.json...
"""

import json
import sys

SHAPES = {"qkv": "6144 x 4096", "o": "4096 x 4096", "gate_up": "28672 x 4096", "down": "4096 x 14336"}
TOKENS = (1, 16, 64, 256, 4096)


class Device:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            results = json.load(file)
        self.name, driver, sm_clock, memory_clock = (part.strip() for part in results["gpu"].split(","))
        self.origin = f"{self.name}: {results['date'][:10]}, commit {results['commit']}, driver {driver}, "
        self.origin += f"{sm_clock} MHz, memory {memory_clock} MHz"
        self.parts = {part["part"]: part["records"] for part in results["parts"]}

    def value(self, part, measurement, **fields):
        """The value of the only record with these fields."""
        fields = {key.replace("_", " "): str(value) for key, value in fields.items()} | {"measurement": measurement}
        found = [r for r in self.parts[part] if all(r.get(key) == value for key, value in fields.items())]
        assert len(found) == 1, (self.name, part, fields, found)
        return found[0]["value"]

    def times(self, shape, tokens):
        """Times of a matrix product in microseconds, by kernel."""
        prefix = f"{shape}, {SHAPES[shape]}, "
        return {
            record["variant"].removeprefix(prefix): record["value"]
            for record in self.parts["gemm"]
            if record["measurement"] == "time" and record["tokens"] == str(tokens) and record["variant"].startswith(prefix)
        }


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def table(header, rows):
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def limits(devices):
    def row(label, part, measurement, unit, **fields):
        return [label] + [f"{number(d.value(part, measurement, **fields))} {unit}" for d in devices]

    graph, stream, dependent = "graph, ordinary launch", "stream, ordinary launch", "programmatic dependent launch"
    gap = "gap between kernels"
    table(
        ["", *(d.name for d in devices)],
        [
            row("device memory, read", "copy", "device memory", "GB/s", size="4096 MiB", variant="read kernel"),
            row("device memory, copied (read + written)", "copy", "device memory", "GB/s", size="4096 MiB",
                variant="cudaMemcpyAsync, read + written"),
            row("pinned host memory to device", "copy", "pinned memory", "GB/s", size="1024 MiB", variant="host to device"),
            row("device to pinned host memory", "copy", "pinned memory", "GB/s", size="1024 MiB", variant="device to host"),
            row("both at once, sum", "copy", "pinned memory", "GB/s", size="1024 MiB", variant="both directions at once, sum"),
            row("gap between kernels in a stream, 132 blocks", "launch", gap, "µs", blocks=132, variant=stream),
            row("the same with programmatic dependent launch", "launch", gap, "µs", blocks=132, variant=f"stream, {dependent}"),
            row("gap between kernels in a graph, 132 blocks", "launch", gap, "µs", blocks=132, variant=graph),
            row("the same with programmatic dependent launch", "launch", gap, "µs", blocks=132, variant=f"graph, {dependent}"),
            row("host time to enqueue a kernel", "launch", "host time", "µs", variant="enqueue one kernel"),
        ],
    )


def bits(devices):
    rows = []
    for part, measurement, label in (
        ("model", "single mma.sync equal to the model", "single `mma.sync` equal to the model (25 bits, sums of 16)"),
        ("model", "sums over 4096 equal to the model", "sums over K = 4096 equal to the model, `mma.sync` and `wgmma`"),
        ("bits", "elements that differ from mma.sync", "elements where `wgmma` or other tiles of `mma.sync` differ from `mma.sync`"),
    ):
        row = [label]
        for device in devices:
            records = [r for r in device.parts[part] if r["measurement"] == measurement]
            records = [r for r in records if r.get("model", "25 bits, sums of 16") == "25 bits, sums of 16"]
            row.append(f"{sum(r['value'] for r in records):,} of {sum(int(r['unit'].removeprefix('of ')) for r in records):,}")
        rows.append(row)
    for mib in (0, 32):
        row = [f"numbers of tokens (1 to 4096) where cuBLASLt differs, bf16, workspace of {mib} MiB"]
        for device in devices:
            variant = f"cuBLASLt, workspace {mib} MiB, bf16, uniform"
            differ = device.value("cublaslt_bits", "numbers of tokens that differ", variant=variant)
            split = device.value("cublaslt_bits", "numbers of tokens with split-K", variant=variant)
            row.append(f"{differ} (split-K in {split})")
        rows.append(row)
    table(["", *(d.name for d in devices)], rows)


def products(device):
    bandwidth = device.value("gemm", "bandwidth of a kernel that reads")
    rows = []
    for shape, size in SHAPES.items():
        features, k = (int(number) for number in size.split(" x "))
        for tokens in TOKENS:
            times = device.times(shape, tokens)
            wgmma, mma, cublaslt = (
                min((name for name in times if name.startswith(kind)), key=times.get) for kind in ("wgmma", "mma.sync", "cuBLASLt")
            )
            split = cublaslt.split("split-K ")[1]
            if tokens <= 64:
                reached = f"{2 * features * k / times[wgmma] / 1e3 / bandwidth:.2f} of the bandwidth"
            else:
                reached = f"{2 * features * k * tokens / times[wgmma] / 1e6:.0f} TFLOP/s"
            rows.append([
                f"{shape} {size.replace('x', '×')}",
                str(tokens),
                f"{number(times[wgmma])} µs ({wgmma.removeprefix('wgmma ').replace('x', '×')})",
                reached,
                f"{number(times[mma])} µs",
                f"{number(times[cublaslt])} µs" + ("" if split == "1" else f" (split-K {split})"),
            ])
    print(f"{device.name}:")
    print()
    table(["weights", "tokens", "`wgmma` (best tiles)", "reaches", "`mma.sync`", "cuBLASLt"], rows)


def attention(devices):
    label = "KV cache read, fraction of the read bandwidth"
    cases = [(r["sequences"], r["tokens each"]) for r in devices[0].parts["attention"] if r["measurement"] == label]
    rows = []
    for sequences, tokens in cases:
        row = [f"{sequences} × {tokens}"]
        for device in devices:
            time = device.value("attention", "time", sequences=sequences, tokens_each=tokens)
            row.append(f"{number(time)} µs, {device.value('attention', label, sequences=sequences, tokens_each=tokens):.2f}")
        rows.append(row)
    table(["sequences × tokens", *(d.name for d in devices)], rows)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    devices = [Device(path) for path in sys.argv[1:]]
    for device in devices:
        print(f"- {device.origin}")
    print()
    limits(devices)
    bits(devices)
    for device in devices:
        products(device)
    attention(devices)


main()
