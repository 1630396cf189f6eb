#!/usr/bin/env python3
"""run.sh with programs that crash, hang, fail or print recorded output: it continues, and its JSON and table are complete."""
import json
import os
import pathlib
import signal
import stat
import subprocess
import tempfile
import time
import unittest

RUN = pathlib.Path(__file__).resolve().parents[1] / "run.sh"

# A program that prints recorded output: one measurement, and one that contains characters that JSON escapes.
MEASURES = r"""
while [ $# -gt 0 ]; do case $1 in --records) records=$2; shift ;; esac; shift; done
echo '  device memory, read kernel, size 8 MiB                                             4312 GB/s'
echo '{"measurement": "device memory", "size": "8 MiB", "variant": "read kernel", "value": 4312.25, "unit": "GB/s"}' >>"$records"
echo '{"measurement": "device", "text": "a \"GPU\" \\ \u000a"}' >>"$records"
"""
STARTS = 'case ${LD_LIBRARY_PATH:-} in "") ;; *) echo "no NVIDIA driver" >&2; exit 3 ;; esac' + MEASURES


class Run(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.bin, self.out = self.directory / "bin", self.directory / "out"
        self.bin.mkdir()
        self.program("start", STARTS)
        # A driver's tool that never ends if it samples, and no cuBLASLt.
        self.tools = self.directory / "tools"
        self.tools.mkdir()
        self.script(self.tools / "nvidia-smi", """
            case "$*" in
              *driver_version*) echo "NVIDIA H200, 580.65, 1980, 3201" ;;
              *) while :; do echo "1980, 3201, 400.5, 50"; echo "345, 3201, 90.1, 40"; sleep 0.2; done ;;
            esac""")
        self.script(self.tools / "ldconfig", "echo '\tlibcublasLt.so.13 (libc6,x86-64) => /lib/libcublasLt.so.13'")

    def script(self, path, text):
        path.write_text("#!/usr/bin/env bash\n" + text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def program(self, name, text):
        self.script(self.bin / f"probe_{name}", text)

    def command(self, *arguments):
        return [str(RUN), "--bin", str(self.bin), "--out", str(self.out), *arguments]

    def environment(self, **settings):
        environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
        return dict(environment, PATH=f"{self.tools}:{os.environ['PATH']}", **settings)

    def run_sh(self, *arguments, **settings):
        return subprocess.run(self.command(*arguments), env=self.environment(**settings), capture_output=True, text=True, timeout=60)

    def results(self):
        """({part: its object}, all of results.json)"""
        results = json.loads((self.out / "results.json").read_text())
        return {part["part"]: part for part in results["parts"]}, results

    def test_writes_results_of_every_part(self):
        for name in ("copy", "launch", "bits", "gemm", "attention"):
            self.program(name, MEASURES)
        done = self.run_sh()
        self.assertEqual(done.returncode, 0, done.stderr)
        parts, results = self.results()
        self.assertEqual(list(parts), "start start_without_driver copy launch model bits cublaslt_bits gemm attention".split())
        self.assertEqual({part["status"] for part in parts.values()}, {"measured"})
        self.assertEqual(results["gpu"], "NVIDIA H200, 580.65, 1980, 3201")
        self.assertRegex(results["commit"], r"^[0-9a-f]{12}|^unknown")
        self.assertEqual(parts["copy"]["records"][0]["value"], 4312.25)
        self.assertEqual(parts["copy"]["records"][1]["text"], 'a "GPU" \\ \n')
        self.assertEqual(parts["copy"]["clocks"], "multiprocessors 345 to 1980 MHz, memory 3201 to 3201 MHz")
        summary = (self.out / "summary.txt").read_text()
        self.assertEqual(done.stdout, summary)
        for text in ("commit   ", "580.65", "gemm: measured", "size 8 MiB", "clocks: multiprocessors 345 to 1980 MHz"):
            self.assertIn(text, summary)

    def test_passes_the_part_and_the_path_of_cublaslt(self):
        self.program("bits", 'echo "arguments: $*"' + MEASURES)
        self.run_sh("cublaslt_bits", "model")
        summary = (self.out / "summary.txt").read_text()
        self.assertRegex(summary, r"arguments: cublaslt_bits --records \S* --cublaslt /lib/libcublasLt.so.13")
        self.assertRegex(summary, r"arguments: model --records")
        self.run_sh("--cublaslt", "/other/lib.so", "model")
        self.assertIn("--cublaslt /other/lib.so", (self.out / "summary.txt").read_text())

    def test_continues_after_a_crash_and_keeps_what_was_measured(self):
        self.program("copy", MEASURES + 'printf "{\\"measurement\\": \\"half a li" >>"$records"; kill -SEGV $$')
        self.program("launch", MEASURES)
        done = self.run_sh("copy", "launch")
        self.assertEqual(done.returncode, 1)
        parts, _ = self.results()
        self.assertEqual(parts["copy"]["status"], "crashed (signal 11)")
        self.assertEqual(len(parts["copy"]["records"]), 2)
        self.assertEqual(parts["launch"]["status"], "measured")

    def test_ends_a_part_that_hangs(self):
        self.program("copy", "trap '' TERM\n" + MEASURES + "sleep 1000 & wait; wait; sleep 1000")
        self.program("launch", MEASURES)
        begin = time.monotonic()
        done = self.run_sh("copy", "launch", PROBE_LIMIT="1")
        self.assertLess(time.monotonic() - begin, 20)
        self.assertEqual(done.returncode, 1)
        parts, _ = self.results()
        self.assertEqual([parts["copy"]["status"], parts["launch"]["status"]], ["timed out", "measured"])
        self.assertEqual(parts["copy"]["records"][0]["value"], 4312.25)

    def test_reports_errors_with_their_message(self):
        self.program("copy", 'echo "probe_copy: allocating 4294967296 bytes: \\"out of memory\\"" >&2; exit 1')
        self.program("bits", 'echo "probe_bits: cannot find libcublasLt.so.13" >&2; exit 4')
        done = self.run_sh("copy", "cublaslt_bits", "gemm")
        self.assertEqual(done.returncode, 1)
        parts, _ = self.results()
        self.assertEqual(parts["copy"]["status"], "failed")
        self.assertEqual(parts["copy"]["message"], 'probe_copy: allocating 4294967296 bytes: "out of memory"')
        self.assertEqual(parts["cublaslt_bits"]["status"], "not run")
        self.assertEqual(parts["gemm"]["status"], "failed")  # the program is missing
        self.assertIn("out of memory", (self.out / "summary.txt").read_text())

    def test_a_part_that_the_machine_cannot_run_is_not_a_failure(self):
        self.program("bits", "exit 4")
        self.assertEqual(self.run_sh("cublaslt_bits").returncode, 0)

    def test_a_program_that_starts_without_a_driver_as_if_it_had_one_is_a_failure(self):
        self.program("start", MEASURES)
        self.assertEqual(self.run_sh("start_without_driver").returncode, 1)
        self.assertEqual(self.results()[0]["start_without_driver"]["status"], "failed")

    def test_ends_at_once_without_a_gpu(self):
        self.program("start", 'echo "probe_start: no NVIDIA driver is installed" >&2; exit 3')
        done = self.run_sh()
        self.assertEqual(done.returncode, 3)
        self.assertIn("no NVIDIA driver is installed", done.stderr)
        self.assertFalse((self.out / "results.json").exists())

    def test_keeps_the_parts_of_earlier_runs(self):
        self.program("copy", MEASURES)
        self.program("launch", MEASURES)
        self.run_sh("copy")
        self.run_sh("launch")
        self.assertEqual(list(self.results()[0]), ["copy", "launch"])
        self.program("copy", "exit 1")
        self.run_sh("copy")
        parts, _ = self.results()
        self.assertEqual([parts["copy"]["status"], parts["copy"]["records"]], ["failed", []])

    def test_keeps_finished_parts_when_it_is_ended(self):
        self.program("copy", MEASURES)
        self.program("launch", "touch $0.started; exec sleep 1000")
        process = subprocess.Popen(self.command("copy", "launch"), env=self.environment(), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        while not (self.bin / "probe_launch.started").exists():
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=20), 130)
        self.assertEqual(list(self.results()[0]), ["copy"])

    def test_rejects_unknown_parts(self):
        self.assertEqual(self.run_sh("speed").returncode, 2)


if __name__ == "__main__":
    unittest.main()
