#!/usr/bin/env python3
"""Checks the machine code of compiled kernels, without a GPU.

Every kernel must contain the instructions that it is written for, and no kernel may use local memory or double arithmetic.

    check_kernels.py CUOBJDUMP OBJECT... [--forbidden-only]
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys

# A part of the kernel's name, the devices, and instructions that it must have.
REQUIRED = (
    ("8gemm_mma", ("sm_80", "sm_90a"), ("HMMA.16816", "LDSM.16.M88.4", "LDGSTS.E.BYPASS.128")),
    ("12attend_split", ("sm_80", "sm_90a"), ("HMMA.16816", "LDSM.16.M88.4", "LDSM.16.MT88.4", "LDGSTS.E.BYPASS.128")),
    ("8mma_once8multiply", ("sm_80", "sm_90a"), ("HMMA.16816",)),
    ("7cutlass13device_kernel", ("sm_90a",), ("HGMMA.64x", "UTMALDG", "UTMASTG")),
    ("11copy_memory", ("sm_80", "sm_90a"), ("LDG.E.128", "STG.E.128")),
    ("11read_memory", ("sm_80", "sm_90a"), ("LDG.E.128",)),
    # Programmatic dependent launch: the next kernel may start, and the wait for the previous one.
    ("4spinILb1", ("sm_90a",), ("PREEXIT", "ACQBULK")),
)
# Accesses to local memory (spilled registers, arrays with computed indices), and double arithmetic.
FORBIDDEN = ("LDL", "STL", "DFMA", "DADD", "DMUL", "DSETP", "DMNMX")

INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Za-z0-9_.]*)")
USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")


def dump(cuobjdump, option, path):
    done = subprocess.run([cuobjdump, option, path], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"check_kernels: cuobjdump {option} {path}: {done.stderr.strip()}")
    return done.stdout.splitlines()


def instructions(cuobjdump, path):
    """{(device, kernel): set of instructions}"""
    kernels, device, kernel = collections.defaultdict(set), None, None
    for line in dump(cuobjdump, "-sass", path):
        if line.startswith("\tcode for "):
            device = line.split()[-1]
        elif line.strip().startswith("Function : "):
            kernel = (device, line.split()[-1])
        elif match := INSTRUCTION.match(line):
            kernels[kernel].add(match[1])
    return kernels


def usage(cuobjdump, path):
    """{(device, kernel): (registers, bytes of stack, bytes of local memory)}"""
    kernels, device, kernel = {}, None, None
    for line in dump(cuobjdump, "-res-usage", path):
        if line.startswith("arch = "):
            device = line.split()[-1]
        elif line.strip().startswith("Function "):
            kernel = (device, line.split()[1].rstrip(":"))
        elif match := USAGE.search(line):
            kernels[kernel] = (int(match[1]), int(match[2]), int(match[4]))
    return kernels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cuobjdump")
    parser.add_argument("objects", nargs="+", type=pathlib.Path)
    parser.add_argument("--forbidden-only", action="store_true")
    options = parser.parse_args()

    kernels, registers, problems = {}, {}, []
    for path in options.objects:
        kernels.update(instructions(options.cuobjdump, path))
        registers.update(usage(options.cuobjdump, path))
    if not kernels or kernels.keys() != registers.keys():
        sys.exit("check_kernels: cannot read the kernels of " + ", ".join(map(str, options.objects)))
    for (device, name), found in kernels.items():
        where = f"{name[:100]} for {device}"
        bad = sorted(x for x in found if x.split(".")[0] in FORBIDDEN)
        _, stack, local = registers[device, name]
        if bad:
            problems.append(f"{where} has {', '.join(bad)}")
        if stack or local:
            problems.append(f"{where} has {stack} bytes of stack and {local} bytes of local memory")
    for part, devices, required in () if options.forbidden_only else REQUIRED:
        for device in devices:
            matching = [key for key in kernels if key[0] == device and part in key[1]]
            if not matching:
                problems.append(f"no kernel for {device} is named {part}")
            for key in matching:
                for wanted in required:
                    if not any(x.startswith(wanted) for x in kernels[key]):
                        problems.append(f"{key[1][:100]} for {device} has no {wanted}")
    largest = max(count for count, _, _ in registers.values())
    print(f"machine code: {len(kernels)} kernels for {', '.join(sorted({k[0] for k in kernels}))}, at most {largest} registers, "
          f"{len(problems)} problems")
    sys.exit("\n".join(problems) if problems else 0)


if __name__ == "__main__":
    main()
