"""What it costs to refuse arguments: no more than to accept them, and never exponentially much."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Json, TypeAdapter, ValidationError
from typing_extensions import TypeAliasType, TypedDict

from ahvn_tools import ToolSpec
from ahvn_tools.errors import InvalidParametersError
from ahvn_tools.schema.function import FunctionInputs
from tests.property_checks import EXAMPLES, run_examples
from tests.schema.single_parameter import SingleParameterTool

LARGE = 2_000
"""More values than those of which all errors are counted."""


class Checks:
    """Counts how often a value was checked."""

    count = 0


def _count(value: Any) -> Any:
    Checks.count += 1
    return value


Counted = Annotated[int, BeforeValidator(_count)]


class Row(BaseModel):
    a: Counted
    b: int = 0


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: Counted


class TypedRow(TypedDict):
    a: Counted


@dataclasses.dataclass
class DataRow:
    a: Counted


class Holder(BaseModel):
    rows: list[Row]


class Cat(BaseModel):
    kind: Literal["cat"]
    a: Counted


class Dog(BaseModel):
    kind: Literal["dog"]
    b: int


TEXTS = ["x"] * LARGE
ROWS = [{"a": "x"}] * LARGE
CATS = [{"kind": "cat", "a": "x"}] * LARGE

CONTAINERS: dict[str, tuple[Any, Any]] = {
    "list": (list[Counted], TEXTS),
    "tuple": (tuple[Counted, ...], TEXTS),
    "set": (set[Counted], TEXTS),
    "frozenset": (frozenset[Counted], TEXTS),
    "deque": (deque[Counted], TEXTS),
    "Sequence": (Sequence[Counted], TEXTS),
    "Iterable": (Iterable[Counted], TEXTS),
    "dict values": (dict[str, Counted], {str(i): "x" for i in range(LARGE)}),
    "dict keys": (dict[Counted, int], {f"k{i}": 1 for i in range(LARGE)}),
    "Mapping": (Mapping[str, Counted], {str(i): "x" for i in range(LARGE)}),
    "nested list": (list[list[Counted]], [["x"] * 50] * 50),
    "optional": (list[Counted] | None, TEXTS),
    "models": (list[Row], ROWS),
    "list inside a model": (Holder, {"rows": ROWS}),
    "TypedDict": (list[TypedRow], ROWS),
    "dataclass": (list[DataRow], ROWS),
    "union": (list[Cat | Dog], CATS),
    "tagged union": (list[Annotated[Cat | Dog, Field(discriminator="kind")]], CATS),
    "JSON text": (Json[list[Counted]], str(TEXTS).replace("'", '"')),
    "JSON text of a list": (list[Counted], str(TEXTS).replace("'", '"')),
}


@pytest.mark.parametrize(("annotation", "value"), CONTAINERS.values(), ids=CONTAINERS)
def test_the_check_of_a_large_container_ends_at_its_first_error(annotation, value):
    tool = SingleParameterTool(annotation)
    Checks.count = 0
    message = tool.refusal(value)
    assert "should be a valid integer" in message
    assert Checks.count <= 10
    assert len(message) < 300


def test_the_message_about_a_large_container_says_that_there_may_be_more_errors():
    tool = SingleParameterTool(list[int])
    expected = "Invalid arguments: 'it[0]' should be a valid integer, unable to parse string as an integer"
    assert tool.refusal(TEXTS) == f"{expected}; and possibly more."
    assert tool.refusal(["x"]) == f"{expected}."


def test_a_large_argument_of_the_wrong_type_is_the_only_error():
    assert SingleParameterTool(dict[str, int]).refusal(TEXTS) == (
        "Invalid arguments: 'it' should be a valid dictionary."
    )


@pytest.mark.parametrize("annotation", [Closed, list[Closed], dict[str, Closed]])
def test_a_hundred_thousand_unknown_properties_make_a_short_message(annotation):
    value: Any = {"a": 1} | {f"k{i}": 1 for i in range(100_000)}
    value = {Closed: value, list[Closed]: [value]}.get(annotation, {"x": value})
    assert SingleParameterTool(annotation).refusal(value) == (
        "Invalid arguments: more than 5,000 members are unknown or wrong. Send those that the schema names."
    )


@pytest.mark.parametrize("annotation", [int, list[int]], ids=str)
def test_unknown_names_are_refused_before_values_are_checked(annotation):
    def f(it: annotation, other: Counted = 0) -> None: ...

    f.__annotations__ = {"it": annotation, "other": Counted}
    Checks.count = 0
    error = ToolSpec.from_function(f).exec(**{f"k{i}": 1 for i in range(100_000)}, other="x").error
    assert error.message.startswith("Invalid arguments: unknown argument 'k0' (known: 'it', 'other'); unknown")
    assert error.message.endswith("; and 99995 more.")
    assert Checks.count == 0


class TestNestedUnions:
    def test_a_deeply_nested_value_of_a_union_is_refused(self):
        """Two alternatives on each of sixty levels are more combinations than can be tried."""
        tool = SingleParameterTool(Left | Right | int)
        for leaf in (1, "x"):
            message = tool.refusal(chain(60, leaf))
            assert message.endswith("Nest them less deeply.")

    @pytest.mark.parametrize("entry_point", ["exec", "aexec"])
    async def test_sync_and_async_callers_get_the_same_error(self, entry_point):
        spec = SingleParameterTool(Left | Right | int).spec
        result = spec.exec(it=chain(60, 1)) if entry_point == "exec" else await spec.aexec(it=chain(60, 1))
        assert result.error.code == InvalidParametersError.code

    def test_a_value_that_is_nested_less_deeply_is_accepted(self):
        tool = SingleParameterTool(Left | Right | int)
        assert tool(chain(5, 1)) == TypeAdapter(Left | Right | int).validate_python(chain(5, 1))

    def test_the_errors_of_all_alternatives_are_listed_while_they_are_few(self):
        message = SingleParameterTool(Left | Right | int).refusal(chain(2, "x"))
        assert "'it.x.x' should be a valid integer" in message

    def test_only_the_place_is_named_when_there_are_too_many_errors(self):
        assert SingleParameterTool(Left | Right | int).refusal(chain(10, "x")) == (
            "Invalid arguments: 'it' matches none of the alternatives that its type allows."
        )

    def test_many_values_of_a_nested_union_are_accepted(self):
        value = [[{"x": i}] for i in range(20_000)]
        assert SingleParameterTool(JsonValue)(value) == value

    def test_a_recursive_tagged_union_may_nest_deeply(self):
        value: Any = {"kind": "cat"}
        for _ in range(60):
            value = {"kind": "pair", "first": value, "second": {"kind": "cat"}}
        assert SingleParameterTool(Expression)(value).kind == "pair"

    @given(
        st.recursive(
            st.integers() | st.text(max_size=2) | st.none() | st.floats(allow_nan=False, allow_infinity=False),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyk"), inner, max_size=3),
            max_leaves=8,
        )
    )
    @pytest.mark.parametrize("name", ["models", "JSON", "lists"])
    @pytest.mark.default_cases(1)
    def test_the_alternative_is_the_one_that_pydantic_chooses(self, name, value):
        annotation = {
            "models": Left | Right | int,
            "JSON": JsonValue,
            "lists": list[Right] | list[Left] | dict[str, int],
        }
        try:
            expected = TypeAdapter(annotation[name]).validate_python(value)
        except ValidationError:
            return  # it may still be repaired
        assert repr(SingleParameterTool(annotation[name])(value)) == repr(expected)


class Left(BaseModel):
    x: Left | Right | int


class Right(BaseModel):
    x: Left | Right | int
    y: int = 0


class Leaf(BaseModel):
    kind: Literal["cat"]


class Fork(BaseModel):
    kind: Literal["pair"]
    first: Expression
    second: Expression


Expression = TypeAliasType("Expression", Annotated["Leaf | Fork", Field(discriminator="kind")])
JsonValue = TypeAliasType("JsonValue", "list[JsonValue] | dict[str, JsonValue] | str | int | float | None")
Left.model_rebuild()
Fork.model_rebuild()


def chain(levels: int, leaf: Any) -> Any:
    """Return a leaf inside this many objects."""
    for _ in range(levels):
        leaf = {"x": leaf}
    return leaf


class Open(BaseModel):
    a: int = 1
    b: str = "x"


class Nullable(BaseModel):
    a: Counted
    size: int = 3


class TestRepairs:
    def test_nulls_in_more_than_a_thousand_values_are_removed(self):
        assert SingleParameterTool(list[Open])([{"a": None}] * LARGE) == [Open()] * LARGE

    def test_a_large_list_may_be_sent_as_json_text(self):
        assert SingleParameterTool(list[int])(str([1] * 20_000)) == [1] * 20_000

    def test_nulls_in_single_items_of_a_large_list_are_removed(self):
        rows = [{"a": None} if i % 7 == 3 else {"a": 2, "b": None} if i % 7 == 5 else {"a": 2} for i in range(LARGE)]
        assert [row.a for row in SingleParameterTool(list[Open])(rows)] == [row["a"] or 1 for row in rows]

    def test_json_texts_with_nulls_in_a_large_list_are_repaired(self):
        rows: list[Any] = ['{"a": null}', {"a": 2.0}] * 1_000
        assert [row.a for row in SingleParameterTool(list[Open])(rows)] == [1, 2] * 1_000

    @pytest.mark.parametrize("annotation", [list[Nullable], list[Nullable | None]], ids=["models", "nullable models"])
    def test_the_other_items_are_not_checked_if_the_first_one_cannot_be_repaired(self, annotation):
        tool = SingleParameterTool(annotation)
        Checks.count = 0
        message = tool.refusal([{"size": None, "a": "x"}] * LARGE)
        assert message == (
            "Invalid arguments: 'it[0].a' should be a valid integer, unable to parse string as an integer; "
            "and possibly more."
        )
        assert Checks.count <= 10

    def test_an_item_that_cannot_be_repaired_is_refused_behind_others_that_can(self):
        rows = [{"a": None}] * 3 + [{"a": None, "b": {}}] * 1_000
        message = SingleParameterTool(list[Open]).refusal(rows)
        assert message == "Invalid arguments: 'it[3].b' should be a valid string; and possibly more."

    def test_texts_inside_nested_unions_are_repaired_in_a_few_hundred_values(self):
        tool, rest = SingleParameterTool(list[Left | Right | int]), [{"x": 1}] * 300
        assert tool(['{"x": {"x": 1}}', *rest]) == tool([chain(2, 1), *rest])

    def test_nulls_in_more_than_five_thousand_values_are_refused(self):
        message = SingleParameterTool(list[Open]).refusal([{"a": None}] * 6_000)
        assert message.endswith("'it[2].a' should be a valid integer; and possibly more.")


def test_a_validators_text_with_a_very_long_input_is_omitted():
    def refuse(value: str) -> str:
        raise ValueError(f"bad: {value}")

    tool = SingleParameterTool(Annotated[str, BeforeValidator(refuse)])
    assert tool.refusal("word " * 200_000) == "Invalid arguments: 'it' is not valid."


def nested_alternatives() -> dict[str, Any]:
    """Return the schema of a recursive union of two objects and an integer."""
    branch = {"type": "object", "properties": {"x": {"$ref": "#/$defs/N"}}, "required": ["x"]}
    return {
        "type": "object",
        "properties": {"it": {"$ref": "#/$defs/N"}},
        "required": ["it", "other"],
        "$defs": {"N": {"anyOf": [branch, dict(branch), {"type": "integer"}]}},
    }


class TestJsonSchema:
    def test_the_errors_of_a_deeply_nested_union_are_not_listed(self):
        """They would be more than can be listed."""
        spec = ToolSpec.from_function(_take, input_schema=nested_alternatives())
        assert spec.exec(it=chain(60, "x")).error.message == (
            "Invalid arguments: 'other' is missing; 'it' does not match its schema; and possibly more."
        )
        assert spec.exec(it=chain(60, 1), other=1).error is None

    def test_only_the_first_error_of_large_arguments_is_listed(self):
        schema = {"type": "object", "properties": {"it": {"type": "array", "items": {"type": "integer"}}}}
        spec = ToolSpec.from_function(_take, input_schema=schema)
        expected = "Invalid arguments: 'it[0]' should be of type integer"
        assert spec.exec(it=["x"] * 100_000).error.message == f"{expected}; and possibly more."
        assert spec.exec(it=["x"]).error.message == f"{expected}."

    def test_many_unknown_names_are_refused_before_values_are_checked(self):
        schema = {"type": "object", "properties": {"it": {"type": "integer"}}, "additionalProperties": False}
        spec = ToolSpec.from_function(_take, input_schema=schema)
        message = spec.exec(it="x", **{f"k{i}": 1 for i in range(100_000)}).error.message
        assert message.startswith("Invalid arguments: unknown argument 'k0' (known: 'it'); unknown argument 'k1'")
        assert message.endswith("; and 99995 more.")

    def test_nulls_in_more_than_a_thousand_values_are_removed(self):
        row = {"type": "object", "properties": {"a": {"type": "integer"}}}
        schema = {"type": "object", "properties": {"it": {"type": "array", "items": row}}}
        spec = ToolSpec.from_function(_take, input_schema=schema)
        assert spec.call(it=[{"a": None}] * LARGE) == [{}] * LARGE


def _take(it: Any = None, other: Any = None) -> Any:
    return it


# The validator that only accepts or refuses

SCALARS: list[Any] = [
    int, float, str, bool,
    Annotated[int, Field(ge=2**62)], Annotated[int, Field(lt=-(2**70))], Annotated[int, Field(multiple_of=2, le=10)],
    Annotated[float, Field(gt=0)], Annotated[str, Field(max_length=2)], Annotated[bool, Field(strict=True)],
    Annotated[int, Field(alias="first")],
]  # fmt: skip
SENT: list[Any] = [
    0, 1, -1, 2, 2**62, 2**63 - 1, -(2**80), True, 1.0, 1.5, -0.0, float("nan"), float("inf"), "", "a", "abc", "1",
    " 1 ", "1.0", "yes", "\ud800", None, [], {},
]  # fmt: skip


@EXAMPLES
def test_the_short_check_of_scalars_accepts_only_what_the_whole_validation_returns(max_examples: int) -> None:
    def check(annotation: Any, default: Any, arguments: dict[str, Any]) -> None:
        def body(a, b: str = "b"):
            return repr((a, b))

        body.__annotations__["a"] = annotation
        body.__defaults__ = ("b",) if default is None else (default, "b")
        outcomes = []
        for is_short in (True, False):
            with pytest.MonkeyPatch.context() as patch:
                if not is_short:
                    patch.setattr(FunctionInputs, "fast_validator", lambda self, hidden: None)
                spec = ToolSpec.from_function(body)
                assert (spec.compiled.plan.validate_fast is not None) is is_short
                result = spec.exec(**arguments)
                outcomes.append((result.value, result.error and result.error.message))
        assert outcomes[0] == outcomes[1]

    arguments = st.dictionaries(st.sampled_from(["a", "b", "c", "first"]), st.sampled_from(SENT), max_size=3)
    run_examples(max_examples, check, st.sampled_from(SCALARS), st.none() | st.sampled_from([1, 0.5, "x"]), arguments)
