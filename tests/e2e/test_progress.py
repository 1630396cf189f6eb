"""Progress bars of commands in a pseudo-terminal, and their absence on a pipe."""

import json
import os
import re
import signal
import subprocess

import pytest
from hub_fixtures import hub, place  # noqa: F401
from hub_place import big_files
from hub_server import Fault
from server_process import BINARY
from slow_model import slow_model
from terminal import Terminal
from waiting import HANG_S

SLOW = {"QUIRE_CPU_ISA": "generic"}  # for a slow model, so that commands take seconds
MEMORY = ["--kv-cache-memory", "64MiB"]
NUM_PROMPTS = 12
# With one thread it takes long enough for a bar, and little CPU time.
GENERATE = [*MEMORY, "--threads", 1, "--max-tokens", 36, "--ignore-eos", "--temperature", 0, "--log-level", "warning",
            *["--prompt", "Once upon a time"] * NUM_PROMPTS]


def generate():
    return ["generate", slow_model(), *GENERATE]


@pytest.fixture
def run_in_terminal():
    started = []

    def run(*arguments, columns=100, **environment):
        started.append(Terminal([str(BINARY), *map(str, arguments)], columns=columns, environment={**SLOW, **environment}))
        return started[-1]

    yield run
    for terminal in started:
        terminal.close()


def wait_for_line(terminal, pattern):
    """Waits until a line of the screen matches; returns it."""
    found = []

    def matches():
        found[:] = [line for line in terminal.lines() if re.fullmatch(pattern, line)]
        return bool(found)

    terminal.wait_until(matches, pattern)
    return found[0]


LEFT = r"\d (s|min|h) left"
COUNTS = r"\[#*\.*\] +\d+ %, \d+ of \d+ {}, [\d.]+ {}/s, [\d.]+ (s|min|h) left"


def test_generate_shows_counts_rate_and_time_left(run_in_terminal):
    terminal = run_in_terminal(*generate())
    first = wait_for_line(terminal, "Generating " + COUNTS.format("prompts", "tokens"))
    done = int(re.search(r"(\d+) %", first)[1])
    terminal.wait_until(lambda: any(int(p) > done for p in re.findall(r"Generating .* (\d+) %", terminal.text())), "progress")
    assert terminal.wait_for_end() == 0
    assert "Generating" not in terminal.text() and not re.search(LEFT, terminal.text()), "the bar is not cleared"
    assert terminal.output.count(b"=== prompt") == NUM_PROMPTS


def test_the_bar_fits_into_narrow_terminals(run_in_terminal):
    terminal = run_in_terminal(*generate(), columns=32)
    wait_for_line(terminal, r"Generating +\d+ %, [\d.]+ (s|min|h) left")
    terminal.resize(14, 24)
    wait_for_line(terminal, r"Generating +\d?")
    terminal.process.kill(signal.SIGKILL)
    # Each update replaces the line, so there is never a second one.
    assert len([line for line in terminal.lines() if line]) == 1, terminal.text()


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {}], ids=["dumb", "pipe"])
def test_without_a_terminal_there_is_no_bar(environment):
    """The command takes long enough for a bar: it is that of test_generate_shows_counts_rate_and_time_left."""
    if environment:
        terminal = Terminal([str(BINARY), *map(str, generate())], environment={**SLOW, **environment})
        assert terminal.wait_for_end() == 0
        output = terminal.output.decode()
        assert "Generating" not in output and "\x1b" not in output
    else:
        run = subprocess.run([str(BINARY), *map(str, generate()), "--json"], capture_output=True, text=True, env={**os.environ, **SLOW}, timeout=HANG_S)
        assert run.returncode == 0
        assert run.stderr == ""
        assert len([json.loads(line) for line in run.stdout.splitlines()]) == NUM_PROMPTS


@pytest.mark.parametrize("arguments, line", [
    (["latency", "--batch-size", 4, "--output-len", 10, "--num-iters", 40], "Measuring " + COUNTS.format("requests", "tokens")),
    (["throughput", "--num-prompts", 24, "--input-len", 8, "--output-len", 40, "--num-iters-warmup", 0], "Generating " + COUNTS.format("requests", "tokens")),
    (["steps", "--max-seconds", 20], r"Measuring \[#*\.*\] +\d+ %, [\d.]+ s left"),
], ids=["latency", "throughput", "steps"])
def test_benchmarks_show_their_progress(run_in_terminal, arguments, line):
    wait_for_line(run_in_terminal("bench", arguments[0], slow_model(), *arguments[1:], *MEMORY), line)


def test_bench_serve_shows_its_progress(server, run_in_terminal):
    terminal = run_in_terminal("bench", "serve", "--base-url", server.url, "--num-prompts", 20, "--request-rate", 8, "--input-len", 8,
                               "--output-len", 16)
    wait_for_line(terminal, "Measuring " + COUNTS.format("requests", "tokens"))
    assert terminal.wait_for_end() == 0
    assert "Measuring" not in terminal.text()


def test_perplexity_shows_its_progress(run_in_terminal, tmp_path):
    (tmp_path / "text.txt").write_text("The cat sat on the mat and looked at the dog. " * 800)
    terminal = run_in_terminal("perplexity", slow_model(), "--text", tmp_path / "text.txt", "--window", 64, "--max-num-batched-tokens", 128, *MEMORY)
    wait_for_line(terminal, "Reading " + COUNTS.format("windows", "tokens"))


def test_simulate_shows_its_progress(run_in_terminal):
    terminal = run_in_terminal("simulate", "--num-requests", 400000, "--request-rate", 100, "--flops", 1e15, "--bandwidth", 3e12,
                               "--input-len", 100, "--output-len", 50)
    wait_for_line(terminal, "Simulating .*" + COUNTS.format("requests", "requests"))


def test_pull_shows_bytes_rate_and_time_left(place, hub):
    hub.add("org/tiny", big_files())
    hub.faults["model.safetensors"] = Fault(delay=0.02, times=1000)
    terminal = Terminal([str(BINARY), "pull", "org/tiny"], columns=100, environment=place.environment)
    try:
        wait_for_line(terminal, r"Pulling org/tiny: [\d.]+ [KM]iB of 2\d\.\d MiB, [\d.]+ [KM]iB/s, \d+ (s|min) left")
        assert terminal.wait_for_end() == 0
        assert not re.search(LEFT, terminal.text())
    finally:
        terminal.close()
