"""A function's parameters: their schema, what is refused at creation, and the validation of bound values."""

from __future__ import annotations

import datetime as dt
import enum
import gc
import pickle
import re
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypedDict, TypeVar

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, Strict
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import core_schema

from ahvn_tools import Secret, ToolSpec
from ahvn_tools.errors import BindError, DefinitionError, UnboundStateError
from tests.ids import named

CANARY = "Zq7canary"


class Database:
    def __init__(self) -> None:
        self.rows = [1]


class Arbitrary(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    database: Database


Kind = TypeVar("Kind", bound=Database)


class Point(BaseModel):
    x: int
    y: int = 7


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


class Pair(NamedTuple):
    first: int
    second: int


class TestRefusedAtCreation:
    @pytest.mark.parametrize("annotation", [5, any, callable, Point(x=1)])
    def test_a_value_that_is_no_type(self, annotation):
        def f(it) -> None: ...

        f.__annotations__["it"] = annotation
        with pytest.raises(DefinitionError, match=r"Parameter 'it' of 'f'.*not a type.*binds=\{'it': 'state.key'\}"):
            ToolSpec.from_function(f)

    def test_a_constraint_that_does_not_fit_the_type(self):
        def f(it: Annotated[int, Field(pattern="(")]) -> None: ...

        with pytest.raises(DefinitionError, match="'it' of 'f'"):
            ToolSpec.from_function(f)

    def test_an_undefined_name(self):
        def f(it: Nowhere) -> None: ...  # noqa: F821

        with pytest.raises(DefinitionError, match="'it' of 'f' is annotated 'Nowhere': name 'Nowhere' is not defined"):
            ToolSpec.from_function(f)

    def test_a_typed_dict_of_typing_is_refused_with_a_fix_or_works(self):
        """Before Python 3.12 pydantic requires the TypedDict of typing_extensions, and the message says so."""

        class Settings(TypedDict):
            size: int

        def f(it: Settings) -> int:
            return it["size"]

        try:
            spec = ToolSpec.from_function(f)
        except DefinitionError as error:
            assert "typing_extensions.TypedDict" in str(error)  # noqa: PT017
        else:
            assert spec.call(it={"size": 1}) == 1

    def test_a_bound_parameter_does_not_hide_an_unbound_one(self):
        def f(bound: Nowhere, shown: Elsewhere) -> None: ...  # noqa: F821

        with pytest.raises(DefinitionError, match="Parameter 'shown'"):
            ToolSpec.from_function(f, binds={"bound": "there"})

    def test_a_callable_without_signature(self):
        with pytest.raises(DefinitionError, match="has no readable signature; wrap it"):
            ToolSpec.from_function(dict.update)


class TestTypesWithoutAJsonForm:
    @pytest.mark.parametrize(
        "annotation",
        [
            Database, Callable[[], int], Callable, type, type[Point], re.Match, re.Match[str], list[Database],
            Database | None, Annotated[Database, "Rows."], NewType("Handle", Database), Arbitrary, Kind,
        ],
        ids=repr,
    )  # fmt: skip
    def test_a_tool_is_refused_when_it_is_used_unbound(self, annotation):
        def f(it, offset: int = 1) -> int:
            return offset

        f.__annotations__["it"] = annotation
        spec = ToolSpec.from_function(f)
        with pytest.raises(DefinitionError, match=r"Parameter 'it' of 'f' must be bound.*bind\('it'\)"):
            spec.call(offset=1)
        assert spec.bind("it", default=Database()).call(offset=2) == 2
        assert list(spec.params) == ["offset"]

    def test_it_keeps_no_variables_of_the_code_that_makes_the_tool(self):
        class Local: ...

        def make() -> tuple[ToolSpec, weakref.ref[Local]]:
            local = Local()

            def f(it: Database) -> None: ...

            return ToolSpec.from_function(f), weakref.ref(local)

        gc.disable()
        try:
            _, local = make()
            assert local() is None
        finally:
            gc.enable()

    def test_the_first_of_several_is_named(self):
        def f(good: int, bad: Database, worse: Database) -> None: ...

        spec = ToolSpec.from_function(f)
        with pytest.raises(DefinitionError, match="Parameter 'bad'"):
            _ = spec.definition
        with pytest.raises(DefinitionError, match="Parameter 'worse'"):
            _ = spec.bind("bad").definition

    def test_an_explicit_schema_may_leave_it_out_or_describe_it(self):
        def f(database: Database, offset: int) -> int:
            return len(database.rows) + offset

        for names in (["offset"], ["offset", "database"]):
            schema = {"type": "object", "properties": {name: {"description": "Any."} for name in names}}
            spec = ToolSpec.from_function(f, input_schema=schema)
            with pytest.raises(DefinitionError, match="'database' of 'f' must be bound"):
                _ = spec.params
            spec.bind("database", default=Database())
            assert list(spec.params) == ["offset"]
            assert spec.call(offset=2) == 3


class TestNameLookup:
    def test_names_in_a_closure_with_empty_cells_are_found(self):
        class Local(BaseModel):
            size: int

        def f(it: Local) -> int:
            return it.size + len(later) + (Local is not None)

        spec = ToolSpec.from_function(f)
        later = [1, 2]
        assert spec.call(it={"size": 1}) == 4


class TestBoundAtCreation:
    def test_a_parameter_needs_no_schema(self):
        def count(database: Database, offset: int = 0) -> int:
            return len(database.rows) + offset

        spec = ToolSpec.from_function(count, binds={"database": "session.database"})
        spec.state = {"session": {"database": Database()}}
        assert list(spec.params) == ["offset"]
        assert spec.call(offset=1) == 2

    def test_its_value_is_passed_without_conversion(self):
        def same(database: Database) -> int:
            return id(database)

        database = Database()
        spec = ToolSpec.from_function(same, binds={"database": "db"})
        spec.state["db"] = database
        assert spec.call() == id(database)

    def test_it_cannot_be_unbound(self):
        def count(database: Database) -> int:
            return 1

        spec = ToolSpec.from_function(count, binds={"database": "db"})
        with pytest.raises(BindError, match="its type has no JSON form"):
            spec.unbind("database")

    def test_its_annotation_need_not_be_resolvable(self):
        def count(database: Nowhere, offset: int = 0) -> int:  # noqa: F821
            return database + offset

        spec = ToolSpec.from_function(count, binds={"database": "db"})
        spec.state["db"] = 4
        assert spec.call(offset=1) == 5

    def test_collected_arguments_can_be_bound(self):
        def f(*numbers: int, **limits: int) -> list[int]:
            return [*numbers, *limits.values()]

        spec = ToolSpec.from_function(f, binds={"numbers": "numbers", "limits": "limits"})
        assert spec.params == {}
        spec.state = {"numbers": [1, 2], "limits": {"a": 3}}
        assert spec.call() == [1, 2, 3]


class TestSchema:
    def test_explicit_titles_stay_and_generated_ones_do_not(self):
        def f(a: int, b: Annotated[int, Field(title="Bee")]) -> None: ...

        assert ToolSpec.from_function(f).params == {"a": {"type": "integer"}, "b": {"type": "integer", "title": "Bee"}}

    def test_text_in_annotated_is_a_description_and_wins_over_the_docstring(self):
        def f(a: Annotated[int, "From the annotation."], b: int) -> None:
            """Do it.

            Args:
                a: From the docstring.
                b: From the docstring.
            """

        params = ToolSpec.from_function(f).params
        assert params["a"]["description"] == "From the annotation."
        assert params["b"]["description"] == "From the docstring."

    def test_hiding_a_parameter_drops_the_definitions_only_it_used(self):
        def f(tree: Tree, point: Point, count: int = 1) -> None: ...

        spec = ToolSpec.from_function(f)
        assert sorted(spec.input_schema["$defs"]) == ["Point", "Tree"]
        spec.bind("tree")
        assert sorted(spec.input_schema["$defs"]) == ["Point"]
        assert spec.input_schema["required"] == ["point"]
        spec.bind("point")
        assert "$defs" not in spec.input_schema
        assert "required" not in spec.input_schema

    def test_recursive_models_are_exported_and_validated(self):
        def depth(tree: Tree) -> int:
            return 1 + max((depth(child) for child in tree.children), default=0)

        spec = ToolSpec.from_function(depth)
        assert spec.call(tree={"name": "a", "children": [{"name": "b", "children": None}]}) == 2
        assert "'tree.children[0].name' is missing" in spec.exec(tree={"name": "a", "children": [{}]}).error.message

    def test_changes_of_a_returned_schema_have_no_effect(self):
        spec = ToolSpec.from_function(lambda a: a, name="f")
        spec.input_schema["properties"]["a"]["type"] = "string"
        spec.params.clear()
        assert spec.call(a=1) == 1
        assert spec.params == {"a": {}}


class TestBoundValueValidation:
    def made(self, annotation, default=...):
        received = []

        def take(it):
            received.append(it)

        take.__annotations__["it"] = annotation
        if default is not ...:
            take.__defaults__ = (default,)
        spec = ToolSpec.from_function(take).bind("it", "there.it")

        def call(value):
            spec.state = {"there": {"it": value}}
            spec.call()
            return received.pop()

        return call

    @pytest.mark.parametrize(
        ("annotation", "value"),
        [
            (list[int], [1, 2]),
            (dict[str, list[int]], {"a": [1]}),
            (set[int], {1}),
            (Point, Point(x=1)),
            (Any, object()),
            (list | None, []),
            (Iterable[int], [1, 2]),
            (Pair, Pair(1, 2)),
            (dt.date, dt.date(2024, 1, 1)),
        ],
        ids=named,
    )
    def test_the_object_itself_is_passed(self, annotation, value):
        assert self.made(annotation)(value) is value

    def test_an_iterator_is_not_consumed(self):
        items = iter([1, 2])
        assert list(self.made(Iterable[int])(items)) == [1, 2]

    @pytest.mark.parametrize(
        ("annotation", "value", "expected"),
        [
            (int, "5", 5),
            (list[int], ["1"], [1]),
            (Point, {"x": "1"}, Point(x=1)),
            (dt.date, "2024-01-01", dt.date(2024, 1, 1)),
            (set[int], [1], {1}),
        ],
        ids=str,
    )
    def test_a_value_that_needs_conversion_is_replaced(self, annotation, value, expected):
        received = self.made(annotation)(value)
        assert received == expected
        assert type(received) is type(expected)

    @pytest.mark.parametrize("annotation", [int, list[int], dict[str, int], Point, Iterable[int]])
    def test_an_invalid_value_is_reported_only_by_parameter_key_and_type(self, annotation):
        class Odd:
            def __repr__(self):
                return CANARY

        with pytest.raises(UnboundStateError) as caught:
            self.made(annotation)(Odd())
        message = str(caught.value)
        assert "'it'" in message
        assert "'there.it'" in message
        assert "Odd" in message
        assert CANARY not in message
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__

    def test_bound_values_are_not_repaired(self):
        with pytest.raises(UnboundStateError):
            self.made(list[int])("[1]")
        with pytest.raises(UnboundStateError):
            self.made(int, 5)(None)

    def test_a_default_factory_makes_a_fresh_default_for_each_call(self):
        def f(items: list[int] = Field(default_factory=list)) -> list[int]:
            items.append(1)
            return items

        spec = ToolSpec.from_function(f).bind("items")
        assert [spec.call(), spec.call()] == [[1], [1]]

    def test_constraints_in_the_default_apply_to_bound_values_too(self):
        def f(n: int = Field(default=4, ge=1)) -> int:
            return n

        spec = ToolSpec.from_function(f).bind("n")
        assert spec.call() == 4
        spec.state = {"n": 0}
        assert spec.exec().error.code == "unbound_state"

    def test_the_expected_type_is_reported_without_its_metadata(self):
        def f(text: Annotated[str, Field(min_length=3)]) -> str:
            return text

        spec = ToolSpec.from_function(f).bind("text")
        spec.state = {"text": 1}
        assert str(spec.exec().exception).endswith("does not fit 'Annotated[str, …]'; set state key 'text'.")

    def test_secrets_are_recognized_by_annotation(self):
        def f(
            a: Annotated[str, Secret], b: SecretStr, c: Annotated[str, Secret(), Field(min_length=2)] = "xx"
        ) -> None: ...

        spec = ToolSpec.from_function(f).bind("a").bind("b").bind("c")
        spec.state = {"a": CANARY, "b": SecretStr(CANARY), "c": CANARY}
        assert spec.exec().error is None
        assert CANARY.encode() not in pickle.dumps(spec)


class Record(BaseModel):
    type: Literal["record"]
    metadata: dict[str, int] = {}


@dataclass
class Row:
    type: int


class TestFieldNames:
    """Names that pydantic's core schemas use themselves."""

    @pytest.mark.parametrize(
        ("annotation", "value"),
        [(Record, {"type": "record"}), (Row, {"type": 1}), (list[Row | Record], [{"type": 1}])],
    )
    def test_a_type_may_have_a_field_named_type(self, annotation, value):
        def f(it) -> None: ...

        f.__annotations__["it"] = annotation
        spec = ToolSpec.from_function(f)
        assert spec.exec(it=value).error is None
        assert spec.exec(it={"type": []}).error.code == "invalid_parameters"


class Kinds(enum.Enum):
    INTEGER = int


class Unwritten:
    """A type whose own code fails to write its JSON Schema."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _source, _handler):
        return core_schema.str_schema()

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema, _handler):
        raise RuntimeError("no schema: secret")


class WithUnwritten(BaseModel):
    inner: list[Unwritten] = []


class WithBrokenExtra(BaseModel):
    model_config = ConfigDict(json_schema_extra=lambda schema: schema["nothing"])


class TestTypesWhoseSchemaCannotBeMade:
    @pytest.mark.parametrize(
        ("annotation", "reason"),
        [
            (Kinds, "one of its values has no JSON form"),
            (list[Kinds], "one of its values has no JSON form"),
            (Literal[Kinds.INTEGER], "one of its values has no JSON form"),
            (Unwritten, "to make its JSON Schema raises RuntimeError"),
            (WithUnwritten, "to make its JSON Schema raises RuntimeError"),
            (WithBrokenExtra, "to make its JSON Schema raises KeyError"),
            (Annotated[int, Field(json_schema_extra=lambda schema: schema["nothing"])], "raises KeyError"),
            (Annotated[dt.date | int, Strict()], "to make its JSON Schema raises RuntimeError"),
            (SkipJsonSchema[int], "it is hidden from models, and has no default"),
            (list[SkipJsonSchema[int]], "it is hidden from models, and has no default"),
        ],
    )
    def test_are_refused_with_the_tool_and_the_parameter_unless_bound(self, annotation, reason):
        def act(name: str, kind: Any) -> str:
            return f"{name} {kind!r}"

        act.__annotations__["kind"] = annotation
        with pytest.raises(DefinitionError, match=f"Parameter 'kind' of 'act' .*{reason}.*binds=") as caught:
            ToolSpec.from_function(act)
        assert "secret" not in str(caught.value)
        spec = ToolSpec.from_function(act, binds={"kind": "kind"})
        spec.state["kind"] = Kinds.INTEGER
        assert list(spec.definition.input_schema["properties"]) == ["name"]
        assert spec(name="a") == f"a {Kinds.INTEGER!r}"

    @pytest.mark.parametrize("annotation", [Kinds, list[Unwritten], WithBrokenExtra])
    def test_as_a_return_type_promise_nothing(self, annotation):
        def act() -> Any:
            return "text"

        act.__annotations__["return"] = annotation
        assert ToolSpec.from_function(act).definition.output_schema is None

    def test_a_skipped_parameter_is_hidden_and_has_its_default(self):
        def act(name: str, size: SkipJsonSchema[int] = 5, /, unit: str = "m") -> str:
            return f"{name} {size} {unit}"

        spec = ToolSpec.from_function(act)
        assert list(spec.definition.input_schema["properties"]) == ["name", "unit"]
        assert spec(name="a", unit="cm") == "a 5 cm"
        assert "unknown argument 'size'" in spec.exec(name="a", size=3).text
        bound = ToolSpec.from_function(act, binds={"size": "size"})
        bound.state["size"] = 7
        assert bound(name="a") == "a 7 m"
