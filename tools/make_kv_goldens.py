#!/usr/bin/env python3
"""Writes tests/golden/quant/fp8.json: conversions of 8-bit floats by torch.

For float8_e4m3fn and float8_e5m2: the value of every bit pattern, and the conversion of float32 numbers. These are all midpoints between
adjacent numbers with their float32 neighbours, zeros, subnormals, extremes, NaN and random numbers. torch converts numbers beyond the
largest one to NaN or infinity; the KV cache saturates, so inputs are clamped before they are converted.

Needs torch.  Usage: make_kv_goldens.py [OUTPUT.json]
"""

import json
import pathlib
import platform
import struct
import sys

import torch

FORMATS = {"fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}


def bits(value):
    """Returns the bit pattern of a float32."""
    return struct.unpack("<I", struct.pack("<f", value))[0]


def inputs(dtype):
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    finite = codes.view(dtype).float()
    finite = finite[torch.isfinite(finite)].unique()
    middles = (finite[1:] + finite[:-1]) / 2
    infinity = torch.tensor(float("inf"))
    near = [torch.nextafter(middles, infinity), torch.nextafter(middles, -infinity)]
    generator = torch.Generator().manual_seed(20)
    random = [torch.randn(100, generator=generator) * scale for scale in (1e-4, 1e-2, 1.0, 300.0, 40000.0)]
    edges = torch.tensor([0.0, -0.0, 1e-45, -1e-45, 1.2e-38, 447.9, 464.0, 465.0, -500.0, 61439.0, 61440.0, 65504.0, 1e30,
                          -3.4e38, float("inf"), -float("inf"), float("nan")])
    return torch.cat([finite, middles, *near, *random, edges])


def table(dtype):
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    largest = torch.finfo(dtype).max
    values = inputs(dtype)
    encoded = values.clamp(-largest, largest).to(dtype).view(torch.uint8)
    return {
        "decoded": [None if value != value else bits(value) for value in codes.view(dtype).float().tolist()],
        "encoded": [[bits(value), code] for value, code in zip(values.tolist(), encoded.tolist())],
    }


def main():
    default = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/quant/fp8.json"
    output = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    document = {"versions": {"python": platform.python_version(), "torch": torch.__version__}}
    document.update({name: table(dtype) for name, dtype in FORMATS.items()})
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(document, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
