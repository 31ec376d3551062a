"""The tests that measure event loops and the processor do not measure the garbage collector."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(scope="module", autouse=True)
def fast_garbage_collection(request: pytest.FixtureRequest) -> None:
    """Take what earlier tests have left out of the collector: looking at it would block a loop for a long time."""
    if "hostile" in request.path.name:
        gc.collect()
        gc.freeze()
