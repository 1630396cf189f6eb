#!/usr/bin/env python3
"""Perplexity before and after `quire quantize`, by format and method, as the table of docs/weight-formats.md.

The model is quire-tiny; the first half of its validation.txt calibrates, on the second half it is measured.

Usage: quantize.py [--quire FILE] [NAME...]       NAME: formats of which rows are wanted; none: all
"""

import argparse
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "quire-tiny"
ROWS = [("w8a16", []), ("w8a8", []), ("w8a8", ["--method", "smoothquant"]), ("fp8", []), ("fp8-block", [])]
for bits in (4, 3):
    for method in ("rtn", "awq", "gptq"):
        for group in (128, 32):
            ROWS.append(("gptq", ["--bits", bits, "--group-size", group, "--method", method]))
for method in ("rtn", "awq", "gptq"):
    for group in (128, 32):
        ROWS.append(("awq", ["--group-size", group, "--method", method]))
ROWS += [("bnb-nf4", []), ("bnb-fp4", [])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quire", default=ROOT / "build/release/quire")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    text = (MODEL / "validation.txt").read_text()
    middle = text.find("\n", len(text) // 2)
    print("| format | options | bits a weight | perplexity | difference |\n|---|---|---|---|---|")
    for row, (name, flags) in enumerate(ROWS):
        if args.names and name not in args.names:
            continue
        with tempfile.TemporaryDirectory() as directory:
            calibration, evaluation, out = (pathlib.Path(directory) / f for f in ("calibration.txt", "evaluation.txt", "out"))
            calibration.write_text(text[:middle])
            evaluation.write_text(text[middle:])
            run = subprocess.run([args.quire, "quantize", MODEL, "-o", out, "--format", name, "--text", calibration, "--eval-text",
                                  evaluation, *map(str, flags)], capture_output=True, text=True, check=True)
            bits = next(line for line in run.stderr.splitlines() if "bits each" in line).split("bits each")[0].split()[-1]
            before, after = run.stdout.splitlines()[1:]
            if row == 0:
                print(f"| bfloat16, as stored | | 16.00 | {before.split()[-3]} | |")
            perplexity, difference = after.split()[-5], after.split()[-2]
            print(f"| `{name}` | {' '.join(map(str, flags))} | {bits} | {perplexity} | {difference} % |", flush=True)


if __name__ == "__main__":
    main()
