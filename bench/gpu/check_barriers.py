#!/usr/bin/env python3
"""Runs the kernels on the emulated device.

The kernels must pass their tests in every variant: plain, AddressSanitizer, ThreadSanitizer. Then each barrier and each
wait of each kernel is removed in turn, and at least one variant must notice: by wrong values, by bits that differ between
seeds, by a deadlock, or by a data race.

    check_barriers.py BUILD_DIRECTORY [--seeds N]
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

KERNELS = pathlib.Path(__file__).parent / "kernels"
# The tests of each kernel that run while one of its barriers is missing.
TESTS = {"gemm_mma.cuh": "GemmMmaTest/*.MatchesFloat64*", "decode_attention.cuh": "DecodeAttention.MatchesFloat64*"}
VARIANTS = ("plain", "asan", "tsan")
TIMEOUT = 300  # seconds per run


def run(build, variant, seeds, *arguments, **settings):
    environment = dict(os.environ, EMULATED_SEEDS=str(seeds), TSAN_OPTIONS="halt_on_error=1", **settings)
    command = [str(build / f"gpu_tests_{variant}"), "--gtest_brief=1", *arguments]
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=TIMEOUT)
    except subprocess.TimeoutExpired as error:
        return None, str(error)
    return done.returncode, done.stdout


def finding(status, output):
    """How a run with a missing barrier showed it; None if it did not. A crash for another reason is an error."""
    if status == 0:
        return None
    if "ThreadSanitizer: data race" in output:
        return "data race"
    if "deadlock" in output:
        return "deadlock"
    if "[  FAILED  ]" in output:
        return "wrong values"
    raise SystemExit(f"check_barriers: unexpected end of a test program\n{output[-3000:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=6, help="seeds of the plain variant; sanitizers run two (default 6)")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as directory:
        sites_file = os.path.join(directory, "sites")
        for variant in VARIANTS:
            status, output = run(options.build, variant, options.seeds if variant == "plain" else 2,
                                 EMULATED_SITES=sites_file)
            print(f"kernels, {variant}: {output.strip().splitlines()[-1] if status == 0 else 'FAILED'}")
            if status != 0:
                sys.exit(output[-6000:])
        sites = pathlib.Path(sites_file).read_text().split()

    missed = 0
    for kernel, tests in TESTS.items():
        source = (KERNELS / kernel).read_text().splitlines()
        removable = [site for site in sites if site.startswith(kernel + ":")]
        if not removable:
            sys.exit(f"check_barriers: {kernel} called no barrier")
        for site in removable:
            line = source[int(site.split(":")[1]) - 1].split("//")[0].strip()
            found = {v: finding(*run(options.build, v, 2, "--gtest_filter=" + tests, EMULATED_REMOVE=site))
                     for v in ("plain", "tsan")}
            text = ", ".join(f"{how} ({v})" for v, how in found.items() if how) or "NOT FOUND"
            missed += not any(found.values())
            print(f"without {site:28} {line:36} {text}")
    sys.exit(f"check_barriers: {missed} removed barriers were not found" if missed else 0)


if __name__ == "__main__":
    main()
