#!/usr/bin/env python3
"""Writes tests/golden/sparse: weights of pruned modules packed by compressed-tensors, and the original weights (want.MODULE).

Needs a version that supports these packings; it was run with 0.9.4:
  pip install --no-deps --target DIR compressed-tensors==0.9.4
  PYTHONPATH=DIR tools/make_sparse_goldens.py
"""

import pathlib

import compressed_tensors
import torch
from compressed_tensors.compressors.sparse_compressors.sparse_24_bitmask import Sparse24BitMaskTensor
from compressed_tensors.compressors.sparse_compressors.sparse_bitmask import BitmaskTensor
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "sparse"
SHAPES = {"wide": (5, 44), "one": (1, 8), "tall": (33, 20)}
TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(1)
    for kind, pack in {"sparse-24-bitmask": Sparse24BitMaskTensor, "sparse-bitmask": BitmaskTensor}.items():
        tensors = {}
        for (name, shape), dtype in zip(SHAPES.items(), TYPES.values()):
            weight = torch.randn(shape, generator=generator).to(dtype)
            if pack is BitmaskTensor:
                weight[weight.abs() < 1] = 0
                weight[0] = 0  # a row of zeros
            packed = pack.from_dense(weight)
            tensors |= packed.dict(name_prefix=name)
            tensors["want." + name] = packed.decompress()
        save_file(tensors, OUT / f"{kind}.safetensors", metadata={"compressed_tensors": compressed_tensors.__version__})


if __name__ == "__main__":
    main()
