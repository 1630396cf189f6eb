#!/usr/bin/env python3
"""Writes src/io/gguf/ggml_grids.cc: the codebooks of ggml's IQ types, from the PyPI package gguf (written with 0.19.0)."""

import pathlib

import numpy as np
from gguf import quants

OUT = pathlib.Path(__file__).resolve().parent.parent / "src" / "io" / "gguf" / "ggml_grids.cc"
# Name, class in the package, bits per element, values of the elements in the order of their codes.
GRIDS = [
    ("kIq2XxsGrid", quants.IQ2_XXS, 2, (8, 25, 43)),
    ("kIq2XsGrid", quants.IQ2_XS, 2, (8, 25, 43)),
    ("kIq2SGrid", quants.IQ2_S, 2, (8, 25, 43)),
    ("kIq3XxsGrid", quants.IQ3_XXS, 3, (4, 12, 20, 28, 36, 44, 52, 62)),
    ("kIq3SGrid", quants.IQ3_S, 3, (1, 3, 5, 7, 9, 11, 13, 15)),
    ("kIq1Grid", quants.IQ1_S, 2, (-1, 0, 1)),
]


def entries(cls, bits, values):
    cls.init_grid()
    grid = np.asarray(cls.grid).reshape(cls.grid_shape)
    codes = np.argmax(grid[..., None] == np.asarray(values, np.float32), axis=-1)
    assert (np.asarray(values, np.float32)[codes] == grid).all()
    return (codes.astype(np.uint32) << (bits * np.arange(grid.shape[1], dtype=np.uint32))).sum(axis=1)


def main():
    text = ['#include "io/gguf/ggml_grids.h"', "", "namespace quire {", "", "// clang-format off"]
    for name, cls, bits, values in GRIDS:
        numbers = [f"0x{int(e):04x}" for e in entries(cls, bits, values)]
        text.append(f"const std::array<uint16_t, {len(numbers)}> {name} = {{")
        text += ["    " + ", ".join(numbers[i:i + 12]) + "," for i in range(0, len(numbers), 12)]
        text.append("};")
    text += ["// clang-format on", "", "}  // namespace quire", ""]
    OUT.write_text("\n".join(text))


if __name__ == "__main__":
    main()
