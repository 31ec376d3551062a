"""Limits of generators that run in a worker process."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest

from ahvn_tools import ToolSpec
from tests.execution.entry_points import RESULT_ENTRY_POINTS, EntryPoint, combinations


def endless() -> Iterator[int]:
    yield from itertools.count()


async def aendless() -> AsyncIterator[int]:
    for number in itertools.count():
        yield number


@combinations(body={"sync": endless, "async": aendless}, entry_point=RESULT_ENTRY_POINTS)
@pytest.mark.default_cases(1)
def test_too_many_items_are_an_error(body: object, entry_point: EntryPoint) -> None:
    result = entry_point(ToolSpec.from_function(body, max_items=5, isolation="process"))
    assert result.error.code == "limit_exceeded"
