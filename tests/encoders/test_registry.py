"""Encoders of the host: which values they are used for, and what they may return."""

from __future__ import annotations

import codecs
import decimal
import io
import pathlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from fastmcp.utilities.types import Image
from pydantic import BaseModel, ConfigDict

from ahvn_tools import ToolSpec, register_encoder
from ahvn_tools.encoders import registry
from ahvn_tools.errors import DefinitionError
from tests.encoders.subjects import each_entry_point, returning
from tests.execution.entry_points import EntryPoint


@pytest.fixture(autouse=True)
def _encoders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})


class Money:
    def __init__(self, cents: int) -> None:
        self.cents = cents


class Tip(Money):
    """A subclass."""


class Holder(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    money: Money


@pytest.mark.parametrize(
    ("returned", "value"),
    [
        (Money(5), 5),
        (Tip(5), 5),
        ([Money(5), {"a": (Money(6),)}], [5, {"a": [6]}]),
        ({"a": Money(5)}, {"a": 5}),
        (Holder(money=Money(5)), {"money": 5}),
    ],
    ids=["value", "subclass", "list", "dict", "model"],
)
@each_entry_point
def test_an_encoder_is_used_at_any_depth(entry_point: EntryPoint, returned: Any, value: Any) -> None:
    register_encoder(Money, lambda money: money.cents)
    assert entry_point(returning(returned)).value == value


def test_an_encoder_may_return_values_that_have_encoders() -> None:
    register_encoder(Money, lambda money: {"amount": decimal.Decimal(money.cents), "parts": [Tip(1)]})
    register_encoder(Tip, lambda tip: tip.cents)
    assert returning(Money(5)).call() == {"amount": "5", "parts": [1]}


def test_an_encoder_replaces_what_pydantic_would_do() -> None:
    @dataclass
    class Point:
        x: int

    register_encoder(decimal.Decimal, float)
    register_encoder(Point, lambda point: f"({point.x})")
    assert returning([decimal.Decimal("1.5"), {"a": Point(1)}, {Point}]).exec().is_error
    assert returning([decimal.Decimal("1.5"), {"a": Point(1)}]).call() == [1.5, {"a": "(1)"}]


def test_a_second_encoder_of_a_type_replaces_the_first() -> None:
    register_encoder(Money, lambda money: money.cents)
    register_encoder(Money, lambda money: f"{money.cents} ct")
    assert returning(Money(5)).call() == "5 ct"


@pytest.mark.parametrize("returned", [Money(5), ["text", Money(5)]], ids=["alone", "in a list"])
def test_an_encoder_may_return_content(returned: Any) -> None:
    register_encoder(Money, lambda _: Image(data=b"png", format="png"))
    assert [block.type for block in returning(returned).exec().content][-1] == "image"


def test_content_inside_of_other_data_is_an_invalid_result() -> None:
    register_encoder(Money, lambda _: Image(data=b"png", format="png"))
    assert "as an item of a list" in str(returning({"a": Money(5)}).exec().exception)


def test_a_type_with_an_encoder_may_be_an_annotation() -> None:
    def body() -> Money:
        return Money(5)

    def items() -> Iterator[Money]:
        yield Money(6)

    register_encoder(Money, lambda money: money.cents)
    assert ToolSpec.from_function(body).call() == 5
    assert [result.value for result in ToolSpec.from_function(items).stream()] == [6, [6]]


def test_what_an_encoder_returns_must_fit_the_annotation() -> None:
    def body() -> Holder:
        return Holder(money=Money(5))

    register_encoder(Holder, lambda _: "text")
    spec = ToolSpec.from_function(body, output_schema={"type": "object", "properties": {"money": {"type": "integer"}}})
    assert "does not fit its output schema" in str(spec.exec().exception)


@pytest.mark.parametrize("error", [ValueError("hunter2"), RecursionError()], ids=repr)
@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: {"a": value}], ids=["alone", "inside"])
@each_entry_point
def test_an_encoder_that_raises_is_an_invalid_result(entry_point: EntryPoint, wrap: Any, error: BaseException) -> None:
    def fail(_: Any) -> Any:
        raise error

    register_encoder(Money, fail)
    result = entry_point(returning(wrap(Money(5))))
    assert (result.error.code, "hunter2" in str(result.exception)) == ("invalid_result", False)
    assert result.exception.__cause__ is error


@pytest.mark.parametrize("encoded", [Money(5), object(), float("nan")], ids=["itself", "object", "NaN"])
def test_an_encoder_that_returns_no_json_is_an_invalid_result(encoded: Any) -> None:
    register_encoder(Money, lambda _: encoded)
    assert returning(Money(5)).exec().error.code == "invalid_result"


@pytest.mark.parametrize("kind", [str, dict, type(None), object, "Money", list[int]], ids=str)
def test_a_type_that_cannot_have_an_encoder_is_refused(kind: Any) -> None:
    with pytest.raises(DefinitionError, match="class"):
        register_encoder(kind, str)


async def _encode_later(money: Money) -> int:
    return money.cents


@pytest.mark.parametrize("function", [_encode_later, None, 5], ids=["async", "None", "number"])
def test_a_function_that_cannot_encode_is_refused(function: Any) -> None:
    with pytest.raises(DefinitionError, match="must be a function that is not async"):
        register_encoder(Money, function)


class DataError(ValueError):
    x: int = 1


@pytest.mark.parametrize(
    "returned",
    [ValueError("hunter2"), DataError("hunter2"), ["text", KeyError("hunter2")], {"a": OSError("hunter2")}],
    ids=repr,
)
@each_entry_point
def test_an_exception_is_no_result(entry_point: EntryPoint, returned: Any) -> None:
    result = entry_point(returning(returned))
    assert (result.error.code, result.text) == ("invalid_result", "The tool returned an invalid result.")
    assert "raise it, or return a text" in str(result.exception)


@pytest.mark.parametrize(
    ("returned", "value"),
    [(pathlib.Path("a/b"), "a/b"), (decimal.Decimal("1.50"), "1.50"), ([pathlib.PurePosixPath("/a")], ["/a"])],
    ids=str,
)
@each_entry_point
def test_paths_and_decimals_are_texts(entry_point: EntryPoint, returned: Any, value: Any) -> None:
    assert entry_point(returning(returned)).value == value


FILES = {
    "text": lambda path: path.open(),
    "bytes": lambda path: path.open("rb"),
    "in memory": lambda _: io.StringIO("a"),
    "spooled": lambda _: tempfile.SpooledTemporaryFile(),  # noqa: SIM115  # the test closes it
    "codec": lambda path: codecs.open(str(path), encoding="utf-8"),  # noqa: SIM115  # as above
    "in a list": lambda path: [path.open()],
    "in a dict": lambda path: {"file": path.open()},
}


@pytest.mark.parametrize("annotation", [Any, list, list[str], Iterator[str]])
@pytest.mark.parametrize("open_file", FILES.values(), ids=FILES)
def test_an_open_file_is_an_invalid_result_and_stays_unread(tmp_path: pathlib.Path, open_file, annotation) -> None:
    (tmp_path / "empty.txt").write_text("")
    value = open_file(tmp_path / "empty.txt")
    (file,) = value if isinstance(value, list) else value.values() if isinstance(value, dict) else (value,)
    with file:
        result = returning(value, annotation).exec()
        assert result.error.code == "invalid_result"
        assert f"an open file, of type {type(file).__name__!r}" in str(result.exception)
        assert file.tell() == 0


def test_a_file_may_have_an_encoder() -> None:
    register_encoder(io.StringIO, lambda file: file.getvalue())
    assert returning([io.StringIO("a")])() == ["a"]


def test_another_iterator_is_a_list() -> None:
    assert returning(map(str, [1, 2]))() == ["1", "2"]
