"""Laws of every format, for random tools: exports change nothing, and what obeys an export means what it says."""

from __future__ import annotations

import copy
import datetime as dt
import enum
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Optional, Union

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter
from typing_extensions import NotRequired, TypedDict

from ahvn_tools import ToolDefinition, ToolResult, ToolSpec, formats
from ahvn_tools.results import ErrorDetail
from tests.formats.providers import provider
from tests.formats.test_contract import each_format, leaves
from tests.formats.test_rules import broken_everywhere

NULL_FOR_ABSENT = frozenset({"openai", "openai-responses", "mistral"})
"""The formats in whose strict exports an optional member is required, and null when it is absent."""

ANSWERED_BY_NAME = frozenset({"ollama", "prompt"})
"""The formats whose results carry no ids."""

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=50)


# what parameters may be


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**14), 10**14)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
"""What JSON can say; whole numbers are such as every provider carries unchanged."""


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 7
    label: Optional[str] = "none given"


class Extra(TypedDict):
    note: str
    weight: NotRequired[float]


class Line(BaseModel):
    start: Point
    end: Optional[Point] = None
    color: Color = Color.RED
    dashes: list[int] = [1, 2]
    extra: Extra = {"note": "by default"}


class Node(BaseModel):
    name: str = "n"
    children: list[Node] = []


class Tagged(BaseModel):
    kind: Literal["tagged"]
    values: dict[str, int] = {}


@dataclass(frozen=True)
class Answer:
    """A value in two forms: as a plain call gives it, and as a model gives it that obeys OpenAI's strict export."""

    plain: Any
    strict: Any


Answers = Callable[[int], st.SearchStrategy[Answer]]
"""Draws answers that nest so many levels deep at most."""


def same(values: st.SearchStrategy[Any]) -> Answers:
    """What looks the same in every form."""
    return lambda _: values.map(lambda value: Answer(value, value))


def listed(items: Answers, longest: int = 3) -> Answers:
    return lambda depth: st.lists(items(depth - 1), max_size=longest if depth > 0 else 0).map(
        lambda found: Answer([item.plain for item in found], [item.strict for item in found])
    )


def either(*answers: Answers) -> Answers:
    return lambda depth: st.one_of(*(answer(depth) for answer in answers))


@dataclass(frozen=True)
class Member:
    """A member of an object: how it is answered, and what its absence looks like."""

    answers: Answers
    is_required: bool = False
    takes_null: bool = False
    """Whether null is legal: then null stays null, and cannot say "absent" (the exception to the law)."""


def objects(members: dict[str, Member]) -> Answers:
    """What an object with these members is answered with; optional ones are there or not."""

    @st.composite
    def draw_object(draw: Any, depth: int) -> Answer:
        plain: dict[str, Any] = {}
        strict: dict[str, Any] = {}
        for name, member in members.items():
            if member.is_required or draw(st.booleans()):
                found = draw(member.answers(depth - 1))
                plain[name], strict[name] = found.plain, found.strict
            else:
                strict[name] = None
                if member.takes_null:
                    plain[name] = None
        return Answer(plain, strict)

    return draw_object


whole = same(st.integers(-(2**53), 2**53))
number = same(st.floats(allow_nan=False, allow_infinity=False))
text = same(st.text(st.characters(exclude_categories=["Cs"]), max_size=8))
flag = same(st.booleans())
day = same(st.dates().map(str))
nothing = same(st.none())
color = same(st.sampled_from(["red", "blue"]))
point = objects({
    "x": Member(whole, is_required=True), "y": Member(whole), "label": Member(either(text, nothing), takes_null=True),
})  # fmt: skip
extra = objects({"note": Member(text, is_required=True), "weight": Member(number)})
line = objects({
    "start": Member(point, is_required=True), "end": Member(either(point, nothing), takes_null=True),
    "color": Member(color), "dashes": Member(listed(whole)), "extra": Member(extra),
})  # fmt: skip


def node(depth: int) -> st.SearchStrategy[Answer]:
    return objects({"name": Member(text), "children": Member(listed(node, 2))})(depth)


def mapped(values: Answers) -> Answers:
    return lambda depth: st.dictionaries(st.text("abc", max_size=2), values(depth - 1), max_size=2).map(
        lambda found: Answer({k: v.plain for k, v in found.items()}, {k: v.strict for k, v in found.items()})
    )


def pair(first: Answers, second: Answers) -> Answers:
    return lambda depth: st.tuples(first(depth), second(depth)).map(
        lambda found: Answer([part.plain for part in found], [part.strict for part in found])
    )


tagged = objects({"kind": Member(same(st.just("tagged")), is_required=True), "values": Member(mapped(whole))})


@dataclass(frozen=True)
class Kind:
    """A parameter's annotation, and its answers."""

    annotation: Any
    answers: Answers
    takes_null: bool = False
    defaults: list[Any] = field(default_factory=list)
    """JSON forms that the parameter may have as its default."""


KINDS = [
    Kind(int, whole, defaults=[0, 5]),
    Kind(float, number, defaults=[0.5]),
    Kind(str, text, defaults=["", "x"]),
    Kind(bool, flag, defaults=[True, False]),
    Kind(Optional[int], either(whole, nothing), takes_null=True, defaults=[None, 3]),
    Kind(Optional[Line], either(line, nothing), takes_null=True, defaults=[None]),
    Kind(list[int], listed(whole), defaults=[[], [1]]),
    Kind(list[Point], listed(point), defaults=[[]]),
    Kind(list[Optional[float]], listed(either(number, nothing)), defaults=[[None]]),
    Kind(dict[str, int], mapped(whole), defaults=[{}]),
    Kind(dict[str, Optional[Point]], mapped(either(point, nothing)), defaults=[{"a": None}]),
    Kind(Literal["a", "b"], same(st.sampled_from(["a", "b"])), defaults=["a"]),
    Kind(Literal[1, "b", None], same(st.sampled_from([1, "b", None])), takes_null=True, defaults=[1]),
    Kind(Color, color, defaults=["red"]),
    Kind(Point, point, defaults=[{"x": 1}]),
    Kind(Line, line, defaults=[{"start": {"x": 1}}]),
    Kind(Extra, extra, defaults=[{"note": "n"}]),
    Kind(Node, node, defaults=[{}]),
    Kind(Tagged, tagged),
    Kind(Union[int, str], either(whole, text), defaults=[3, "three"]),
    Kind(Union[Line, int, None], either(line, whole, nothing), takes_null=True, defaults=[7]),
    Kind(Union[Tagged, Extra], either(tagged, extra)),
    Kind(tuple[int, str], pair(whole, text), defaults=[[1, "x"]]),
    Kind(tuple[Point, ...], listed(point), defaults=[[]]),
    Kind(dt.date, day, defaults=["2024-02-29"]),
    Kind(Any, same(VALUES.filter(lambda value: value is not None)), takes_null=True, defaults=[1]),
]


@dataclass(frozen=True)
class Tool:
    """A tool that tells what it was called with, and the parameters that it was made from."""

    function: Callable[..., str]
    spec: ToolSpec
    parameters: dict[str, tuple[Kind, bool]]
    """By name: the kind, and whether the parameter has a default."""

    def direct(self, arguments: dict[str, Any]) -> Any:
        """Call the function itself, with what pydantic makes of plain arguments; no code of ours runs."""
        kinds = {name: kind for name, (kind, _) in self.parameters.items()}
        made = {name: TypeAdapter(kinds[name].annotation).validate_python(value) for name, value in arguments.items()}
        return self.function(**made)


@st.composite
def tools(draw: Any) -> Tool:
    kinds = draw(st.lists(st.sampled_from(KINDS), max_size=4))
    parameters: dict[str, tuple[Kind, bool]] = {}
    names: dict[str, Any] = {}
    signature = []
    for index, kind in enumerate(kinds):
        has_default = bool(kind.defaults) and draw(st.booleans())
        parameters[f"p{index}"] = (kind, has_default)
        names[f"T{index}"] = kind.annotation
        default = ""
        if has_default:
            names[f"D{index}"] = TypeAdapter(kind.annotation).validate_python(draw(st.sampled_from(kind.defaults)))
            default = f" = D{index}"
        signature.append(f"p{index}: T{index}{default}")
    star = ["*"] if signature else []
    body = ", ".join(parameters)
    exec(f"def tell({', '.join(star + signature)}) -> str:\n    return repr([{body}])\n", names)
    return Tool(names["tell"], ToolSpec.from_function(names["tell"]), parameters)


@st.composite
def tools_and_answers(draw: Any) -> tuple[Tool, Answer]:
    tool = draw(tools())
    members = {
        name: Member(kind.answers, is_required=not has_default, takes_null=kind.takes_null)
        for name, (kind, has_default) in tool.parameters.items()
    }
    return tool, draw(objects(members)(3))


def is_strict(tool: dict[str, Any]) -> bool:
    """Tell whether an exported tool is marked strict, by whatever provider."""
    return any(part.get("strict") is True for part in (tool, tool.get("function", {}), tool.get("toolSpec", {})))


def obeys(schema: dict[str, Any], arguments: dict[str, Any]) -> bool:
    return jsonschema_rs.validator_for(schema, validate_formats=True).is_valid(arguments)


# the laws


@unhurried
@given(drawn=tools_and_answers())
def test_what_obeys_an_export_means_what_a_direct_call_means(drawn):
    tool, answer = drawn
    expected = tool.direct(answer.plain)
    for name, strict in itertools.product(formats.BUILT_IN, (False, True)):
        chosen, spoken = formats.get(name), provider(name)
        exported = chosen.export([tool.spec.definition], strict=strict)
        ((wire, schema),) = spoken.exported(exported)
        wants_nulls = name in NULL_FOR_ABSENT and is_strict(exported[0])
        sent = answer.strict if wants_nulls else answer.plain
        assert obeys(schema, sent), name
        (call,) = chosen.calls(spoken.answer([("c1", wire, json.dumps(sent))]), [tool.spec.definition])
        result = tool.spec.exec(**call.arguments)
        assert (name, result.error, result.value) == (name, None, expected)


@pytest.mark.parametrize("name", ["openai", "openai-responses", "mistral", "anthropic", "bedrock"])
def test_the_law_is_proven_on_strict_exports_and_not_on_open_ones(name):
    """Of the kinds above, those are strict that can be; the list is here so that none gets lost unseen."""
    open_kinds = []
    for kind in KINDS:

        def tell(value): ...

        tell.__annotations__["value"] = kind.annotation
        if not is_strict(formats.get(name).export([ToolSpec.from_function(tell).definition], strict=True)[0]):
            open_kinds.append(kind.annotation)
    recursive = [Node] if name in {"anthropic", "bedrock"} else []
    free = [dict[str, int], dict[str, Optional[Point]], Tagged, Union[Tagged, Extra], tuple[int, str], Any]
    assert sorted(map(str, open_kinds)) == sorted(map(str, free + recursive))


def test_where_null_is_legal_it_stays_null_though_the_member_is_absent():
    """The one exception to the law, as the design tells it."""

    def tell(label: Optional[str] = "none given", size: int = 3, at: Point = Point(1)) -> str:
        return repr([label, size, at])

    spec = ToolSpec.from_function(tell)
    tool = formats.get("openai").export([spec.definition], strict=True)[0]["function"]
    sent = {"label": None, "size": None, "at": {"x": 1, "y": None, "label": None}}
    assert tool["strict"]
    assert obeys(tool["parameters"], sent)
    assert spec(**sent) == "[None, 3, Point(x=1, y=7, label=None)]"


# any schema, any function


SCHEMAS = st.recursive(
    st.sampled_from([
        {}, True, False, {"type": "string"}, {"type": "integer", "minimum": 0}, {"enum": ["a", 1, None]}, {"const": 3},
        {"type": ["string", "null"], "default": None}, {"$ref": "#/$defs/A"}, {"$ref": "#"}, {"type": "float"},
        {"type": "string", "format": "uri", "description": "Where."}, {"$ref": "#/$defs/Gone"},
    ]),
    lambda inner: st.one_of(
        st.builds(lambda a, b: {"type": "object", "properties": {"a": a, "b": b}, "required": ["a"]}, inner, inner),
        st.builds(lambda item: {"type": "array", "items": item}, inner),
        st.builds(lambda item: {"type": "object", "additionalProperties": item}, inner),
        st.builds(lambda key, parts: {key: parts}, st.sampled_from(["anyOf", "oneOf", "allOf", "prefixItems"]),
                  st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda key, part: {key: part, "title": "T"}, st.sampled_from(["not", "if", "then"]), inner),
    ),
    max_leaves=8,
)  # fmt: skip
ROOTS = st.builds(
    lambda members, definition, further: {
        **further, "type": "object", "properties": members, "$defs": {"A": definition},
    },
    st.dictionaries(st.sampled_from(["a", "b", "$ref", "c d"]), SCHEMAS, max_size=3),
    SCHEMAS,
    SCHEMAS.filter(lambda schema: isinstance(schema, dict)),
)  # fmt: skip


@unhurried
@given(schema=ROOTS)
def test_exports_of_any_schema_change_nothing_and_keep_the_rules(schema):
    before = copy.deepcopy(schema)
    definition = ToolDefinition(name="any", input_schema=schema)
    fingerprint = definition.fingerprint
    assert broken_everywhere(definition) == {}
    assert schema == before
    assert definition.input_schema == before
    assert ToolDefinition(name="any", input_schema=definition.input_schema).fingerprint == fingerprint


@unhurried
@given(tool=tools())
def test_exports_of_any_function_change_nothing(tool):
    definition = tool.spec.definition
    before = (definition.input_schema, definition.output_schema, definition.fingerprint)
    for name in formats.BUILT_IN:
        for strict in (False, True):
            formats.get(name).export([definition], strict=strict)
    assert (definition.input_schema, definition.output_schema, definition.fingerprint) == before
    assert tool.spec.definition == ToolSpec.from_function(tool.function).definition


# results


IDS = st.lists(st.from_regex(r"[a-zA-Z0-9]{9}", fullmatch=True), min_size=1, max_size=4, unique=True)


def reads_as(said: Any, value: Any) -> bool:
    """Tell whether what a model reads is the value: itself, as text, or as JSON text. Spaces alone may go unsaid."""
    if isinstance(value, str):
        return said == value or (not value.strip() and said == "")
    return said == value or (isinstance(said, str) and json.loads(said) == value)


@each_format
@unhurried
@given(ids=IDS, data=st.data())
def test_results_reach_their_calls_whole_and_in_order(name, ids, data):
    spoken, chosen = provider(name), formats.get(name)
    values = [data.draw(VALUES | TEXTS) for _ in ids]
    calls = chosen.calls(spoken.answer([(call_id, f"tool_{n}", "{}") for n, call_id in enumerate(ids)]))
    messages = chosen.results([(call, ToolResult(value)) for call, value in zip(calls, values, strict=True)])
    json.dumps(messages).encode()
    assert len(spoken.answered_ids(messages)) == len(ids)
    said = spoken.said(messages)
    assert [reads_as(one, value) for one, value in zip(said, values, strict=True)] == [True] * len(ids), (said, values)


@each_format
@unhurried
@given(ids=IDS, message=TEXTS.filter(str.strip))
def test_errors_reach_each_call_in_their_own_words(name, ids, message):
    spoken, chosen = provider(name), formats.get(name)
    calls = chosen.calls(spoken.answer([(call_id, "tool", "{}") for call_id in ids]))
    error = ToolResult(error=ErrorDetail(code="tool_error", message=message))
    messages = chosen.results([(call, error) for call in calls])
    assert len(spoken.answered_ids(messages)) == len(ids)
    told = [leaf for leaf in leaves(messages) if isinstance(leaf, str) and message in leaf]
    assert len(told) >= len(ids) or any(leaf.count(message) >= len(ids) for leaf in told)


@each_format
@unhurried
@given(ids=IDS)
def test_ids_come_back_as_they_were_given(name, ids):
    spoken, chosen = provider(name), formats.get(name)
    calls = chosen.calls(spoken.answer([(call_id, "tool", "{}") for call_id in ids]))
    answered = spoken.answered_ids(chosen.results([(call, ToolResult("done")) for call in calls]))
    if name in ANSWERED_BY_NAME:
        assert answered == ["tool"] * len(ids)
    else:
        assert [call.id for call in calls] == answered == ids
