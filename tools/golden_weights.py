#!/usr/bin/env python3
"""Writes the checkpoints of tests/golden, whose weights are not stored but drawn by a seeded generator.

A directory with weights.json has a description of its weights:
  {"seed": N, "files": {FILE: {"crc32": of the file, "tensors": {NAME: [dtype, shape, distribution, parameters...]}}}}
NAME may have ranges of integers, {first..last}, and then describes one tensor for each combination of them. Distributions:
  normal, mean, deviation[, tied]   the sum of three uniform integers, see normal(); tied: the tensor that has the same values
  distinct, n                       rows of distinct integers below n, see distinct()
  constant, value
  values, value...                  one per element
tests/support/golden_checkpoint.cc writes the same files for the C++ tests.

Usage: golden_weights.py OUT [SET/NAME...]    writes complete checkpoints to OUT/SET/NAME, for example models/llama; default: all
"""

import argparse
import itertools
import json
import pathlib
import re
import shutil
import sys
import zlib

import numpy as np

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
GAMMA = 0x9E3779B97F4A7C15  # increment of SplitMix64
MASK = 2**64 - 1
SCALE_BITS = 20  # mean and deviation are multiples of 2^-20
FIELD_BITS = 21  # of each of the three integers
DTYPES = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16, "I64": np.int64, "U8": np.uint8}
RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")


def mix(values):
    """The finalizer of SplitMix64 (Steele, Lea, Flood 2014), for an array of uint64."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def draws(seed, name, count):
    """`count` outputs of SplitMix64. Each tensor has its own stream, which depends on the seed and on FNV-1a of its name."""
    fnv = 0xCBF29CE484222325
    for byte in name.encode():
        fnv = (fnv ^ byte) * 0x100000001B3 & MASK

    def mixed(value):
        return int(mix(np.array([value & MASK], np.uint64))[0])

    start = mixed(mixed(seed + GAMMA) + (fnv + 1) * GAMMA)
    return mix(np.uint64(start) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GAMMA))


def fixed_point(value):
    return int(np.floor(value * 2.0**SCALE_BITS + 0.5))


def normal(seed, name, shape, mean, deviation):
    """float32 values that are nearly normally distributed, from integer arithmetic and one rounding. Twice the sum of three uniform
    integers of 21 bits, minus its mean, has a standard deviation of 2^21."""
    bits = draws(seed, name, int(np.prod(shape, dtype=np.int64)))
    field = np.uint64(2**FIELD_BITS - 1)
    total = (bits & field) + (bits >> np.uint64(FIELD_BITS) & field) + (bits >> np.uint64(2 * FIELD_BITS) & field)
    centered = 2 * total.astype(np.int64) - 3 * (2**FIELD_BITS - 1)
    values = (fixed_point(mean) << FIELD_BITS) + fixed_point(deviation) * centered
    return (values.astype(np.float32) * np.float32(2.0 ** -(SCALE_BITS + FIELD_BITS))).reshape(shape)


def distinct(seed, name, shape, limit):
    """Integers [rows, columns]: each row has the first elements of a random permutation of 0..limit-1, sorted by one draw each."""
    keys = draws(seed, name, shape[0] * limit).reshape(shape[0], limit)
    return np.argsort(keys, axis=1, kind="stable")[:, :shape[1]]


def values_of(seed, name, dtype, shape, kind, *parameters):
    """A tensor as an array of DTYPES[dtype]; bfloat16 as its bits."""
    if kind == "normal":
        values = normal(seed, parameters[2] if len(parameters) > 2 else name, shape, *parameters[:2])
    elif kind == "distinct":
        values = distinct(seed, name, shape, *parameters)
    elif kind == "constant":
        values = np.full(shape, parameters[0])
    else:
        values = np.array(parameters).reshape(shape)
    if dtype != "BF16":
        return values.astype(DTYPES[dtype])
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


def expand(pattern):
    """The names that a pattern with ranges stands for."""
    parts = RANGE.split(pattern)
    ranges = [range(int(first), int(last) + 1) for first, last in zip(parts[1::3], parts[2::3])]
    for numbers in itertools.product(*ranges):
        yield "".join(itertools.chain(*itertools.zip_longest(parts[::3], map(str, numbers), fillvalue="")))


def collapse(tensors):
    """Joins tensors {name: description} that differ in the numbers of their names only."""
    groups = {}
    for name, description in tensors.items():
        parts = name.split(".")
        key = tuple("" if part.isdigit() else part for part in parts), json.dumps(description)
        groups.setdefault(key, []).append([(int(part), int(part)) for part in parts if part.isdigit()])
    joined = {}
    for (parts, _), members in groups.items():
        for axis in reversed(range(len(members[0]))):
            rows = []
            for member in sorted(members, key=lambda m: (m[:axis], m[axis + 1:], m[axis])):
                if rows and rows[-1][:axis] == member[:axis] and rows[-1][axis + 1:] == member[axis + 1:] and rows[-1][axis][1] + 1 == member[axis][0]:
                    rows[-1][axis] = rows[-1][axis][0], member[axis][1]
                else:
                    rows.append(list(member))
            members = rows
        for member in members:
            numbers = iter(str(a) if a == b else f"{{{a}..{b}}}" for a, b in member)
            name = ".".join(part or next(numbers) for part in parts)
            joined[name] = tensors[next(expand(name))]
    return joined


def file_bytes(seed, tensors):
    """A safetensors file. Larger elements come first, so that all are aligned; then the order is that of the names."""
    described = {name: description for pattern, description in tensors.items() for name in expand(pattern)}
    data, header, offset = [], {"__metadata__": {"format": "pt"}}, 0
    for name in sorted(described, key=lambda n: (-np.dtype(DTYPES[described[n][0]]).itemsize, n)):
        dtype, shape, *distribution = described[name]
        data.append(np.ascontiguousarray(values_of(seed, name, dtype, shape, *distribution)).tobytes())
        header[name] = dict(dtype=dtype, shape=shape, data_offsets=[offset, offset + len(data[-1])])
        offset += len(data[-1])
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(data)


def size_of(dtype, shape):
    return int(np.prod(shape, dtype=np.int64)) * np.dtype(DTYPES[dtype]).itemsize


def write_description(path, seed, files):
    """Writes weights.json for files {name: tensors}, with one line per tensor."""
    parts = []
    for file, tensors in files.items():
        lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(entry)}" for name, entry in tensors.items())
        crc32 = zlib.crc32(file_bytes(seed, tensors))
        parts.append(f'{json.dumps(file)}: {{"crc32": {crc32}, "tensors": {{\n{lines}\n}}}}')
    (path / "weights.json").write_text(f'{{"seed": {seed}, "files": {{\n' + ",\n".join(parts) + "\n}}\n")


def write_checkpoint(source, out):
    """Copies a golden directory and adds its weights."""
    source, out = pathlib.Path(source), pathlib.Path(out)
    shutil.copytree(source, out, dirs_exist_ok=True)
    if not (source / "weights.json").exists():
        return
    description = json.loads((source / "weights.json").read_text())
    for file, content in description["files"].items():
        data = file_bytes(description["seed"], content["tensors"])
        if zlib.crc32(data) != content["crc32"]:
            raise ValueError(f"{source / 'weights.json'}: {file} has another CRC-32: {zlib.crc32(data)}")
        (out / file).parent.mkdir(parents=True, exist_ok=True)
        (out / file).write_bytes(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="SET/NAME")
    args = parser.parse_args()
    for name in args.names or sorted(str(p.parent.relative_to(GOLDEN)) for p in GOLDEN.glob("*/*/weights.json")):
        if not (GOLDEN / name).is_dir():
            sys.exit(f"{GOLDEN / name} does not exist")
        write_checkpoint(GOLDEN / name, args.out / name)


if __name__ == "__main__":
    main()
