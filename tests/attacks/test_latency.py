"""Time to first token of other clients while large bodies are sent. latency.py has the attacks and measures more of them by hand."""

import os
import pathlib

import pytest
from latency import compare, end, quantile, spawn

# Sanitizers make everything slower.
pytestmark = pytest.mark.skipif("QUIRE_LIVENESS_LIMIT_S" in os.environ, reason="times mean nothing with sanitizers")
ROUNDS, SECONDS = 2, 1.0
# A test machine has other work, so that the limit is wide; a missing priority or a body that is received by the HTTP threads exceeds it.
MAX_RATIO, TRIES = 2.0, 4


@pytest.mark.parametrize("name", ["tokenize_letters", "ignored_arrays"])
def test_large_bodies_do_not_delay_the_first_token_of_others(target, name):
    """Next to an attack, the first token takes as long as while the attackers keep another process busy."""
    process, port = spawn("--sink")
    ratios = []
    try:
        for _ in range(TRIES):
            control = compare(target.port, name, int(port), ROUNDS, SECONDS)
            attacked = compare(target.port, name, target.port, ROUNDS, SECONDS)
            baseline = max(quantile(control.alone + attacked.alone, 0.9), quantile(control.attacked, 0.9))
            ratios.append(quantile(attacked.attacked, 0.9) / baseline)
            if ratios[-1] < MAX_RATIO:
                return
    finally:
        end(process)
    raise AssertionError(f"time to first token under {name}, relative to the control, 90th percentile: {ratios}")


def test_large_bodies_are_received_and_parsed_at_a_low_priority(target):
    """The HTTP threads, which serve the streams of all clients, only notice that a large body arrives."""
    result = compare(target.port, "ignored_arrays", target.port, 1, 3.0, pid=target.process.pid)
    used = {}
    for (_, thread), seconds in result.threads.items():
        used[thread] = used.get(thread, 0.0) + seconds
    large = used["quire-receive"] + used["quire-work"]
    assert large > 0.3, used
    assert used["quire-http"] < 0.5 * large, used
    niceness = {}
    for task in pathlib.Path(f"/proc/{target.process.pid}/task").iterdir():
        head, _, rest = (task / "stat").read_text().rpartition(")")
        niceness.setdefault(head.partition("(")[2], []).append(int(rest.split()[16]))
    own = min(niceness["quire-http"])
    assert min(niceness["quire-receive"]) >= min(19, own + 10)
    assert max(niceness["quire-work"]) >= min(19, own + 10)
