"""What every file of tests here is checked for: nothing is left running."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.execution import background_loop
from ahvn_tools.execution.deadline import Deadline
from ahvn_tools.execution.runner import capture_outcome
from ahvn_tools.execution.workers import worker_process
from tests.execution.conftest import nothing_is_left

if TYPE_CHECKING:
    from ahvn_tools.code_mode import MontySandbox

__all__ = ["nothing_is_left"]


@pytest.fixture(scope="module", autouse=True)
def idle_workers_end(nothing_is_left: None) -> Iterator[None]:
    """End the worker processes that wait for calls, before the check looks at open files."""
    yield
    worker_process.process_pool.end_idle()


@pytest.fixture(autouse=True)
def servers_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Remove the MCP servers of all toolkits when a test ends."""
    used: list[Any] = []
    imports_of = Toolkit._mcp_imports

    def remember(kit: Toolkit, action: str | None = None) -> Any:
        used.append(imports_of(kit, action))
        return used[-1]

    monkeypatch.setattr(Toolkit, "_mcp_imports", remember)
    yield
    for imports in used:
        background_loop.run(capture_outcome, imports.remove, None).get()


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> list[Deadline]:
    """Return the clocks of the calls that are made from now on."""
    made: list[Deadline] = []
    start = Deadline.__init__

    def remember(self: Deadline, seconds: float) -> None:
        made.append(self)
        start(self, seconds)

    monkeypatch.setattr(Deadline, "__init__", remember)
    return made


@pytest.fixture(scope="module")
def sandbox() -> Iterator[MontySandbox]:
    """A sandbox for the programs of one file."""
    pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")
    from ahvn_tools.code_mode import MontySandbox  # as above

    with MontySandbox(max_processes=8) as made:
        yield made
