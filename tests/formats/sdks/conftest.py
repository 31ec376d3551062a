"""What a contract's class stands on: one server and one client for its tests, and the options of its export."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from examples.loopback import Loopback
from tests.sealed import without_keys


@pytest.fixture(scope="class")
def line(request: pytest.FixtureRequest) -> Iterator[tuple[Loopback, Any]]:
    """Give a server, and a client of the SDK that is connected to it, whatever the environment says."""
    contract = request.cls()
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ.keys() - without_keys(os.environ).keys():
            patch.delenv(name)
        with Loopback() as server, contract.connected(server.url(contract.SERVICE)) as client:
            yield server, client


@pytest.fixture
def server(line: tuple[Loopback, Any]) -> Loopback:
    """Give a server that knows of no requests, and whose model makes one call without arguments."""
    server, _ = line
    server.requests.clear()
    server.arguments = [{}]
    return server


@pytest.fixture
def client(line: tuple[Loopback, Any]) -> Any:
    """Give the client of the SDK."""
    return line[1]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    options: list[dict[str, Any]] = getattr(metafunc.cls, "OPTIONS", [])
    if "options" in metafunc.fixturenames:
        metafunc.parametrize("options", options, ids=[", ".join(each) or "plain" for each in options])
