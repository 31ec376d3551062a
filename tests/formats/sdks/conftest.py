"""Fixtures for the contract classes: one server and one client per class, and the options of its export."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from examples.loopback import Loopback
from tests.sealed import without_keys


@pytest.fixture(scope="class")
def line(request: pytest.FixtureRequest) -> Iterator[tuple[Loopback, Any]]:
    """A server and a connected client of the SDK, independent of the environment."""
    contract = request.cls()
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ.keys() - without_keys(os.environ).keys():
            patch.delenv(name)
        with Loopback() as server, contract.connected(server.url(contract.SERVICE)) as client:
            yield server, client


@pytest.fixture
def server(line: tuple[Loopback, Any]) -> Loopback:
    """A server without earlier requests, whose model makes one call without arguments."""
    server, _ = line
    server.requests.clear()
    server.arguments = [{}]
    server.turns, server.malformed = iter(()), 0
    return server


@pytest.fixture
def client(line: tuple[Loopback, Any]) -> Any:
    """The client of the SDK."""
    return line[1]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    options: list[dict[str, Any]] = getattr(metafunc.cls, "OPTIONS", [])
    if "options" in metafunc.fixturenames:
        metafunc.parametrize("options", options, ids=[", ".join(each) or "plain" for each in options])
