"""Fixtures of the tests of the Python package. QUIRE_BINARY is the program; PYTHONPATH has the package."""

import os
import signal
import subprocess
import sys

import pytest
from quire import LLM
from waiting import HANG_S

# Scripts that the tests start inherit an ignored SIGINT, which shells give to commands in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def llm():
    return LLM(kv_cache_memory_bytes=32 << 20, threads=1)


@pytest.fixture(scope="session")
def embedder():
    return LLM(runner="pooling", kv_cache_memory_bytes=32 << 20, threads=1)


@pytest.fixture
def run_script():
    """Runs Python source in a process of its own and returns the finished process."""

    def run(source, timeout=HANG_S, **options):
        return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=timeout,
                              env={**os.environ, "PYTHONFAULTHANDLER": "1"}, **options)

    return run
