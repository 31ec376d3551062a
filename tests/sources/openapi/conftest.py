"""The server that the tools of these tests call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sources.openapi.echo_server import EchoServer, running


@pytest.fixture(scope="session")
def _echo_of_session() -> Iterator[EchoServer]:
    with running() as server:
        yield server


@pytest.fixture
def echo(_echo_of_session: EchoServer) -> Iterator[EchoServer]:
    """A server that answers with what it received."""
    yield _echo_of_session
    _echo_of_session.received.clear()
    _echo_of_session.answers.clear()
