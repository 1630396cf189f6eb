#!/usr/bin/env python3
"""What each number format of the KV cache costs in quality: perplexity against float32, on one build and one text.

    bench/quality/kv_formats.py [MODEL] [--text FILE] [--quire build/release/quire] [-- flags of the engine]

The text is cut into windows of --window tokens. For every format `quire generate --json` gives the log-probability of each token
of each window, which attention computes out of a cache in that format. Printed are, for each format: bytes of a token, perplexity
and its difference from float32, the mean and the largest difference of a token's log-probability, and how often the likeliest
token is another one. Without MODEL: models/quire-tiny, and stories260K where it is at hand; of quire-tiny's validation text, whose
documents end with <|endoftext|>, stories260K gets those that are no dialogue. Needs only the standard library.
"""
from scoring import run_all

FORMATS = ["float32", "bfloat16", "float16", "fp8_e4m3", "fp8_e5m2", "int8"]

if __name__ == "__main__":
    run_all(__doc__, [(name, ["--kv-cache-dtype", name]) for name in FORMATS],
            ("bytes/token", lambda report: report["kv_bytes_per_token"]))
