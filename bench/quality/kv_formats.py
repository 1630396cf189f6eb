#!/usr/bin/env python3
"""Measures the quality of each KV cache format: perplexity compared with float32, with the same build and text.

    bench/quality/kv_formats.py [MODEL] [--text FILE] [--quire build/release/quire] [-- flags of the engine]

The text is split into windows of --window tokens. For every format, `quire generate --json` prints the log-probability of each token
of each window, computed with a KV cache in that format. The table has, per format: bytes per token, perplexity and its difference from
float32, the mean and maximum difference of the tokens' log-probabilities, and how often the most probable token changes. The default
models are models/quire-tiny and, if it exists, stories260K. Documents of quire-tiny's validation text end with <|endoftext|>;
stories260K gets those that are not dialogues. Needs only the standard library.
"""
from scoring import run_all

FORMATS = ["float32", "bfloat16", "float16", "fp8_e4m3", "fp8_e5m2", "int8"]

if __name__ == "__main__":
    run_all(__doc__, [(name, ["--kv-cache-dtype", name]) for name in FORMATS],
            ("bytes/token", lambda report: report["kv_bytes_per_token"]))
