"""Tools that return a value, as the tests of this folder call them."""

from __future__ import annotations

from typing import Any

import pytest

from ahvn_tools import ToolSpec
from tests.execution.entry_points import RESULT_ENTRY_POINTS

each_entry_point = pytest.mark.parametrize("entry_point", RESULT_ENTRY_POINTS.values(), ids=RESULT_ENTRY_POINTS)


def returning(value: Any, annotation: Any = Any) -> ToolSpec:
    """Return a tool that returns the value, annotated so."""

    def body() -> Any:
        return value

    body.__annotations__["return"] = annotation
    return ToolSpec.from_function(body)
