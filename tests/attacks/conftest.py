"""Fixtures of the attack tests. They start the same server process as tests/e2e, so QUIRE_BINARY may be an executable with
address sanitizer."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import patient_httpx  # noqa: E402, F401
from liveness import Liveness  # noqa: E402
from server_fixtures import start_server  # noqa: E402, F401
from server_process import ServerProcess  # noqa: E402


@pytest.fixture(scope="session")
def target():
    """One server for all attacks that it must survive. It must stop in time afterwards, too."""
    process = ServerProcess("--scheduling-policy", "priority")
    yield process
    assert process.process.poll() is None, "the server died:\n" + "".join(process.log)
    process.stop()
    assert process.process.returncode == 0, "".join(process.log)


@pytest.fixture
def liveness():
    """liveness(server): a context in which /health has to respond on each HTTP thread."""
    return Liveness
