"""Results: the value, the structured content and the blocks, for every kind of return annotation."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import json
import pathlib
import sys
import traceback
import typing
import uuid
from collections.abc import AsyncIterator, Awaitable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple, Optional, Union

import pytest
import typing_extensions
from fastmcp.tools import FunctionTool
from fastmcp.utilities.types import Image
from pydantic import BaseModel, ConfigDict, Field, computed_field, model_serializer
from typing_extensions import TypeAliasType

from ahvn_tools import ToolResult, ToolSpec
from ahvn_tools.errors import DefinitionError, InvalidResultError
from tests.execution.entry_points import (
    ENTRY_POINTS,
    RESULT_ENTRY_POINTS,
    STREAM_ENTRY_POINTS,
    VALUE_ENTRY_POINTS,
    EntryPoint,
    run,
)

each_entry_point = pytest.mark.parametrize("entry_point", RESULT_ENTRY_POINTS.values(), ids=RESULT_ENTRY_POINTS)


class Colour(enum.Enum):
    RED = "red"


class Point(BaseModel):
    x: int
    y: int = 0


class One(BaseModel):
    only: int


class Aliased(BaseModel):
    model_config = ConfigDict(serialize_by_alias=True)
    inner: int = Field(alias="outerName")
    other: int = 0


class ReadByAlias(BaseModel):
    inner: int = Field(alias="outerName")
    other: int = 0


class Square(BaseModel):
    side: int

    @computed_field
    @property
    def area(self) -> int:
        return self.side**2


class Node(BaseModel):
    name: str
    children: list[Node] = []


class Breaks(BaseModel):
    x: int = 1

    @model_serializer
    def broken(self) -> dict[str, Any]:
        raise RuntimeError("cannot be shown")


@dataclass
class Pair:
    a: int
    b: str


class Typed(typing_extensions.TypedDict):
    a: int
    b: str


class ModernTyped(typing_extensions.TypedDict):
    a: int
    b: str


class Named(NamedTuple):
    a: int
    b: str


Alias = TypeAliasType("Alias", list[int])


def returning(annotation: Any, value: Any, **options: Any) -> ToolSpec:
    def body():
        return value

    if annotation is not ...:
        body.__annotations__["return"] = annotation
    return ToolSpec.from_function(body, **options)


OBJECTS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "dict": (dict[str, int], {"a": 1, "b": 2}, {"a": 1, "b": 2}),
    "bare dict": (dict, {"a": 1, "b": 2}, {"a": 1, "b": 2}),
    "model": (Point, Point(x=1), {"x": 1, "y": 0}),
    "aliases written": (Aliased, Aliased(outerName=1), {"outerName": 1, "other": 0}),
    "aliases read": (ReadByAlias, ReadByAlias(outerName=1), {"inner": 1, "other": 0}),
    "computed field": (Square, Square(side=3), {"side": 3, "area": 9}),
    "recursive": (Node, Node(name="a", children=[Node(name="b")]),
                  {"name": "a", "children": [{"name": "b", "children": []}]}),
    "dataclass": (Pair, Pair(1, "b"), {"a": 1, "b": "b"}),
    "TypedDict": (Typed, {"a": 1, "b": "b"}, {"a": 1, "b": "b"}),
    "annotated model": (Annotated[Point, "where"], Point(x=1), {"x": 1, "y": 0}),
}  # fmt: skip

WRAPPED: dict[str, tuple[Any, Any, Any]] = {
    "str": (str, "text", "text"),
    "int": (int, 5, 5),
    "float": (float, 1.5, 1.5),
    "bool": (bool, False, False),
    "list": (list[int], [1, 2], [1, 2]),
    "list of models": (list[Point], [Point(x=1)], [{"x": 1, "y": 0}]),
    "tuple": (tuple[int, str], (1, "a"), [1, "a"]),
    "NamedTuple": (Named, Named(1, "b"), [1, "b"]),
    "set": (set[int], {1}, [1]),
    "optional": (Optional[int], None, None),
    "optional value": (int | None, 5, 5),
    "union": (Union[int, str], "a", "a"),
    "union with a model": (Point | str, Point(x=1), {"x": 1, "y": 0}),
    "literal": (Literal["a", "b"], "a", "a"),
    "enum": (Colour, Colour.RED, "red"),
    "datetime": (dt.datetime, dt.datetime(2024, 5, 6, 7, 8), "2024-05-06T07:08:00"),
    "date": (dt.date, dt.date(2024, 5, 6), "2024-05-06"),
    "timedelta": (dt.timedelta, dt.timedelta(seconds=90), "PT1M30S"),
    "UUID": (uuid.UUID, uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    "Decimal": (decimal.Decimal, decimal.Decimal("1.50"), "1.50"),
    "Path": (pathlib.PurePosixPath, pathlib.PurePosixPath("/a"), "/a"),
    "alias": (Alias, [1], [1]),
    "annotated": (Annotated[int, Field(ge=0)], 5, 5),
}

UNPROMISED: dict[str, tuple[Any, Any, Any, Any]] = {
    "no annotation, text": (..., "text", "text", None),
    "no annotation, object": (..., {"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 1, "b": 2}),
    "no annotation, one property": (..., {"a": 1}, {"a": 1}, {"a": 1}),
    "no annotation, list": (..., [1], [1], None),
    "no annotation, None": (..., None, None, None),
    "no annotation, model": (..., Point(x=1), {"x": 1, "y": 0}, {"x": 1, "y": 0}),
    "no annotation, number as key": (..., {1: "a"}, {"1": "a"}, {"1": "a"}),
    "None": (None, None, None, None),
    "None that is none": (None, 5, 5, None),
    "Any": (Any, {"a": 1}, {"a": 1}, {"a": 1}),
    "bytes": (bytes, b"text", "text", None),
    "bare list": (list, [1, "a"], [1, "a"], None),
}


@pytest.mark.parametrize(("annotation", "returned", "shown"), OBJECTS.values(), ids=OBJECTS)
@each_entry_point
def test_an_object_is_its_own_structured_content(
    entry_point: EntryPoint, annotation: Any, returned: Any, shown: Any
) -> None:
    result = entry_point(returning(annotation, returned))
    assert (result.value, result.structured_content, len(result.content)) == (shown, shown, 1)


@pytest.mark.parametrize(("annotation", "returned", "shown"), WRAPPED.values(), ids=WRAPPED)
@each_entry_point
def test_a_value_other_than_an_object_is_wrapped_for_mcp(
    entry_point: EntryPoint, annotation: Any, returned: Any, shown: Any
) -> None:
    spec = returning(annotation, returned)
    result = entry_point(spec)
    assert (result.value, result.structured_content) == (shown, {"result": shown})
    assert list(spec.output_schema["properties"]) == ["result"]
    assert spec.output_schema["x-fastmcp-wrap-result"] is True


@pytest.mark.parametrize(("annotation", "returned", "shown", "structured"), UNPROMISED.values(), ids=UNPROMISED)
@each_entry_point
def test_without_a_schema_only_an_object_is_structured(
    entry_point: EntryPoint, annotation: Any, returned: Any, shown: Any, structured: Any
) -> None:
    spec = returning(annotation, returned)
    result = entry_point(spec)
    assert spec.output_schema is None
    assert (result.value, result.structured_content) == (shown, structured)
    assert len(result.content) == (0 if shown is None else 1)


@pytest.mark.parametrize("entry_point", ENTRY_POINTS.values(), ids=ENTRY_POINTS)
def test_the_one_property_of_an_object_is_the_value(entry_point: EntryPoint) -> None:
    for spec in (returning(One, One(only=5)), returning(..., {"only": 5}, output_schema=_ONE)):
        made = entry_point(spec)
        assert getattr(made, "value", made) == 5
        assert getattr(made, "structured_content", {"only": 5}) == {"only": 5}


_ONE = {"type": "object", "properties": {"only": {"type": "integer"}}}


def test_an_explicit_schema_with_the_wrap_mark_wraps_the_value() -> None:
    schema = {"type": "object", "properties": {"result": {"type": "integer"}}, "x-fastmcp-wrap-result": True}
    result = returning(..., 5, output_schema=schema).exec()
    assert (result.value, result.structured_content) == (5, {"result": 5})


def test_an_output_schema_describes_an_object() -> None:
    with pytest.raises(DefinitionError, match="object"):
        returning(int, 5, output_schema={"type": "integer"})


def test_an_output_schema_says_that_it_describes_an_object() -> None:
    schema = {"properties": {"only": {"type": "integer"}}}
    assert returning(..., {"only": 5}, output_schema=schema).output_schema == {**schema, "type": "object"}
    assert "type" not in schema


def test_an_output_schema_is_a_fresh_copy() -> None:
    spec = returning(int, 5)
    spec.output_schema["properties"].clear()
    assert spec.output_schema["properties"]
    assert returning(..., 5).output_schema is None


LOOP: list[Any] = []
LOOP.append(LOOP)
DEEP: Any = []
for _ in range(100_000):
    DEEP = [DEEP]

INVALID: dict[str, Any] = {
    "object": object(),
    "object inside": {"a": [object()]},
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "NaN inside": {"a": [float("nan")]},
    "cycle": LOOP,
    "too deep": DEEP,
    "exception": ValueError("hunter2"),
    "function": len,
    "class": int,
    "model that cannot be shown": Breaks(),
    "module": pathlib,
}


def invalid_result_of(entry_point: EntryPoint, spec: ToolSpec) -> InvalidResultError:
    """Return the error of a call; a model reads nothing that concerns the developer."""
    try:
        error = entry_point(spec).exception
    except InvalidResultError as raised:
        error = raised
    assert (type(error), error.message) == (InvalidResultError, "The tool returned an invalid result.")
    return error


@pytest.mark.parametrize("returned", INVALID.values(), ids=INVALID)
@pytest.mark.parametrize(
    "annotation", [..., *(pytest.param(kind, marks=pytest.mark.exhaustive) for kind in (Any, dict[str, Any], float))]
)
@pytest.mark.parametrize("entry_point", ENTRY_POINTS.values(), ids=ENTRY_POINTS)
def test_a_value_without_json_form_is_an_invalid_result(
    entry_point: EntryPoint, annotation: Any, returned: Any
) -> None:
    error = invalid_result_of(entry_point, returning(annotation, returned))
    assert f"'{type(returned).__name__}'" in str(error) or "'object'" in str(error)
    assert "0x" not in str(error)


MISTYPED = Point.model_construct(x="Zq7canary")


@pytest.mark.parametrize(
    ("annotation", "returned"),
    [
        (Point, MISTYPED),
        (..., MISTYPED),
        (Any, MISTYPED),
        (int, MISTYPED),
        (Point | None, MISTYPED),
        (list[Point], [MISTYPED]),
        (dict[str, Any], {"a": MISTYPED}),
    ],
    ids=str,
)
@pytest.mark.parametrize("entry_point", ENTRY_POINTS.values(), ids=ENTRY_POINTS)
def test_a_model_with_a_mistyped_field_is_an_invalid_result_and_warns_of_nothing(
    entry_point: EntryPoint, annotation: Any, returned: Any, recwarn: pytest.WarningsRecorder
) -> None:
    """Pydantic's warning would show the field's value, which may be a bound one."""
    error = invalid_result_of(entry_point, returning(annotation, returned))
    shown = "".join(traceback.format_exception(error))
    assert ("Zq7canary" in shown, recwarn.list) == (False, [])


def test_a_mistyped_model_in_a_stream_is_an_invalid_result(recwarn: pytest.WarningsRecorder) -> None:
    def f() -> Iterator[Point]:
        yield MISTYPED

    chunk, *_ = ToolSpec.from_function(f).stream()
    assert (chunk.error.code, recwarn.list) == ("invalid_result", [])


MISFITS: dict[str, tuple[Any, Any]] = {
    "text for int": (int, "text"),
    "bool for int": (int, True),
    "number for text": (str, 5),
    "None for text": (str, None),
    "text for bool": (bool, "yes"),
    "text for float": (float, "1.5"),
    "bool for float": (float, True),
    "text in a list of int": (list[int], [1, "two"]),
    "dict for a list": (list[int], {"a": 1}),
    "dict for a bare list": (list, {"a": 1}),
    "list for a dict": (dict[str, int], [1]),
    "list for a bare dict": (dict, [1]),
    "value of a dict": (dict[str, int], {"a": "b"}),
    "missing field": (Point, {"y": 1}),
    "mistyped field": (Point, {"x": "one"}),
    "other model": (Point, Square(side=2)),
    "None for a model": (Point, None),
    "key of a TypedDict": (ModernTyped, {"a": 1}),
    "length of a tuple": (tuple[int, str], (1,)),
    "literal": (Literal["a", "b"], "c"),
    "enum": (Colour, "blue"),
    "optional": (int | None, "text"),
    "union": (int | Point, "text"),
    "bound": (Annotated[int, Field(ge=0)], -1),
    "content for an object": (dict[str, int], Image(data=b"png", format="png")),
    "items of an iterator": (Iterator[int], [1, "two"]),
}


@pytest.mark.parametrize(("annotation", "returned"), MISFITS.values(), ids=MISFITS)
@pytest.mark.parametrize("entry_point", ["call", "exec"])
def test_a_value_that_does_not_fit_its_annotation_is_an_invalid_result(
    entry_point: str, annotation: Any, returned: Any
) -> None:
    spec = returning(annotation, returned)
    error = invalid_result_of(ENTRY_POINTS[entry_point], spec)
    assert "does not fit its return annotation" in str(error)


@pytest.mark.parametrize("entry_point", ENTRY_POINTS.values(), ids=ENTRY_POINTS)
def test_all_ways_to_call_refuse_a_value_that_does_not_fit(entry_point: EntryPoint) -> None:
    assert "'properties/result/type'" in str(invalid_result_of(entry_point, returning(int, "text")))
    assert "its output schema" in str(invalid_result_of(entry_point, returning(..., {"only": "x"}, output_schema=_ONE)))


@pytest.mark.parametrize(("annotation", "returned"), MISFITS.values(), ids=MISFITS)
@pytest.mark.exhaustive
def test_a_served_tool_refuses_the_same_values(annotation: Any, returned: Any) -> None:
    result = run(returning(annotation, returned).to_fastmcp().run, {})
    assert (result.is_error, result.content[0].text) == (True, "The tool returned an invalid result.")


@pytest.mark.parametrize(
    ("annotation", "returned", "value"),
    [
        (Point, {"x": 1, "y": 2}, {"x": 1, "y": 2}),
        (list[int], (1, 2), [1, 2]),
        (list[int], {1}, [1]),
        (float, 5, 5),
        (dt.date, "2024-05-06", "2024-05-06"),
        (Colour, "red", "red"),
        (Pair, {"a": 1, "b": "b"}, {"a": 1, "b": "b"}),
        (None, 5, 5),
    ],
    ids=str,
)
@each_entry_point
def test_a_value_of_another_type_with_the_promised_json_form_fits(
    entry_point: EntryPoint, annotation: Any, returned: Any, value: Any
) -> None:
    assert entry_point(returning(annotation, returned)).value == value


@pytest.mark.parametrize("entry_point", STREAM_ENTRY_POINTS.values(), ids=STREAM_ENTRY_POINTS)
def test_an_item_that_does_not_fit_is_an_invalid_chunk_and_an_invalid_result(entry_point: EntryPoint) -> None:
    def f() -> Iterator[int]:
        yield 1
        yield "two"

    results = entry_point(ToolSpec.from_function(f))
    assert [result.error and result.error.code for result in results] == [None, "invalid_result", "invalid_result"]


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (ToolResult(5), None),
        (ToolResult("five"), "invalid_result"),
        (ToolResult(5, {"result": 5}), None),
        (ToolResult(5, {"other": 5}), "invalid_result"),
        (ToolResult(5, blocks=()), "invalid_result"),
    ],
    ids=repr,
)
@each_entry_point
def test_a_result_of_the_tools_own_must_fit_too(entry_point: EntryPoint, made: ToolResult, code: str | None) -> None:
    result = entry_point(returning(int, made))
    assert (result.error and result.error.code) == code
    assert code or result.structured_content == {"result": 5}


@each_entry_point
def test_an_annotation_that_pydantic_refuses_promises_nothing(entry_point: EntryPoint) -> None:
    spec = returning(Annotated[str, Field(pattern="(")], "text")
    assert (spec.output_schema, entry_point(spec).value) == (None, "text")


class Conditional(BaseModel):
    model_config = ConfigDict(regex_engine="python-re")
    text: Annotated[str, Field(pattern=r"^(?P<a>x)(?(a)y|z)\Z")]


@each_entry_point
def test_a_schema_that_cannot_be_compiled_checks_nothing(entry_point: EntryPoint) -> None:
    assert entry_point(returning(Conditional, {"text": "q"})).value == "q"


class Wrapped(BaseModel):
    result: int


@pytest.mark.parametrize(
    ("annotation", "returned", "text"),
    [
        (One, One(only=5), '{"only": 5}'),
        (Wrapped, Wrapped(result=5), '{"result": 5}'),
        (int, 5, "5"),
        (list[int], [5], "[5]"),
        (str, "five", "five"),
        (Point, Point(x=5), '{"x": 5, "y": 0}'),
        (..., {"only": 5}, '{"only": 5}'),
    ],
    ids=str,
)
@each_entry_point
def test_models_read_the_whole_object(entry_point: EntryPoint, annotation: Any, returned: Any, text: str) -> None:
    result = entry_point(returning(annotation, returned))
    assert (result.text, [block.text for block in result.content]) == (text, [text])


def test_the_value_that_a_middleware_has_replaced_is_what_models_read() -> None:
    result = returning(One, One(only=5)).exec()
    assert replace(result, value="hidden").text == "hidden"


@each_entry_point
def test_a_union_is_serialized_by_the_matching_member(entry_point: EntryPoint) -> None:
    assert entry_point(returning(Union[Aliased, Square], Square(side=2))).value == {"side": 2, "area": 4}
    assert entry_point(returning(Union[Aliased, Square], Aliased(outerName=1))).value == {"outerName": 1, "other": 0}


@pytest.mark.parametrize(
    "annotation",
    [
        Iterator[int],
        Iterable[int],
        Generator[int, None, None],
        AsyncIterator[int],
        Awaitable[Iterator[int]],
        Annotated[Iterator[int], "numbers"],
    ],
)
def test_the_schema_of_a_stream_is_the_wrapped_list_of_its_items(annotation: Any) -> None:
    spec = returning(annotation, iter([1, 2]))
    assert spec.output_schema["properties"]["result"] == {"type": "array", "items": {"type": "integer"}}
    assert spec.exec().structured_content == {"result": [1, 2]}


def test_a_stream_of_any_items_has_a_schema_only_for_a_generator_body() -> None:
    assert returning(Iterator[Any], iter([1])).output_schema is None
    assert returning(Iterator, iter([1])).exec().value == [1]


@each_entry_point
def test_an_undefined_annotation_has_no_schema(entry_point: EntryPoint) -> None:
    spec = returning("NoSuchName", 5)
    assert (spec.output_schema, entry_point(spec).value) == (None, 5)


@each_entry_point
def test_a_type_without_json_schema_has_no_output_schema(entry_point: EntryPoint) -> None:
    class Plain:
        """No JSON form."""

    spec = returning(Plain, 5)
    assert (spec.output_schema, entry_point(spec).value) == (None, 5)


def great() -> int:
    return 10**5000


def great_below_zero() -> int:
    return -(10**5000)


def great_unannotated():
    return 10**5000


def great_within() -> list[int]:
    return [10**5000]


def great_optional() -> int | None:
    return 10**5000


def great_items() -> Iterator[int]:
    yield 10**5000


async def great_later() -> int:
    return 10**5000


@pytest.mark.parametrize(
    "body",
    [great, great_below_zero, great_unannotated, great_within, great_optional, great_items, great_later],
    ids=lambda body: body.__name__,
)
@each_entry_point
def test_a_number_with_more_digits_than_python_prints_is_an_invalid_result(entry_point: EntryPoint, body: Any) -> None:
    assert "no JSON form" in str(invalid_result_of(entry_point, ToolSpec.from_function(body)))


@pytest.mark.parametrize("entry_point", STREAM_ENTRY_POINTS.values(), ids=STREAM_ENTRY_POINTS)
def test_such_a_number_in_a_stream_is_an_invalid_result(entry_point: EntryPoint) -> None:
    assert [result.error.code for result in entry_point(ToolSpec.from_function(great_items))] == ["invalid_result"] * 2


@each_entry_point
def test_a_number_of_four_thousand_digits_is_a_result(entry_point: EntryPoint) -> None:
    def annotated() -> int:
        return 10**4000

    def unannotated():
        return 10**4000

    for body in (annotated, unannotated):
        result = entry_point(ToolSpec.from_function(body))
        assert (result.value, result.text) == (10**4000, "1" + "0" * 4000)


@pytest.mark.parametrize("entry_point", VALUE_ENTRY_POINTS.values(), ids=VALUE_ENTRY_POINTS)
def test_call_returns_an_int_of_any_size_for_an_int_annotation(entry_point: EntryPoint) -> None:
    assert entry_point(ToolSpec.from_function(great)) == 10**5000
    with pytest.raises(InvalidResultError):
        entry_point(ToolSpec.from_function(great_within))


class Typed(BaseModel):
    type: str = "a"
    cls: int = 1


@each_entry_point
def test_fields_may_be_named_like_keys_of_a_core_schema(entry_point: EntryPoint) -> None:
    def one() -> Typed:
        return Typed()

    def many() -> list[Typed]:
        return [Typed()]

    assert entry_point(ToolSpec.from_function(one)).structured_content == {"type": "a", "cls": 1}
    assert entry_point(ToolSpec.from_function(many)).value == [{"type": "a", "cls": 1}]


OPEN = {
    "str": (str, "a", "a", None),
    "int": (int, 3, 3, None),
    "list": (list[int], [1], [1], None),
    "model": (Point, Point(x=1), {"x": 1, "y": 0}, {"x": 1, "y": 0}),
    "one property": (One, One(only=1), {"only": 1}, {"only": 1}),
    "aliased": (Aliased, Aliased(outerName=1), {"outerName": 1, "other": 0}, {"outerName": 1, "other": 0}),
    "none": (None, None, None, None),
}
"""A return annotation, a value of it, and the value and the structured content without an output schema."""

UNFIT = {"another type": (int, "text", "text", None), "no list": (list, 3, 3, None)}


@pytest.mark.parametrize(
    ("annotation", "returned", "value", "structured"), [*OPEN.values(), *UNFIT.values()], ids=[*OPEN, *UNFIT]
)
@each_entry_point
def test_an_output_schema_of_none_means_no_schema(
    annotation: Any, returned: Any, value: Any, structured: Any, entry_point: EntryPoint
) -> None:
    spec = returning(annotation, returned, output_schema=None)
    result = entry_point(spec)
    assert (spec.output_schema, spec.definition.output_schema, spec.to_mcp().output_schema) == (None, None, None)
    assert (result.value, result.structured_content, result.error) == (value, structured, None)


@pytest.mark.parametrize(("annotation", "returned", "value", "structured"), OPEN.values(), ids=OPEN)
def test_without_an_output_schema_a_result_is_that_of_fastmcp(
    annotation: Any, returned: Any, value: Any, structured: Any
) -> None:
    def subject() -> Any:
        return returned

    subject.__annotations__["return"] = annotation
    theirs = run(FunctionTool.from_function(subject, output_schema=None).run, {})
    ours = ToolSpec.from_function(subject, output_schema=None).exec()
    assert (ours.structured_content, [block.text for block in ours.content]) == (
        theirs.structured_content,
        [json.dumps(json.loads(block.text)) if structured else block.text for block in theirs.content],
    )


@pytest.mark.parametrize("entry_point", STREAM_ENTRY_POINTS.values(), ids=STREAM_ENTRY_POINTS)
def test_items_need_not_fit_where_there_is_no_output_schema(entry_point: EntryPoint) -> None:
    def subject() -> Iterator[int]:
        yield "text"
        yield 1

    spec = ToolSpec.from_function(subject, output_schema=None)
    results = entry_point(spec)
    assert [result.value for result in results] == ["text", 1, ["text", 1]]
    assert (spec.output_schema, any(result.is_error for result in results)) == (None, False)


def test_an_mcp_tool_without_its_output_schema() -> None:
    listed = returning(Point, Point(x=1)).to_mcp()
    assert ToolSpec.from_mcp(listed).output_schema is not None
    assert ToolSpec.from_mcp(listed, output_schema=None).output_schema is None
    inner = returning(One, One(only=1)).to_fastmcp()
    assert ToolSpec.from_mcp(inner)() == 1
    assert ToolSpec.from_mcp(inner, output_schema=None)() == {"only": 1}


@pytest.mark.parametrize("annotation", [int, Annotated[str, Field(pattern="^[a-z]$")]], ids=["other type", "pattern"])
@each_entry_point
def test_a_lone_surrogate_that_does_not_fit_is_an_invalid_result(entry_point, annotation):
    error = entry_point(returning(annotation, "\ud800")).error
    assert error is not None
    assert error.code == "invalid_result"


class Untyped(typing.TypedDict):
    a: int


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic has a schema for it")
@pytest.mark.parametrize("annotation", [Untyped, list[Untyped], Untyped | None])
def test_a_typed_dict_of_typing_is_an_error_before_python_3_12(annotation):
    with pytest.raises(DefinitionError, match="which pydantic supports from Python 3"):
        returning(annotation, {"a": 1})
    assert returning(annotation, {"a": 1}, output_schema=None)() == {"a": 1}
