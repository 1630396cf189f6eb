"""Fixtures of the tests of models by name."""

import pytest
from hub_place import Workplace
from hub_server import Hub


@pytest.fixture
def hub():
    server = Hub()
    yield server
    server.close()


@pytest.fixture
def place(tmp_path, hub):
    return Workplace(tmp_path, hub)
