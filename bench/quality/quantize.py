#!/usr/bin/env python3
"""Measures perplexity and log-probabilities before and after `quire quantize`, by format and method: the table in
docs/weight-formats.md.

The model is quire-tiny. The first half of its validation.txt is the calibration text, the second half is measured. Errors of both
signs cancel in the perplexity of a short text, but not in the mean absolute difference of the tokens' log-probabilities.

Usage: quantize.py [--quire FILE] [NAME...]       NAME: formats to measure (default: all)
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import tempfile

from scoring import HEADINGS, differences, score, windows_of

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
ROWS += [(f"gguf-{kind}", ["--method", method]) for kind in ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs")
         for method in ("rtn", "imatrix", "gptq")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quire", default=str(ROOT / "build/release/quire"))
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    text = (MODEL / "validation.txt").read_text()
    middle = text.find("\n", len(text) // 2)
    exact = ["--kv-cache-dtype", "float32", "--activation-dtype", "float32"]
    with tempfile.TemporaryDirectory() as directory:
        calibration, prompts = pathlib.Path(directory) / "calibration.txt", pathlib.Path(directory) / "prompts.jsonl"
        calibration.write_text(text[:middle])
        windows = windows_of(args.quire, str(MODEL), text[middle:], 1023)
        prompts.write_text("".join(json.dumps({"prompt_token_ids": window}) + "\n" for window in windows))
        reference = score(args.quire, str(MODEL), str(prompts), exact)
        print(f"{'format':<12}{'options':<40}{'bits':>6}{HEADINGS}\n{'original':<52}{16:>6}{differences(reference, reference)}", flush=True)
        for name, flags in ROWS:
            if args.names and name not in args.names:
                continue
            out = pathlib.Path(directory) / "out"
            made = subprocess.run([args.quire, "quantize", MODEL, "-o", out, "--format", name, "--text", calibration, *map(str, flags)],
                                  capture_output=True, text=True, check=True)
            bits = next(line for line in made.stderr.splitlines() if "bits each" in line).split("bits each")[0].split()[-1]
            columns = differences(reference, score(args.quire, str(out), str(prompts), exact))
            print(f"{name:<12}{' '.join(map(str, flags)):<40}{bits:>6}{columns}", flush=True)
            shutil.rmtree(out)


if __name__ == "__main__":
    main()
