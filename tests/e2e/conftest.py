"""Fixtures of the end-to-end tests."""

import signal

import pytest
from server_fixtures import start_server  # noqa: F401
from server_process import ServerProcess

# Programs that the tests start inherit an ignored SIGINT, which shells give to commands in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def server():
    """One server for all tests that leave it as they found it."""
    process = ServerProcess()
    yield process
    alive = process.process.poll() is None
    process.stop()
    assert alive, "the server died:\n" + "".join(process.log)
    assert process.process.returncode == 0, "".join(process.log)


@pytest.fixture
def client(server):
    return server.client()


@pytest.fixture(scope="session")
def model(server):
    return server.client().models.list().data[0].id
