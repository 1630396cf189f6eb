#!/usr/bin/env python3
"""Writes tests/golden/quant/gptq.json: a small matrix rounded by GPTQ in float64 (Frantar et al., arXiv 2210.17323, algorithm 1).

The group scales are fixed (from the largest weight), so that only the algorithm is compared: the inverse of H with numpy, its upper
Cholesky factor, columns in order, and the error added to the following columns. Written with numpy 2.4.

Usage: gptq_reference.py [--out FILE]
"""

import argparse
import json
import pathlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
BITS, DAMP = 4, 0.01


def gptq(w, h, order, size):
    """Quantized values [n, k] of w, columns rounded in order, in groups of `size` adjacent columns with the scales of the original w."""
    n, k = w.shape
    middle = 2 ** (BITS - 1)
    groups = w.reshape(n, k // size, size)
    scales = np.maximum(groups.max(-1) / (middle - 1), -groups.min(-1) / middle).astype(np.float32).astype(np.float64)
    scales = scales.repeat(size, 1)[:, order]
    w, h = w[:, order].copy(), h[np.ix_(order, order)]
    u = np.linalg.cholesky(np.linalg.inv(h + DAMP * np.diag(h).mean() * np.eye(k))).T
    codes = np.zeros((n, k), int)
    for i in range(k):
        codes[:, i] = np.clip(np.rint(w[:, i] / scales[:, i]), -middle, middle - 1)
        error = (w[:, i] - codes[:, i] * scales[:, i]) / u[i, i]
        w[:, i + 1:] -= np.outer(error, u[i, i + 1:])
    out = np.zeros_like(codes)
    out[:, order] = codes + middle
    return out, u


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=ROOT / "tests/golden/quant/gptq.json", type=pathlib.Path)
    args = parser.parse_args()
    rng = np.random.default_rng(5)
    n, k = 6, 48
    # Numbers that float32 and the file represent exactly.
    w = np.round(rng.normal(0, 0.1, (n, k)) * 4096) / 4096
    mix = rng.normal(0, 1, (k, k)) / 4 + np.eye(k)
    x = (rng.normal(0, 1, (200, k)) * rng.uniform(0.2, 3, k)) @ mix
    h = np.round(x.T @ x * 16) / 16
    plain = np.arange(k)
    by_size = np.argsort(-np.diag(h), kind="stable")
    codes, u = gptq(w, h, plain, k)
    golden = {"n": n, "k": k, "bits": BITS, "damp": DAMP, "w": w.flatten().tolist(), "h": h.flatten().tolist(),
              "factor": [float(f"{v:.9g}") for v in u.flatten()], "codes_of_rows": codes.flatten().tolist(),
              "codes_of_16_by_size": gptq(w, h, by_size, 16)[0].flatten().tolist()}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
