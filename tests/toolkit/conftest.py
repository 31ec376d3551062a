"""What every file of tests here is checked for: nothing is left running."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

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


@pytest.fixture(scope="module")
def sandbox() -> Iterator[MontySandbox]:
    """A sandbox for the programs of one file."""
    pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")
    from ahvn_tools.code_mode import MontySandbox  # as above

    with MontySandbox(max_processes=8) as made:
        yield made
