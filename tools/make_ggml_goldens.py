#!/usr/bin/env python3
"""Writes tests/golden/gguf/blocks.json: random blocks of each ggml type as decoded by the PyPI package gguf; and
tests/golden/gguf/encoded.json: floats as encoded by it, for the types that it can encode.

Written with gguf 0.19.0. {TYPE: {blocks: hex of two rows of four blocks, first: the first 32 values, crc: CRC-32 of all values as float32}}
"""

import json
import pathlib
import zlib

import gguf
import numpy as np

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "gguf" / "blocks.json"
ENCODED = OUT.with_name("encoded.json")
TYPES = ("Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S IQ1_S IQ1_M IQ4_NL IQ4_XS "
         "TQ1_0 TQ2_0 MXFP4 NVFP4").split()
# Offsets of the float16 numbers in a block, where random bytes could be NaN.
HALVES = dict(Q4_0=[0], Q4_1=[0, 2], Q5_0=[0], Q5_1=[0, 2], Q8_0=[0], Q2_K=[80, 82], Q3_K=[108], Q4_K=[0, 2], Q5_K=[0, 2], Q6_K=[208],
              IQ2_XXS=[0], IQ2_XS=[0], IQ2_S=[0], IQ3_XXS=[0], IQ3_S=[0], IQ1_S=[0], IQ4_NL=[0], IQ4_XS=[0], TQ1_0=[52], TQ2_0=[64])


def main():
    rng = np.random.default_rng(7)
    goldens = {}
    for name in TYPES:
        kind = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = rng.integers(0, 256, (8, size), np.uint8)
        for at in HALVES.get(name, []):
            blocks[:, at:at + 2] = rng.normal(0, 0.05, 8).astype(np.float16).reshape(8, 1).view(np.uint8)
        if name == "IQ1_M":  # its scale is in the upper bits of four words
            blocks[:, 55] = (blocks[:, 55] & 0x0F) | 0x20
        if name == "MXFP4":
            blocks[:, 0] = [0, 1, 2, 100, 120, 127, 130, 140]
        if name == "TQ2_0":  # uses three of the four values
            blocks[:, :64] = np.where((blocks[:, :64] & 0x55) & (blocks[:, :64] >> 1 & 0x55), blocks[:, :64] & 0x55, blocks[:, :64])
        values = gguf.quants.dequantize(blocks.reshape(2, 4 * size), kind).astype(np.float32)
        assert np.isfinite(values).all(), name
        # -0 equals 0.
        values = values + np.float32(0)
        goldens[name] = dict(blocks=blocks.tobytes().hex(), first=[float(x) for x in values[0, :32]], crc=zlib.crc32(values.tobytes()))
    lines = ",\n".join(f" {json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in goldens.items())
    OUT.write_text("{\n" + lines + "\n}\n")

    values = (np.round(rng.normal(0.01, 0.05, 96) * 4096) / 4096).astype(np.float32)
    values[64:] = np.where(np.arange(32) < 3, values[64:], 0)
    types = {name: gguf.GGMLQuantizationType[name] for name in ("F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")}
    encoded = {name: gguf.quants.quantize(values, kind).view(np.uint8).tobytes().hex() for name, kind in types.items()}
    ENCODED.write_text(json.dumps(dict(values=values.tolist(), blocks=encoded)) + "\n")


if __name__ == "__main__":
    main()
