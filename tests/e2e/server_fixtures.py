"""Fixtures that the end-to-end tests, the attack tests and the tests of the web page share."""

import pytest
from server_process import ServerProcess


@pytest.fixture
def start_server():
    """Starts servers with flags of their own."""
    started = []

    def start(*flags, **options):
        started.append(ServerProcess(*flags, **options))
        return started[-1]

    yield start
    for process in started:
        process.stop()
