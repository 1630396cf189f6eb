"""A search for small inputs that need much memory: cost_searches.py has the inputs and the limits.

The limits hold for every input. An input that takes minutes is found by the time limits of requests and programs; bench/attacks/cost.py runs
the same searches with limits on CPU time. QUIRE_COST_ROUNDS is the number of inputs of each search; QUIRE_COST_SEED (default 1, or "random")
chooses the mutations. A search depends on measurements only in its choice of parents."""

import os
import random

import httpx
import pytest
from cost_searches import FILE_SEARCHES, MIB, REQUEST_FLAGS, Files, Meter, run, search_requests
from server_process import ServerProcess
from waiting import HANG_S

ROUNDS = int(os.environ.get("QUIRE_COST_ROUNDS", "25"))
SEED = random.SystemRandom().randrange(10**9) if os.environ.get("QUIRE_COST_SEED") == "random" else int(os.environ.get("QUIRE_COST_SEED", "1"))
pytestmark = pytest.mark.timeout(300 + ROUNDS)


def test_requests_need_the_memory_that_their_size_and_tokens_allow():
    server = ServerProcess(*REQUEST_FLAGS)
    try:
        with httpx.Client(base_url=server.url, timeout=HANG_S) as http:
            meter = Meter(server, http)
            search_requests(meter, SEED, 4 * ROUNDS)
            meter.report()
            assert meter.accepted > 0
    finally:
        server.stop()


@pytest.mark.parametrize("name", FILE_SEARCHES)
def test_files_need_the_memory_that_their_size_allows(tmp_path, name):
    files = Files(name, SEED)
    FILE_SEARCHES[name](files, tmp_path, ROUNDS)
    files.report()
    assert files.accepted > 0


def test_the_peak_memory_of_a_program_does_not_depend_on_this_process():
    before = run(["--version"])[1][0]
    ballast = bytearray(os.urandom(MIB) * 96)
    assert run(["--version"])[1][0] < before + 32 * MIB
    del ballast
