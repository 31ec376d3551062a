"""The cost of refusing arguments, compared with accepting good ones of the same size by the same tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from ahvn_tools import ToolSpec
from tests.benchmarks.measure import plain, side_by_side
from tests.benchmarks.rows import Row, at_most

VALUES = 4_900
"""Values in the large arguments: almost as many as are repaired."""

DEPTH = 13
"""Levels of the nested unions."""

MAX_RATIO = 2


class Point(BaseModel):
    """A row whose members may be left out; models send null for them."""

    x: int = 1
    y: int = 2


class Left(BaseModel):
    """One alternative of a recursive union."""

    inner: Left | Right | int


class Right(BaseModel):
    """The other alternative, which matches the same objects."""

    inner: Left | Right | int
    size: int = 0


def refused_numbers() -> Row:
    """A list of numbers in which every item is wrong."""

    def take(it: list[int]) -> int:
        return len(it)

    return _row("numbers", take, [1] * VALUES, ["x"] * VALUES)


def refused_models() -> Row:
    """A list of objects in which every item is wrong."""

    def take(it: list[Point]) -> int:
        return len(it)

    return _row("objects", take, _points({"x": 1, "y": 1}), _points({"x": "a", "y": 1}))


def refused_nulls() -> Row:
    """A list of objects with nulls that are repaired and texts that are not, in every item."""

    def take(it: list[Point | None]) -> int:
        return len(it)

    return _row("objects with nulls", take, _points({"x": 1, "y": 1}), _points({"x": None, "y": "a"}))


def refused_unions() -> Row:
    """A deeply nested value of a recursive union."""

    def take(it: Left | Right | int) -> int:
        return 1

    return _row("a recursive union", take, _nest(1), _nest("a"))


def _points(item: Any) -> list[Any]:
    return [dict(item) for _ in range(VALUES // 3)]


def _nest(leaf: Any) -> Any:
    for _ in range(DEPTH):
        leaf = {"inner": leaf}
    return leaf


def _row(what: str, function: Callable[..., Any], good: Any, bad: Any) -> Row:
    spec = ToolSpec.from_function(function)
    if spec.exec(it=good).is_error or not spec.exec(it=bad).is_error:
        raise AssertionError(what)
    timing = side_by_side(
        plain("spec.exec(it=bad)", spec=spec, bad=bad),
        plain("spec.exec(it=good)", spec=spec, good=good),
        number=3,
        rounds=21,
    )
    return at_most(MAX_RATIO, f"exec that refuses {what}", "exec that accepts as many", timing)
