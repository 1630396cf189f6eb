#!/usr/bin/env python3
"""Checks that an executable was built with the hardening options of cmake/QuireOptions.cmake.

Reads its ELF headers with readelf. Prints each property that is missing and exits with status 1.
"""
import argparse
import re
import subprocess
import sys


def readelf(option, path):
    return subprocess.run(["readelf", "-W", option, path], check=True, capture_output=True, text=True).stdout


def missing_properties(path):
    """Descriptions of the hardening properties that the executable lacks."""
    segments = readelf("--segments", path)
    dynamic = readelf("--dynamic", path)
    symbols = readelf("--symbols", path)
    stack = re.search(r"GNU_STACK .*? (R\S*)\s+0x\S+$", segments, re.MULTILINE)
    checks = [
        ("position-independent executable (-pie)", re.search(r"FLAGS_1.*\bPIE\b", dynamic)),
        ("RELRO segment (-z relro)", "GNU_RELRO" in segments),
        ("immediate binding (-z now)", re.search(r"FLAGS.*\b(BIND_NOW|NOW)\b", dynamic)),
        ("non-executable stack", stack and "E" not in stack.group(1)),
        ("stack protector (-fstack-protector-strong)", "__stack_chk_fail" in symbols),
        ("checked C library calls (_FORTIFY_SOURCE)", re.search(r"__(mem(cpy|move|set)|pread|read|v?snprintf)_chk", symbols)),
        ("checked containers (_GLIBCXX_ASSERTIONS)", "__glibcxx_assert_fail" in symbols),
    ]
    return [name for name, present in checks if not present]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("executable")
    path = parser.parse_args().executable
    missing = missing_properties(path)
    for name in missing:
        print(f"{path}: missing hardening: {name}")
    if missing:
        sys.exit(1)
    print(f"{path}: hardened")


if __name__ == "__main__":
    main()
