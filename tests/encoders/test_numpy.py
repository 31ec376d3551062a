"""numpy: scalars and arrays as Python's own values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest

from ahvn_tools import ToolSpec
from tests.encoders.subjects import each_entry_point, returning
from tests.execution.entry_points import EntryPoint

np = pytest.importorskip("numpy", exc_type=ImportError)


VALUES: dict[str, tuple[Any, Any]] = {
    "int64": (np.int64(5), 5),
    "uint8": (np.uint8(5), 5),
    "float64": (np.float64(1.5), 1.5),
    "float32": (np.float32(1.5), 1.5),
    "longdouble": (np.longdouble(1.5), 1.5),
    "bool": (np.bool_(True), True),
    "str": (np.str_("text"), "text"),
    "datetime": (np.datetime64("2024-05-06T07:08:09.123456789"), "2024-05-06T07:08:09.123456"),
    "timedelta": (np.timedelta64(90, "s"), "PT1M30S"),
    "no time": (np.datetime64("NaT"), None),
    "array": (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    "array without dimensions": (np.array(5), 5),
    "array of texts": (np.array(["a", "b"]), ["a", "b"]),
    "array of times": (np.array(["2024-05-06"], dtype="datetime64[ns]"), ["2024-05-06T00:00:00"]),
    "array of objects": (np.array([{"a": np.int64(1)}, None], dtype=object), [{"a": 1}, None]),
    "inside": ({"a": [np.int64(1), np.array([1.5])], np.int64(2): "b"}, {"a": [1, [1.5]], "2": "b"}),
}


@pytest.mark.parametrize(("returned", "value"), VALUES.values(), ids=VALUES)
@each_entry_point
def test_a_value_of_numpy_is_a_value_of_python(entry_point: EntryPoint, returned: Any, value: Any) -> None:
    result = entry_point(returning(returned))
    assert (result.value, result.is_error) == (value, False)
    assert not result.to_mcp().is_error


@pytest.mark.parametrize(
    ("annotation", "returned", "value"),
    [
        (int, np.int64(5), 5),
        (float, np.float32(1.5), 1.5),
        (bool, np.bool_(True), True),
        (list[int], np.array([1, 2]), [1, 2]),
        (list[list[float]], np.eye(2), [[1.0, 0.0], [0.0, 1.0]]),
        (dict[str, float], {"a": np.float32(0.5)}, {"a": 0.5}),
        (dt.date | None, np.datetime64("NaT"), None),
        (np.ndarray, np.array([1]), [1]),
    ],
    ids=str,
)
@each_entry_point
def test_it_fits_an_annotation_by_its_value(
    entry_point: EntryPoint, annotation: Any, returned: Any, value: Any
) -> None:
    assert entry_point(returning(returned, annotation)).value == value


@pytest.mark.parametrize("returned", [np.float32("nan"), np.array([1.0, float("inf")])], ids=["NaN", "Infinity"])
def test_nan_is_an_invalid_result(returned: Any) -> None:
    assert returning(returned).exec().error.code == "invalid_result"


def test_it_does_not_fit_another_annotation() -> None:
    assert returning(np.float32(1.5), int).exec().error.code == "invalid_result"
    assert returning(np.array(["a"]), list[int]).exec().error.code == "invalid_result"


def test_the_items_of_a_stream_are_encoded() -> None:
    def body() -> Iterator[int]:
        yield from np.array([1, 2])

    assert [result.value for result in ToolSpec.from_function(body).stream()] == [1, 2, [1, 2]]
