"""What every file of tests here is checked for: nothing is left running."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ahvn_tools.execution.isolation import pool
from tests.execution.conftest import nothing_is_left

__all__ = ["nothing_is_left"]


@pytest.fixture(scope="module", autouse=True)
def idle_workers_end(nothing_is_left: None) -> Iterator[None]:
    """End the worker processes that wait for calls, before the check looks at open files."""
    yield
    pool.process_pool.end_idle()
