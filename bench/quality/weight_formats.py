#!/usr/bin/env python3
"""What each format of the weights costs in quality: perplexity against the checkpoint's own, on one build and one text.

    bench/quality/weight_formats.py [MODEL] [--text FILE] [--quire build/release/quire] [-- flags of the engine]

As kv_formats.py does it, with `--quantization` in the place of the cache's format, which stays float32. The first column is what the
weights take in memory for each parameter, the tables and norms that stay floats included.
"""
from scoring import run_all

FORMATS = ["auto", "int8", "w8a8", "w8a16", "int4", "int4-g64", "int4-g128", "w4a16"]

if __name__ == "__main__":
    run_all(__doc__, [(name, ["--quantization", name, "--kv-cache-dtype", "float32"]) for name in FORMATS],
            ("bits/weight", lambda report: f"{8 * report['weight_memory'] / report['num_parameters']:.3f}"))
