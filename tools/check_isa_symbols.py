#!/usr/bin/env python3
"""Checks that the object files of the instruction sets (backends/cpu/isa) share no symbol with other units.

An inline function that such a unit emits with external linkage may be the copy that the linker keeps for the whole program; it
would then run, say, AVX-512 instructions on a machine without them. So a unit may define nothing weak and export its one entry
point alone. Arguments: object files; those not under /isa/ are passed over.
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
    """What must not be there: weak or unique symbols, and exports beside fill_<isa>. DW.ref.* is a pointer that sanitizers add."""
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
