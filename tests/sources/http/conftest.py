"""The service of a test, and the check that a file of tests leaves nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ahvn_tools.sources.http import connections
from tests.execution.conftest import nothing_is_left
from tests.sources.http.service import Service, serve

__all__ = ["nothing_is_left"]


@pytest.fixture
def service() -> Iterator[Service]:
    """A service on loopback."""
    with serve() as running:
        yield running


@pytest.fixture(autouse=True)
def short_keepalive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Close unused connections soon, so that no test waits for it."""
    monkeypatch.setattr(connections, "KEEPALIVE_SECONDS", 0.1)
