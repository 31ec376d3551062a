"""A sandbox for one program at a time, so that each program gets what the one before has left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")

from ahvn_tools.code_mode import MontySandbox  # as above
from tests.code_mode.attacks.canaries import Canaries, Host
from tests.execution.conftest import nothing_is_left
from tests.execution.entry_points import until

__all__ = ["nothing_is_left"]


@pytest.fixture(scope="module")
def sandbox(nothing_is_left: None) -> Iterator[MontySandbox]:
    before = set(psutil.Process().children(recursive=True))
    made = MontySandbox(max_processes=1)
    yield made
    made.close()
    assert until(lambda: set(psutil.Process().children(recursive=True)) <= before)


@pytest.fixture
def host(sandbox: MontySandbox) -> Host:
    return Host(sandbox)


@pytest.fixture
def canaries(tmp_path: Path) -> Iterator[Canaries]:
    with Canaries.set_up(tmp_path) as made:
        yield made
