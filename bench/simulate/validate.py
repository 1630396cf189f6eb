#!/usr/bin/env python3
"""Compares `quire simulate` with the real engine on the same trace.

Takes a slice of a CSV trace and scales its lengths to the model's context. Each round first measures the cost of steps
(`quire bench steps`), because the speed of a shared machine changes. Then, for each load, it replays the slice with
`quire bench throughput` and simulates it. Prints the medians of the rounds and the median of the rounds' differences.
Exits with 1 if the mean time to first token or the throughput differs by more than --tolerance.

    bench/simulate/validate.py --trace AzureLLMInferenceTrace_conv.csv [--quire build/release/quire] [MODEL]
"""

import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="model directory (default: the embedded model)")
    parser.add_argument("--trace", required=True, help="CSV with TIMESTAMP, ContextTokens, GeneratedTokens")
    parser.add_argument("--quire", default=str(ROOT / "build/release/quire"))
    parser.add_argument("--num-requests", type=int, default=400)
    parser.add_argument("--max-len", type=int, default=1000, help="tokens of the longest request")
    parser.add_argument("--divide", type=float, default=4.0, help="divisor of the lengths, which are then limited to --max-len")
    parser.add_argument("--loads", default="0.5,0.8,inf",
                        help="request rates as fractions of the simulated offline rate; inf = all at once")
    parser.add_argument("--engine-flags", default="--kv-cache-memory 128MiB --threads 1",
                        help="passed to the engine and to the simulator")
    parser.add_argument("--cost-model", help="use this file instead of measuring")
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds; medians are printed")
    parser.add_argument("--cpu-time", action="store_true",
                        help="count the engine thread's CPU time (a busy machine; loads must be inf)")
    parser.add_argument("--tolerance", type=float, default=0.15)
    parser.add_argument("--json", help="write all figures to this file")
    return parser.parse_args()


def run(args, command, *flags):
    """Runs a quire command that writes JSON, returns the object."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        call = [args.quire, *command]
        if args.model:
            call.append(args.model)
        call += [*args.engine_flags.split(), *flags, "--json", out.name]
        subprocess.run(call, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return json.load(open(out.name))


def scaled_rows(args):
    rows = []
    with open(args.trace, newline="", encoding="utf-8-sig") as file:
        for row in csv.DictReader(file):
            if len(rows) == args.num_requests:
                break
            output = min(max(1, round(int(row["GeneratedTokens"]) / args.divide)), args.max_len // 2)
            inputs = min(max(1, round(int(row["ContextTokens"]) / args.divide)), args.max_len - output)
            rows.append((row["TIMESTAMP"], inputs, output))
    return rows


def seconds_of(timestamp):
    """Seconds of the day; slices of a trace do not pass midnight."""
    hours, minutes, seconds = timestamp.split()[1].split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


def write_slice(path, rows, rate):
    """The rows with their gaps scaled to an average of `rate` requests per second; None = all at once."""
    first = seconds_of(rows[0][0])
    last = seconds_of(rows[-1][0])
    factor = 0.0 if rate is None else (len(rows) / rate) / (last - first)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["TIMESTAMP", "ContextTokens", "GeneratedTokens"])
        for timestamp, inputs, outputs in rows:
            writer.writerow([f"{(seconds_of(timestamp) - first) * factor:.6f}", inputs, outputs])


FIGURES = (("ttft_ms", "mean"), ("ttft_ms", "p50"), ("ttft_ms", "p90"), ("tpot_ms", "mean"), ("e2e_ms", "mean"),
           ("output_tokens_per_s", None), ("requests_per_s", None))


def figure(report, name, part):
    return report[name][part] if part else report[name]


def cost_of_steps(args, path):
    """Measures the cost model and writes it to the file."""
    measured = run(args, ["bench", "steps"], *(["--cpu-time"] if args.cpu_time else []))
    path.write_text(json.dumps(measured))
    error = measured["fit_error"]
    print(f"error of the fit: mean {100 * error['mean']:.1f} %, worst {100 * error['worst']:.1f} %", flush=True)


def one_round(args, load, trace, cost_model):
    """[(real, simulated) for each of FIGURES]"""
    # The pool is used once before, as it is when the steps are measured, because the first touch of memory is slow.
    flags = ["--dataset", trace, "--num-prompts", str(args.num_requests), "--num-iters-warmup", "1"]
    if args.cpu_time:
        flags.append("--cpu-time")
    if load != "inf":
        flags.append("--trace-times")
    real = run(args, ["bench", "throughput"], *flags)
    simulated = run(args, ["simulate"], "--trace", trace, "--cost-model", str(cost_model))
    return [(figure(real, *which), figure(simulated, *which)) for which in FIGURES]


def judge(args, load, rounds):
    """Prints a load's figures; returns them, and whether one differs by more than the tolerance."""
    result, failed = {"load": load, "figures": {}}, False
    print(f"load {load}")
    for (name, part), pairs in zip(FIGURES, zip(*rounds)):
        real, sim = (statistics.median(side) for side in zip(*pairs))
        off = statistics.median((s - r) / r if r else 0.0 for r, s in pairs)
        judged = (name, part) in (("ttft_ms", "mean"), ("output_tokens_per_s", None))
        bad = judged and abs(off) > args.tolerance
        failed = failed or bad
        label = f"{name} {part}" if part else name
        result["figures"][label] = {"real": real, "simulated": sim, "difference": off, "rounds": pairs}
        print(f"  {label:22} real {real:12.3f}   simulated {sim:12.3f}   {100 * off:+7.1f} %"
              f"{'  <- more than allowed' if bad else ''}")
    return result, failed


def main():
    args = parse_args()
    rows = scaled_rows(args)
    loads = args.loads.split(",")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        cost_model = folder / "cost.json"
        rounds = {load: [] for load in loads}
        for number in range(args.rounds):
            if args.cost_model:
                cost_model = args.cost_model
            else:
                cost_of_steps(args, cost_model)
            if number == 0:
                offline = str(folder / "offline.csv")
                write_slice(offline, rows, None)
                capacity = run(args, ["simulate"], "--trace", offline, "--cost-model", str(cost_model))["requests_per_s"]
            for load in loads:
                trace = str(folder / f"slice-{load}.csv")
                write_slice(trace, rows, None if load == "inf" else float(load) * capacity)
                rounds[load].append(one_round(args, load, trace, cost_model))
    judged = [judge(args, load, rounds[load]) for load in loads]
    results, failed = [r for r, _ in judged], any(bad for _, bad in judged)
    if args.json:
        json.dump(results, open(args.json, "w"), indent=2)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
