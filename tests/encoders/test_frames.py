"""pandas and polars: frames as records, cut and marked when they are large."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from ahvn_tools.encoders.libraries import MAX_CELLS, MAX_ROWS
from tests.encoders.subjects import each_entry_point, returning
from tests.execution.entry_points import EntryPoint

pd = pytest.importorskip("pandas", exc_type=ImportError)
pl = pytest.importorskip("polars", exc_type=ImportError)

each_library = pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])

DAY = dt.datetime(2024, 5, 6, 7, 8)
TABLE = {"name": ["a", None], "size": [1, 2], "price": [1.5, float("nan")], "day": [DAY, None], "raw": [b"\xff", b"b"]}
RECORDS = [
    {"name": "a", "size": 1, "price": 1.5, "day": "2024-05-06T07:08:00",
     "raw": {"mime_type": "application/octet-stream", "data": "/w=="}},
    {"name": None, "size": 2, "price": None, "day": None, "raw": "b"},
]  # fmt: skip


@each_library
@each_entry_point
def test_a_frame_is_a_list_of_records(entry_point: EntryPoint, library: Any) -> None:
    frame = library.DataFrame(TABLE)
    result = entry_point(returning(frame))
    assert (result.value, result.structured_content) == (RECORDS, None)
    assert entry_point(returning({"table": [frame]})).value == {"table": [RECORDS]}
    assert not result.to_mcp().is_error


@each_library
def test_a_frame_fits_an_annotation_by_its_records(library: Any) -> None:
    frame = library.DataFrame({"a": [1, 2]})
    for annotation in (list[dict[str, int]], library.DataFrame):
        assert returning(frame, annotation).call() == [{"a": 1}, {"a": 2}]
    assert returning(frame, list[dict[str, str]]).exec().error.code == "invalid_result"


@each_library
def test_a_frame_of_the_largest_size_is_complete(library: Any) -> None:
    assert returning(library.DataFrame({"a": range(MAX_ROWS)})).call() == [{"a": n} for n in range(MAX_ROWS)]


@each_library
@each_entry_point
def test_a_larger_frame_is_cut_and_says_so(entry_point: EntryPoint, library: Any) -> None:
    result = entry_point(returning(library.DataFrame({"a": range(MAX_ROWS + 1)})))
    assert [record["a"] for record in result.value["records"]] == list(range(MAX_ROWS))
    assert result.value["row_count"] == MAX_ROWS + 1
    assert result.value["note"] == f"Only the first {MAX_ROWS} of {MAX_ROWS + 1} rows are shown."
    assert result.value["note"] in result.text


@each_library
@pytest.mark.parametrize(("columns", "rows"), [(MAX_CELLS // 50, 50), (MAX_CELLS + 1, 1)], ids=["wide", "widest"])
@pytest.mark.default_cases(1)
def test_a_wide_frame_has_fewer_rows(library: Any, columns: int, rows: int) -> None:
    frame = library.DataFrame({f"c{number}": [0] * MAX_ROWS for number in range(columns)})
    assert len(returning(frame).call()["records"]) == rows


@each_library
def test_a_frame_without_rows_or_columns_has_no_records(library: Any) -> None:
    assert returning(library.DataFrame({"a": []})).call() == []
    assert returning(library.DataFrame()).call() == []


def test_an_index_with_a_meaning_is_part_of_the_records() -> None:
    frame = pd.DataFrame({"city": ["x", "y", "x"], "price": [1, 2, 3]})
    assert returning(frame[frame.price > 1]).call() == [
        {"index": 1, "city": "y", "price": 2},
        {"index": 2, "city": "x", "price": 3},
    ]
    assert returning(frame.groupby("city").sum()).call() == [{"city": "x", "price": 4}, {"city": "y", "price": 2}]
    many = frame.groupby(["city", "price"]).size().to_frame("count")
    assert returning(many).call()[0] == {"city": "x", "price": 1, "count": 1}
    assert returning(pd.DataFrame(index=["a", "b"])).call() == [{"index": "a"}, {"index": "b"}]


def test_a_series_is_a_frame_with_one_column() -> None:
    assert returning(pd.Series([1, 2], name="a")).call() == [{"a": 1}, {"a": 2}]
    assert returning(pl.Series("a", [1, 2])).call() == [{"a": 1}, {"a": 2}]


def test_names_that_are_not_unique_are_an_invalid_result() -> None:
    frame = pd.DataFrame([[1, 2]], columns=["a", "a"])
    assert "not unique" in str(returning(frame).exec().exception)


@pytest.mark.parametrize("missing", [None, pd.NA, pd.NaT, float("nan")], ids=repr)
def test_a_missing_value_is_null(missing: Any) -> None:
    assert returning(pd.DataFrame({"a": pd.Series([1, missing], dtype=object)})).call() == [{"a": 1}, {"a": None}]
