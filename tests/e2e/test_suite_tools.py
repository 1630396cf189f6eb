"""The scripts that choose the stages of ./test for a change and that compare its runs."""

import subprocess
import sys

import pytest
from server_process import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import affected  # noqa: E402
import unsteady_tests  # noqa: E402

TESTED = ["base", "kv", "text", "exec", "engine", "backends", "server"]


@pytest.mark.parametrize("files, stages", [
    ([], {}),
    (["docs/usage.md", "src/text/README.md"], {}),
    (["src/text/tokenizer/bpe.cc"], {"asan": ["text"], "tidy": ["src/text/tokenizer/bpe.cc"]}),
    (["tests/unit/engine/engine_test.cc", "src/text/tokenizer/bpe.h"],
     {"asan": ["text", "engine"], "tsan": ["engine"], "tidy": ["src/text/tokenizer/bpe.cc"]}),
    (["src/text/a_removed_file.cc"], {"asan": ["text"]}),
    ([".clang-tidy"], {"tidy": affected.source_layers()}),
    (["src/base/log.cc"], {"asan": ["base"], "tsan": affected.THREADED_LAYERS, "tidy": ["src/base/log.cc"]}),
    (["src/server/page/page.css"], {"asan": ["server"], "tsan": ["server"], "wheel": [], "frameworks": []}),
    (["python/quire/llm.py"], {"wheel": [], "frameworks": []}),
    (["cmake/QuireOptions.cmake"], {"asan": ["base"], "tsan": ["base"]}),
    (["tests/fuzz/gguf.dict"], {"fuzz": []}),
    (["bench/gpu/kernels/gemm_mma.cuh"], {"emulate": []}),
])
def test_a_change_affects_the_layers_whose_sources_or_tests_differ(files, stages):
    assert affected.affected(files, TESTED) == stages


@pytest.mark.parametrize("header, source", [
    ("src/text/tokenizer/bpe.h", "src/text/tokenizer/bpe.cc"),
    ("src/base/thread_name.h", "src/base/thread_pool.cc"),  # the first of its layer
    ("src/base/no_such_header.h", None),
])
def test_a_header_is_read_in_a_source_that_includes_it(header, source):
    assert affected.including_source(header) == source


def test_an_unknown_commit_affects_everything():
    done = subprocess.run([sys.executable, ROOT / "tools" / "affected.py", "0" * 40], capture_output=True, text=True, check=True)
    assert "is not in this clone" in done.stderr
    all_stages = subprocess.run([sys.executable, ROOT / "tools" / "affected.py", "--all"], capture_output=True, text=True, check=True)
    assert done.stdout == all_stages.stdout
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["asan", "tsan", "tidy", "fuzz", "emulate", "wheel", "frameworks"]


def report(directory, **outcomes):
    directory.mkdir()
    inner = {"passed": "", "failed": "<failure/>", "skipped": "<skipped/>"}
    cases = "".join(f'<testcase classname="suite" name="{name}">{inner[outcome]}</testcase>' for name, outcome in outcomes.items())
    (directory / "unit.xml").write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    return directory


def test_tests_that_fail_in_one_run_or_are_missing_in_one_are_unsteady(tmp_path):
    directories = [report(tmp_path / "1", steady="passed", fails="passed", missing="passed", skipped="skipped"),
                   report(tmp_path / "2", steady="passed", fails="failed", skipped="skipped")]
    rows = unsteady_tests.unsteady([unsteady_tests.passed_tests(directory) for directory in directories])
    assert rows == [("unit", "suite.fails", 1), ("unit", "suite.missing", 1)]


def test_an_incomplete_report_is_unsteady(tmp_path):
    (tmp_path / "unit.xml").write_text("<testsuites><testsuite>")
    rows = unsteady_tests.unsteady([unsteady_tests.passed_tests(tmp_path), {}])
    assert rows == [("unit", "(the report is incomplete)", 0)]
