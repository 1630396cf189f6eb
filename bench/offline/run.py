#!/usr/bin/env python3
"""Measures latency and throughput of a model without a server, and prints one table.

    bench/offline/run.py [--quire build/release/quire] [MODEL] [-- flags for quire bench]

Runs `quire bench latency` for several batch sizes and `quire bench throughput` once; needs only the standard library.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def bench(quire, kind, arguments):
    command = [quire, "bench", kind, *arguments, "--json", "-", "--log-level", "warning"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}")
    return json.loads(done.stdout)


def row(name, figures):
    print(f"{name:<22}{figures['prefill_tokens_per_s']:>12.1f}{figures['decode_tokens_per_s']:>12.1f}"
          f"{figures['output_tokens_per_s']:>12.1f}{figures['ttft_ms']['p50']:>10.2f}{figures['tpot_ms']['p50']:>10.3f}"
          f"{figures['itl_ms']['p99']:>10.2f}{figures['e2e_ms']['p50']:>10.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="model directory (default: the embedded model)")
    parser.add_argument("--quire", default=str(ROOT / "build/release/quire"))
    parser.add_argument("--batch-sizes", default="1,8,32")
    parser.add_argument("--input-len", default="128")
    parser.add_argument("--output-len", default="128")
    parser.add_argument("--num-prompts", default="100")
    parser.add_argument("flags", nargs="*", help="after --: further flags of quire bench")
    options = parser.parse_args()
    model = [options.model] if options.model else []
    lengths = ["--input-len", options.input_len, "--output-len", options.output_len]

    print(f"load average {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores at the start")
    print(f"{'':<22}{'prefill':>12}{'decode':>12}{'output':>12}{'TTFT':>10}{'TPOT':>10}{'ITL':>10}{'E2E':>10}")
    print(f"{'':<22}{'tokens/s':>12}{'tokens/s':>12}{'tokens/s':>12}{'p50 ms':>10}{'p50 ms':>10}{'p99 ms':>10}{'p50 ms':>10}")
    for size in options.batch_sizes.split(","):
        row(f"latency, batch {size}",
            bench(options.quire, "latency", [*model, "--batch-size", size, *lengths, *options.flags]))
    row(f"throughput, {options.num_prompts}",
        bench(options.quire, "throughput", [*model, "--num-prompts", options.num_prompts, *lengths, *options.flags]))
    print(f"load average {os.getloadavg()[0]:.2f} at the end")


if __name__ == "__main__":
    main()
