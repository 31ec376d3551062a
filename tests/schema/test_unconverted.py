"""`convert=False`: arguments are validated by the annotations, and the function gets the JSON."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, IntEnum
from typing import Annotated, Literal

import pytest
from fastmcp import Client
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, Json
from pydantic_core import SchemaValidator
from typing_extensions import TypedDict

from ahvn_tools import ToolContext, Toolkit, ToolRegistry, ToolSpec, reg_toolspec, tool
from ahvn_tools.errors import DefinitionError, InvalidParametersError, UnboundStateError

NEEDS_OWN_VALIDATORS = pytest.mark.skipif(
    "_use_prebuilt" not in (SchemaValidator.__text_signature__ or ""),
    reason="before 2.13 pydantic always uses the lax validators of a model itself",
)


class Book(BaseModel):
    title: str
    pages: int = 100
    series: list[str] | None = None


@dataclass
class Shelf:
    row: int


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Color(Enum):
    RED = 1


class Share(Enum):
    HALF = 0.5
    WHOLE = 1.0


@dataclass
class Tree:
    level: Level
    children: list[Tree] = field(default_factory=list)


class Record(BaseModel):
    type: int


def title_of(book: Book) -> str:
    return book["title"]


def unconverted(function, **options):
    return ToolSpec.from_function(function, convert=False, **options)


def returned(annotation, value, **options):
    """Return what a function gets that has a parameter of this type."""
    seen = []

    def take(x):
        seen.append(x)

    take.__annotations__ = {"x": annotation}
    unconverted(take, **options).call(x=value)
    return seen[0]


def test_a_function_gets_dicts_where_the_annotation_is_a_model():
    spec = unconverted(title_of)
    assert spec.call(book={"title": "Emma"}) == "Emma"
    assert spec.exec(book={"title": "Emma"}).value == "Emma"
    assert asyncio.run(spec.acall(book={"title": "Emma"})) == "Emma"
    assert asyncio.run(spec.aexec(book={"title": "Emma"})).value == "Emma"
    assert [result.value for result in spec.stream(book={"title": "Emma"})] == ["Emma"]


def test_arguments_are_validated_by_the_annotations():
    error = unconverted(title_of).exec(book={"title": ["Emma"], "pages": "many"}).error
    assert error.code == "invalid_parameters"
    assert "'book.title' should be a valid string; 'book.pages' should be a valid integer" in error.message
    assert unconverted(title_of).input_schema == ToolSpec.from_function(title_of).input_schema


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Book, {"title": "Emma", "unknown": 1}),
        (list[Book], [{"title": "Emma"}]),
        (Shelf, {"row": 3}),
        (set[int], [1, 2, 2]),
        (tuple[int, str], [1, "a"]),
        (dict[int, Shelf], {"1": {"row": 3}}),
        (datetime, "2026-01-02T03:04:05Z"),
        (bytes, "abc"),
        (float, 3),
        (Literal["a", "b"], "a"),
        (Share, 1.0),
        (Color, 1),
        (Book | int, 3),
        (Annotated[str, AfterValidator(str.upper)], "abc"),
        (Annotated[int, BeforeValidator(str.strip)], " 5 "),
        (Annotated[int, BeforeValidator(str.strip), BeforeValidator(str.strip)], " 5 "),
        (Json[list[int]], '["1"]'),
        (Record, {"type": 1}),
    ],
)
def test_every_value_stays_as_it_came(annotation, value):
    got = returned(annotation, value)
    assert (got, type(got)) == (value, type(value))


@pytest.mark.parametrize(
    ("annotation", "value", "repaired"),
    [
        (Book, '{"title": "Emma", "series": null}', {"title": "Emma", "series": None}),
        (Book, {"title": "Emma", "pages": None}, {"title": "Emma"}),
        (Book, {"title": 7}, {"title": "7"}),
        pytest.param(
            Book, {"title": "Emma", "pages": "12"}, {"title": "Emma", "pages": 12}, marks=NEEDS_OWN_VALIDATORS
        ),
        (int, 3.0, 3),
        (int, "3", 3),
        (int, "1" * 400, int("1" * 400)),
        (float, "1.5", 1.5),
        (bool, "true", True),
        (list[int], ["1", 2], [1, 2]),
        (Sequence[int], ["1", 2], [1, 2]),
        (dict[int, int], {"1": "2"}, {"1": 2}),
        (Literal[1, 2], 1.0, 1),
        (Level, "2", 2),
        (list[Level | Color], [2.0, 1.0], [2, 1]),
        (Tree, {"level": "1", "children": [{"level": 2.0}]}, {"level": 1, "children": [{"level": 2}]}),
        (int | None, "3", 3),
        (int | str, 3.0, 3),
        (str | int, 3.0, 3),
        (Literal[3] | str, 3.0, 3),
        (str | bool, 3, "3"),
        (list[str | int], [3.0], [3]),
    ],
)
def test_the_usual_repairs_apply(annotation, value, repaired):
    got = returned(annotation, value)
    assert (got, type(got)) == (repaired, type(repaired))


@pytest.mark.parametrize(("annotation", "value"), [(int, True), (int, "three"), (float, "NaN"), (bool, 1), (str, True)])
def test_a_value_of_another_json_type_is_refused(annotation, value):
    def take(x):
        """Do nothing."""

    take.__annotations__ = {"x": annotation}
    assert unconverted(take).exec(x=value).error.code == "invalid_parameters"


@pytest.mark.parametrize(("annotation", "value"), [(Literal[1], True), (Literal[0, True], 1), (Literal[True], 1)])
def test_a_choice_is_of_the_same_json_type(annotation, value):
    def take(x):
        """Do nothing."""

    take.__annotations__ = {"x": annotation}
    assert unconverted(take).exec(x=value).error.code == "invalid_parameters"


@pytest.mark.parametrize("name", ["metadata", "serialization", "config", "default", "keys_schema", "type"])
def test_a_member_with_the_name_of_a_keyword_is_validated_and_repaired_too(name):
    record = TypedDict("record", {name: int})
    assert returned(record, {name: 2.0}) == {name: 2}
    assert returned(record, {name: "3"}) == {name: 3}
    with pytest.raises(InvalidParametersError, match=f"'x.{name}' should be a valid integer"):
        returned(record, {name: True})


def test_a_number_stays_a_number_where_a_text_must_not_be_made_of_it():
    def take(x: str) -> str:
        return x

    assert unconverted(take, coerce_numbers_to_str=False).exec(x=3).error.code == "invalid_parameters"


def test_defaults_are_the_functions_own():
    emma = Book(title="Emma")

    def take(book: Book = emma, tags: list[str] = ["a"], pages: int = Field(default=3)) -> list:
        tags.append("b")
        return [book is emma or book == emma, type(book).__name__, tags, pages]

    spec = unconverted(take)
    assert spec.call() == spec.call() == [True, "Book", ["a", "b"], 3]


def test_a_changed_default_is_json_too():
    spec = unconverted(title_of, arguments={"book": {"default": {"title": "Emma"}}})
    assert spec.call() == "Emma"
    with pytest.raises(DefinitionError, match="default of 'book'"):
        unconverted(title_of, arguments={"book": {"default": {"titel": "Emma"}}})


def test_bound_values_are_passed_as_objects():
    def take(book: Book, shelf: Shelf) -> list:
        return [book.title, type(shelf).__name__]

    spec = unconverted(take).bind("book", default=Book(title="Emma"))
    assert spec.call(shelf={"row": 1}) == ["Emma", "dict"]


def test_a_bound_value_is_validated_and_not_converted():
    emma = {"title": "Emma", "pages": "12"}

    def take(book: Book) -> bool:
        return book is emma

    spec = unconverted(take)
    kit = Toolkit("kit", state={"book": emma}).add(spec).bind("book")
    assert (kit.call("take"), asyncio.run(kit.acall("take"))) == (True, True)
    with pytest.raises(UnboundStateError, match="does not fit"):
        unconverted(take).bind("book", default={"titel": "Emma"}).call()


def test_the_function_cannot_change_its_callers_arguments():
    def take(books: list[Book]) -> int:
        books[0].clear()
        books.append(1)
        return len(books)

    sent = [{"title": "Emma"}]
    assert unconverted(take).call(books=sent) == 2
    assert sent == [{"title": "Emma"}]


def test_variadic_parameters_and_aliases_work():
    def take(*books: Book, kind: Annotated[Shelf, Field(alias="shelf")], **others: Book) -> list:
        return [books, kind, others]

    spec = unconverted(take, include_var_positional=True, include_var_keyword=True)
    book = {"title": "Emma"}
    assert spec.call(books=[book], shelf={"row": 1}, others={"a": book}) == [[book], {"row": 1}, {"a": book}]


def test_it_works_for_async_functions_generators_and_a_context():
    @tool(convert=False)
    async def first(book: Book, context: ToolContext) -> str:
        return book["title"]

    @tool(convert=False)
    def each(books: list[Book]) -> list[str]:
        for book in books:
            yield book["title"]

    assert first.call(book={"title": "Emma"}) == "Emma"
    assert asyncio.run(first.acall(book={"title": "Emma"})) == "Emma"
    assert [r.value for r in each.stream(books=[{"title": "Emma"}])] == ["Emma", ["Emma"]]


def test_it_works_beside_an_input_schema():
    schema = {"type": "object", "properties": {"book": {"type": "object"}, "note": {"type": "string"}}}

    @tool(convert=False, input_schema=schema)
    def take(book: Book, **others) -> list:
        return [book, others]

    assert take.call(book={"title": "Emma"}, note="x") == [{"title": "Emma"}, {"note": "x"}]
    assert take.exec(book={}).error.code == "invalid_parameters"


def test_it_survives_pickling():
    spec = pickle.loads(pickle.dumps(unconverted(title_of)))
    assert spec.call(book={"title": "Emma"}) == "Emma"


def test_it_can_be_changed_later():
    def kind(book: Book) -> str:
        return type(book).__name__

    spec = ToolSpec.from_function(kind)
    book = {"title": "Emma"}
    assert (spec.call(book=book), spec.transform(convert=False).call(book=book)) == ("Book", "dict")


def test_registry_methods_and_toolkits_take_the_option():
    class Library(ToolRegistry):
        @reg_toolspec(convert=False)
        def title(self, book: Book) -> str:
            return book["title"]

    kit = Toolkit("kit").add(Library()).add(title_of, convert=False)
    for name in ("title", "title_of"):
        assert kit.call(name, {"book": {"title": "Emma"}}) == "Emma"
        assert asyncio.run(kit.aexec(name, {"book": {"title": "Emma"}})).value == "Emma"


async def test_a_served_tool_gets_json_too():
    kit = Toolkit("kit").add(title_of, convert=False)
    async with Client(kit.to_fastmcp_server()) as client:
        result = await client.call_tool("title_of", {"book": {"title": "Emma"}})
        assert result.structured_content == {"result": "Emma"}


def test_a_wrong_value_of_the_option_is_refused():
    with pytest.raises(DefinitionError, match="convert must be True or False"):
        ToolSpec.from_function(title_of, convert="no")


def test_it_is_no_option_of_an_mcp_tool():
    wire = ToolSpec.from_function(title_of).to_mcp()
    with pytest.raises(DefinitionError, match="'convert' is an option for Python functions"):
        ToolSpec.from_mcp(wire, convert=False)
