"""Properties of every format, for random tools: exports change nothing, and arguments keep their meaning."""

from __future__ import annotations

import copy
import datetime as dt
import enum
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
from ahvn_tools.error_detail import ErrorDetail
from tests.formats.providers import provider
from tests.formats.test_contract import leaves, sample_formats
from tests.formats.test_rules import broken_rules

NULL_FOR_ABSENT = frozenset({"langchain", "mistral", "openai", "openai-responses"})
"""The formats whose strict exports require optional members, with null for an absent one."""

ANSWERED_BY_NAME = frozenset({"ollama", "prompt"})
"""The formats whose results carry no ids."""

no_deadline = settings(suppress_health_check=[HealthCheck.too_slow])


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
"""JSON values, with integers that every provider sends unchanged."""


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 7
    label: Optional[str] = "no label"


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
    """A value in two forms: as in a plain call, and as a model writes it for OpenAI's strict export."""

    plain: Any
    strict: Any


Answers = Callable[[int], st.SearchStrategy[Answer]]
"""Draws answers that nest so many levels deep at most."""


def same(values: st.SearchStrategy[Any]) -> Answers:
    """Return answers with the same value in every form."""
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
    """Whether null is legal: then null stays null, and cannot mean "absent"."""


def objects(members: dict[str, Member]) -> Answers:
    """Return answers for an object with these members; optional ones may be absent."""

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
    """A tool that returns its arguments, and the parameters that it was built from."""

    function: Callable[..., str]
    spec: ToolSpec
    parameters: dict[str, tuple[Kind, bool]]
    """By name: the kind, and whether the parameter has a default."""

    def direct(self, arguments: dict[str, Any]) -> Any:
        """Call the function itself with arguments converted by pydantic, without the code under test."""
        kinds = {name: kind for name, (kind, _) in self.parameters.items()}
        converted = {
            name: TypeAdapter(kinds[name].annotation).validate_python(value) for name, value in arguments.items()
        }
        return self.function(**converted)


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
    exec(f"def echo({', '.join(star + signature)}) -> str:\n    return repr([{body}])\n", names)
    return Tool(names["echo"], ToolSpec.from_function(names["echo"]), parameters)


@st.composite
def tools_and_answers(draw: Any) -> tuple[Tool, Answer]:
    tool = draw(tools())
    members = {
        name: Member(kind.answers, is_required=not has_default, takes_null=kind.takes_null)
        for name, (kind, has_default) in tool.parameters.items()
    }
    return tool, draw(objects(members)(3))


def is_strict(tool: dict[str, Any]) -> bool:
    """Return whether an exported tool is strict, in any format."""
    return any(part.get("strict") is True for part in (tool, tool.get("function", {}), tool.get("toolSpec", {})))


def obeys(schema: dict[str, Any], arguments: dict[str, Any]) -> bool:
    return jsonschema_rs.validator_for(schema, validate_formats=True).is_valid(arguments)


# the properties


@sample_formats
@no_deadline
@given(drawn=tools_and_answers())
def test_arguments_that_match_an_export_mean_the_same_as_in_a_direct_call(name, drawn):
    tool, answer = drawn
    expected = tool.direct(answer.plain)
    module, wire_format = formats.get(name), provider(name)
    for strict in (False, True):
        exported = module.export([tool.spec.definition], strict=strict)
        ((wire, schema),) = wire_format.exported(exported)
        wants_nulls = name in NULL_FOR_ABSENT and is_strict(exported[0])
        sent = answer.strict if wants_nulls else answer.plain
        assert obeys(schema, sent), name
        (call,) = module.calls(wire_format.response([("c1", wire, json.dumps(sent))]), [tool.spec.definition])
        result = tool.spec.exec(**call.arguments)
        assert (name, result.error, result.value) == (name, None, expected)


@pytest.mark.parametrize("name", ["openai", "openai-responses", "mistral", "anthropic", "bedrock"])
def test_the_tested_kinds_have_strict_exports(name):
    """The list of the others is here so that a kind that stops being strict is noticed."""
    open_kinds = []
    for kind in KINDS:

        def echo(value): ...

        echo.__annotations__["value"] = kind.annotation
        if not is_strict(formats.get(name).export([ToolSpec.from_function(echo).definition], strict=True)[0]):
            open_kinds.append(kind.annotation)
    recursive = [Node] if name in {"anthropic", "bedrock"} else []
    free = [dict[str, int], dict[str, Optional[Point]], Tagged, Union[Tagged, Extra], tuple[int, str], Any]
    assert sorted(map(str, open_kinds)) == sorted(map(str, free + recursive))


def test_null_stays_null_where_it_is_legal():
    """The one exception: such a null cannot mean that the member is absent."""

    def echo(label: Optional[str] = "no label", size: int = 3, at: Point = Point(1)) -> str:
        return repr([label, size, at])

    spec = ToolSpec.from_function(echo)
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


@sample_formats
@no_deadline
@given(schema=ROOTS)
def test_exports_of_any_schema_change_nothing_and_keep_the_rules(name, schema):
    before = copy.deepcopy(schema)
    definition = ToolDefinition(name="any", input_schema=schema)
    fingerprint = definition.fingerprint
    assert broken_rules(definition, name) == {}
    assert schema == before
    assert definition.input_schema == before
    assert ToolDefinition(name="any", input_schema=definition.input_schema).fingerprint == fingerprint


@sample_formats
@no_deadline
@given(tool=tools())
@pytest.mark.exhaustive
def test_exports_of_any_function_change_nothing(name, tool):
    definition = tool.spec.definition
    before = (definition.input_schema, definition.output_schema, definition.fingerprint)
    for strict in (False, True):
        formats.get(name).export([definition], strict=strict)
    assert (definition.input_schema, definition.output_schema, definition.fingerprint) == before
    assert tool.spec.definition == ToolSpec.from_function(tool.function).definition


# results


IDS = st.lists(st.from_regex(r"[a-zA-Z0-9]{9}", fullmatch=True), min_size=1, max_size=4, unique=True)


def reads_as(texts: Any, value: Any) -> bool:
    """Return whether a model reads the value: itself, as text, or as JSON text. A blank text may be omitted."""
    if isinstance(value, str):
        return texts == value or (not value.strip() and texts == "")
    return texts == value or (isinstance(texts, str) and json.loads(texts) == value)


@sample_formats
@no_deadline
@given(ids=IDS, data=st.data())
def test_complete_results_reach_their_calls_in_order(name, ids, data):
    wire_format, module = provider(name), formats.get(name)
    values = [data.draw(VALUES | TEXTS) for _ in ids]
    calls = module.calls(wire_format.response([(call_id, f"tool_{n}", "{}") for n, call_id in enumerate(ids)]))
    messages = module.results([(call, ToolResult(value)) for call, value in zip(calls, values, strict=True)])
    json.dumps(messages).encode()
    assert len(wire_format.result_ids(messages)) == len(ids)
    texts = wire_format.result_texts(messages)
    assert [reads_as(one, value) for one, value in zip(texts, values, strict=True)] == [True] * len(ids), (
        texts,
        values,
    )


@sample_formats
@no_deadline
@given(ids=IDS, message=TEXTS.filter(str.strip))
def test_error_messages_reach_each_call(name, ids, message):
    wire_format, module = provider(name), formats.get(name)
    calls = module.calls(wire_format.response([(call_id, "tool", "{}") for call_id in ids]))
    error = ToolResult(error=ErrorDetail(code="tool_error", message=message))
    messages = module.results([(call, error) for call in calls])
    assert len(wire_format.result_ids(messages)) == len(ids)
    error_texts = [leaf for leaf in leaves(messages) if isinstance(leaf, str) and message in leaf]
    assert len(error_texts) >= len(ids) or any(leaf.count(message) >= len(ids) for leaf in error_texts)


@sample_formats
@no_deadline
@given(ids=IDS)
def test_ids_are_sent_back_unchanged(name, ids):
    wire_format, module = provider(name), formats.get(name)
    calls = module.calls(wire_format.response([(call_id, "tool", "{}") for call_id in ids]))
    ids_sent_back = wire_format.result_ids(module.results([(call, ToolResult("done")) for call in calls]))
    if name in ANSWERED_BY_NAME:
        assert ids_sent_back == ["tool"] * len(ids)
    else:
        assert [call.id for call in calls] == ids_sent_back == ids
