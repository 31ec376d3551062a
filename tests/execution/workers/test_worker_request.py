"""What a request to another process shows of the values in it."""

from __future__ import annotations

import pytest

from ahvn_tools.context import ToolContext
from ahvn_tools.execution.plan import ItemLimits
from ahvn_tools.execution.workers.worker_request import ContextSnapshot, ProcessEnvironment, WorkerRequest


def test_the_repr_of_a_request_shows_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "t0ps3cret")
    request = WorkerRequest(
        body=print,
        positional=["t0ps3cret"],
        named={"token": "t0ps3cret"},
        is_async=False,
        limits=ItemLimits(tool="print", max_items=None, max_bytes=None),
        has_reader=False,
    )
    snapshot = ContextSnapshot.capture(ToolContext(), {"token": "t0ps3cret"}, has_reader=False)
    shown = f"{request} {snapshot} {ProcessEnvironment.capture()}"
    assert "t0ps3cret" not in shown
    assert "max_processes" in shown
