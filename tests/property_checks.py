"""Property checks with few examples in the default run and many in the exhaustive one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy

EXAMPLES = pytest.mark.parametrize("max_examples", [20, pytest.param(200, marks=pytest.mark.exhaustive)])


def run_examples(max_examples: int, check: Callable[..., None], *strategies: SearchStrategy[Any]) -> None:
    """Run a check with examples from the strategies, one for each of its parameters."""
    suppressed = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    settings(max_examples=max_examples, deadline=None, suppress_health_check=suppressed)(given(*strategies)(check))()
