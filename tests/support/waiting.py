"""Waiting for something that another thread or process does.

No test asserts how long something takes: machines are shared and slow down without warning. A test waits until a condition holds, and
a condition that does not hold after HANG_S counts as a hang. This is the only module of the tests that reads a clock."""

import os
import time

import pytest

# Far above what anything takes on a busy machine, so that only a hang exceeds it. Sanitizers need more.
HANG_S = float(os.environ.get("QUIRE_TEST_HANG_S", "120"))


def attempts(what, pause_s=0.01):
    """For loops that try until something succeeds: yields until the caller leaves the loop, and fails the test after HANG_S. `what` is text,
    or a function that makes the text when it is needed."""
    end = time.monotonic() + HANG_S
    while True:
        yield
        if time.monotonic() > end:
            pytest.fail(f"gave up after {HANG_S:g} s: {what() if callable(what) else what}")
        time.sleep(pause_s)


def wait_until(condition, what, pause_s=0.01):
    """Returns the first true value of condition()."""
    for _ in attempts(what, pause_s):
        value = condition()
        if value:
            return value
