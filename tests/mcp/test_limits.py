"""How much is too much."""

from __future__ import annotations

import pytest

from ahvn_tools.mcp import limits
from ahvn_tools.mcp.limits import Flood


def test_a_flood_is_what_comes_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(limits.time, "monotonic", lambda: now[0])
    flood = Flood(2)
    assert [flood.told() for _ in range(2)] == [None, None]
    assert flood.told() == "the server sent more than 2 notifications within 10 s"
    now[0] = limits.WINDOW + 1
    assert flood.told() is None
