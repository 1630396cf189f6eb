#!/usr/bin/env python3
"""The flags of the compiler and check_kernels.py reject kernels that spill, use local memory or compute in double.

Reads the paths of nvcc and cuobjdump from the environment variables NVCC and CUOBJDUMP; without the latter only the compiler
is tested.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
NVCC, CUOBJDUMP = os.environ["NVCC"], os.environ.get("CUOBJDUMP")
GOOD, LOCAL, SPILLS, DOUBLE = range(4)


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def compile_kernel(directory, kernel, *flags):
    target = os.path.join(directory, "kernel.o")
    return target, run(HERE.parent / "compile.sh", NVCC, f"-DBAD={kernel}", "-gencode", "arch=compute_90a,code=sm_90a", *flags,
                       "-c", str(HERE / "bad_kernels.cu"), "-o", target)


class StaticChecks(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def test_the_compiler_rejects_bad_kernels(self):
        flags = re.search(r"-Xptxas=\S*", (HERE.parent / "CMakeLists.txt").read_text())[0]
        for kernel, message in ((GOOD, ""), (LOCAL, "Local memory"), (SPILLS, "spilled"), (DOUBLE, "double")):
            with self.subTest(kernel=kernel):
                _, done = compile_kernel(self.directory, kernel, flags)
                self.assertEqual(done.returncode == 0, kernel == GOOD, done.stdout)
                self.assertIn(message, done.stdout)

    @unittest.skipUnless(CUOBJDUMP, "there is no cuobjdump")
    def test_check_kernels_rejects_bad_kernels(self):
        for kernel, message in ((GOOD, "0 problems"), (LOCAL, "LDL"), (SPILLS, "STL"), (DOUBLE, "DMUL")):
            with self.subTest(kernel=kernel):
                path, done = compile_kernel(self.directory, kernel)
                self.assertEqual(done.returncode, 0, done.stdout)
                done = run(sys.executable, HERE.parent / "check_kernels.py", CUOBJDUMP, path, "--forbidden-only")
                self.assertEqual(done.returncode == 0, kernel == GOOD, done.stdout)
                self.assertIn(message, done.stdout)

    @unittest.skipUnless(CUOBJDUMP, "there is no cuobjdump")
    def test_check_kernels_requires_instructions(self):
        path, _ = compile_kernel(self.directory, GOOD)
        done = run(sys.executable, HERE.parent / "check_kernels.py", CUOBJDUMP, path)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no kernel for sm_90a is named 8gemm_mma", done.stdout)

    def test_compile_rejects_serialized_wgmma(self):
        message = "ptxas info : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized"
        self.assertEqual(run(HERE.parent / "compile.sh", "echo", message).returncode, 1)
        self.assertEqual(run(HERE.parent / "compile.sh", "echo", "ptxas info").returncode, 0)
        self.assertEqual(run(HERE.parent / "compile.sh", "sh", "-c", "exit 7").returncode, 7)


if __name__ == "__main__":
    unittest.main()
