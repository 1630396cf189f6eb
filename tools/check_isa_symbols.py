#!/usr/bin/env python3
"""Checks that the object files of the instruction sets (backends/cpu/isa) share no symbol with other units.

If such a unit emits an inline function with external linkage, the linker may keep that copy for the whole program, which would then
run, for example, AVX-512 instructions on a machine without them. So a unit must not define weak symbols, and must export only its
entry point. Arguments: object files; those not below /isa/ are ignored.
"""
import argparse
import subprocess
import sys


def defined_symbols(nm, path):
    """(type letter, name) of each symbol that the object file defines."""
    listing = subprocess.run([nm, "-C", "--defined-only", path], check=True, capture_output=True, text=True).stdout
    for line in listing.splitlines():
        fields = line.split(maxsplit=2)
        if len(fields) == 3:
            yield fields[1], fields[2]


def faults(symbols):
    """Forbidden symbols: weak or unique ones, and exports other than fill_<isa>. DW.ref.* is a pointer that sanitizers add."""
    return [
        f"{kind} {name}"
        for kind, name in symbols
        if not name.startswith("DW.ref.")
        and (kind in "WwVvu" or (kind.isupper() and not name.startswith("quire::cpu::fill_")))
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nm", default="nm")
    parser.add_argument("objects", nargs="+")
    args = parser.parse_args()
    units = [path for path in args.objects if "/isa/" in path]
    if not units:
        sys.exit("no object file of an instruction set among the arguments")
    failed = False
    for path in units:
        for fault in faults(defined_symbols(args.nm, path)):
            print(f"{path}: {fault}")
            failed = True
    if failed:
        sys.exit("use only intrinsics, plain pointers and functions of an anonymous namespace in these units")
    print(f"{len(units)} units share no symbols")


if __name__ == "__main__":
    main()
