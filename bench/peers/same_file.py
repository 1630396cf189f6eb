#!/usr/bin/env python3
"""Compares quire and llama.cpp on the same GGUF files, in interleaved runs: decoding and prefill for each block type.

    bench/peers/same_file.py [--peers-dir DIR] [--kinds Q4_0,Q4_K_M,Q6_K,Q8_0] [--runs 3]

Peers and models are set up by run.py --install; files of other types are made by llama-quantize when first needed.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import sys

import engines
import models
import peers
import tasks

CASES = [("decode", 1, 32, 65), ("decode", 8, 32, 33), ("decode", 32, 16, 17), ("prefill", 1, 512, 1)]


class SameFile(engines.Quire):
    """quire on llama.cpp's file. The variants are activation types (--activation-dtype)."""
    ARGUMENTS = {"int8": ["--activation-dtype", "int8"], "int16": ["--activation-dtype", "int16"]}

    def __init__(self, setup: tasks.Setup, kind: str) -> None:
        super().__init__(setup)
        self.kind = kind

    def model(self, task: tasks.Task) -> pathlib.Path:
        return self.setup.store.gguf(task.model, self.kind)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers-dir", type=pathlib.Path, default=peers.DEFAULT_DIR)
    parser.add_argument("--quire", type=pathlib.Path, default=peers.ROOT / "build/release/quire")
    parser.add_argument("--model", default="qwen3-0.6b", choices=models.SHAPES)
    parser.add_argument("--kinds", default="Q4_0,Q4_K_M,Q6_K,Q8_0", help="block types for llama-quantize")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path, help="write all figures to this file")
    return parser.parse_args()


def main() -> int:
    args = parse_args()
    setup = tasks.Setup(args.quire, args.peers_dir, models.Store(args.peers_dir), args.threads, 600.0)
    llama = engines.LlamaCpp(setup)
    if why := llama.unavailable():
        print(f"llama.cpp: {why}; bench/peers/run.py --install sets it up", file=sys.stderr)
        return 1
    figures = []
    print("| type | work | llama.cpp tokens/s | quire, int8 | | quire, int16 | |\n|---|---|---|---|---|---|---|")
    for kind in args.kinds.split(","):
        entrants = [(llama, kind), (SameFile(setup, kind), "int8"), (SameFile(setup, kind), "int16")]
        for workload, batch, prompt, output in CASES:
            task = tasks.Task(args.model, "int8", workload, batch=batch, prompt=prompt, output=output)
            runs = [[engine.measure(task, variant).value for engine, variant in entrants] for _ in range(args.runs)]
            peer, *own = (statistics.median(values) for values in zip(*runs))
            cells = " | ".join(f"{value:.1f} | {value / peer:.2f}" for value in own)
            name = f"decode, batch {batch}" if workload == "decode" else f"prompt of {prompt}"
            print(f"| {kind} | {name} | {peer:.1f} | {cells} |", flush=True)
            figures.append({"kind": kind, "workload": workload, "batch": batch, "prompt": prompt, "runs": runs})
    if args.json:
        args.json.write_text(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
