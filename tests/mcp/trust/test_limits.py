"""How much is too much."""

from __future__ import annotations

import pytest

from ahvn_tools.mcp.trust import limits
from ahvn_tools.mcp.trust.limits import RateGuard


def test_a_flood_is_what_comes_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(limits.time, "monotonic", lambda: now[0])
    flood = RateGuard(2)
    assert [flood.count_message() for _ in range(2)] == [None, None]
    assert flood.count_message() == "the server sent more than 2 notifications within 10 s"
    now[0] = limits.RATE_WINDOW_SECONDS + 1
    assert flood.count_message() is None
