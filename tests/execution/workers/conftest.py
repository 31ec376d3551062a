"""A check of each test file in this folder: it leaves no worker process."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest

from ahvn_tools.execution.workers import worker_process
from tests.execution.entry_points import until


@pytest.fixture(scope="module", autouse=True)
def no_worker_is_left() -> Iterator[None]:
    yield
    for pool in worker_process.all_pools():
        assert until(lambda pool=pool: pool.count()[0] == pool.count()[1])  # type: ignore[misc]  # a default's type
        pool.end_idle()
        assert pool.count() == (0, 0)
    children = psutil.Process().children(recursive=True)
    assert [child.as_dict(["pid", "status", "cmdline"]) for child in children] == []
