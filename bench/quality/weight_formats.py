#!/usr/bin/env python3
"""Measures the quality of each weight format: perplexity compared with the checkpoint's format, with the same build and text.

    bench/quality/weight_formats.py [MODEL] [--text FILE] [--quire build/release/quire] [-- flags of the engine]

Works like kv_formats.py, with `--quantization` instead of the KV cache format, which is float32. The first column has the bits per
parameter in memory, including embeddings and norms that stay in float.
"""
from scoring import run_all

FORMATS = ["auto", "int8", "w8a8", "w8a16", "int4", "int4-g64", "int4-g128", "w4a16"]

if __name__ == "__main__":
    run_all(__doc__, [(name, ["--quantization", name, "--kv-cache-dtype", "float32"]) for name in FORMATS],
            ("bits/weight", lambda report: f"{8 * report['weight_memory'] / report['num_parameters']:.3f}"))
