"""Strict schemas: their form, what cannot be strict, and the meaning of nulls in an answer."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Optional, Union

import mcp_types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import NotRequired, TypedDict

from ahvn_tools import ToolSpec, tool
from ahvn_tools.errors import DefinitionError
from ahvn_tools.schema.dialects.description import EXACTLY_ONE
from ahvn_tools.schema.dialects.strict import (
    LARGE_ENUM_VALUES,
    MAX_CHARS,
    MAX_DEPTH,
    MAX_ENUM_VALUES,
    MAX_LARGE_ENUM_CHARS,
    MAX_PROPERTIES,
    to_strict,
)
from tests.formats.awkward_schemas import CASES
from tests.formats.rules import openai_responses


@dataclass
class Point:
    x: int
    y: int = 7


class Line(BaseModel):
    start: Point
    end: Optional[Point] = None
    color: str = Field(default="red", description="How it looks.")
    dashes: list[int] = [1, 2]


class Extra(TypedDict):
    note: str
    weight: NotRequired[float]


class Node(BaseModel):
    name: str = "n"
    children: list["Node"] = []


@tool
def draw(
    line: Line,
    width: int = 2,
    extra: Optional[Extra] = None,
    label: Optional[str] = "none",
    shape: Union[Point, Extra, int] = 5,
    mode: Literal["fast", "slow"] = "fast",
    root: Node = Node(),
    points: list[Point] = [],
) -> dict[str, Any]:
    """Draw a line."""
    return {
        "line": line, "width": width, "extra": extra, "label": label, "shape": shape, "mode": mode, "root": root,
        "points": points,
    }  # fmt: skip


def is_usable(schema: dict[str, Any]) -> bool:
    """Return whether a tool can have this schema."""
    try:
        ToolSpec.from_mcp(mcp_types.Tool(name="f", input_schema=schema))
    except DefinitionError:
        return False
    return True


def nodes(schema: Any) -> list[dict[str, Any]]:
    inside = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else []
    return [*([schema] if isinstance(schema, dict) else []), *(node for child in inside for node in nodes(child))]


def test_the_export_is_strict_and_has_openais_form():
    schema = draw.to_jsonschema()
    assert (schema["type"], schema["name"], schema["description"], schema["strict"]) == (
        "function",
        "draw",
        "Draw a line.",
        True,
    )
    assert draw.to_jsonschema(custom_field="value")["custom_field"] == "value"
    assert draw.to_jsonschema(name="other")["name"] == "other"


@pytest.mark.parametrize("case", [case for case, schema in CASES.items() if is_usable(schema)])
@pytest.mark.default_cases(60)
def test_a_strict_export_of_an_awkward_schema_keeps_openais_rules(case):
    exported = ToolSpec.from_mcp(mcp_types.Tool(name="f", input_schema=CASES[case])).to_jsonschema()
    assert not exported["strict"] or openai_responses.broken([exported], True) == []


def test_a_required_reference_with_a_default_has_no_siblings():
    """As generators of schemas write a parameter with a default that is an enum."""
    schema = {
        **of(color={"$ref": "#/$defs/Color", "default": "red"}),
        "$defs": {"Color": {"type": "string", "enum": ["red", "blue"]}},
    }

    @tool(input_schema=schema)
    def paint(color: str) -> None: ...

    exported = paint.to_jsonschema()
    assert openai_responses.broken([exported], True) == []
    assert exported["parameters"]["properties"]["color"] == {
        "description": 'Default: "red".',
        "anyOf": [{"$ref": "#/$defs/Color"}],
    }


def test_every_object_is_closed_and_requires_all_its_members():
    objects = [node for node in nodes(draw.to_jsonschema()["parameters"]) if "properties" in node]
    assert len(objects) == 5
    for node in objects:
        assert node["additionalProperties"] is False
        assert node["required"] == list(node["properties"])


def test_optional_members_are_nullable_and_required_ones_are_not():
    properties = draw.to_jsonschema()["parameters"]["properties"]
    assert properties["line"] == {"$ref": "#/$defs/Line"}
    assert properties["width"]["type"] == ["integer", "null"]
    assert {"type": "null"} in properties["mode"]["anyOf"]
    assert {"type": "null"} in properties["root"]["anyOf"]
    assert properties["label"]["anyOf"].count({"type": "null"}) == 1
    definitions = draw.to_jsonschema()["parameters"]["$defs"]
    assert definitions["Point"]["properties"]["x"] == {"type": "integer"}
    assert definitions["Point"]["properties"]["y"]["type"] == ["integer", "null"]


def test_the_description_states_a_dropped_default():
    schema = draw.to_jsonschema()["parameters"]
    assert [node for node in nodes(schema) if "default" in node] == []
    assert schema["properties"]["width"]["description"] == "Default: 2."
    assert schema["$defs"]["Line"]["properties"]["color"]["description"] == 'How it looks. Default: "red".'


def test_the_description_states_the_rules_that_the_provider_does_not_enforce():
    @tool
    def pick(
        tags: Annotated[list[str], Field(json_schema_extra={"uniqueItems": True})],
        path: Annotated[str, Field(json_schema_extra={"format": "uri"})] = "a",
        day: Annotated[str, Field(json_schema_extra={"format": "date"})] = "b",
    ) -> None: ...

    properties = pick.to_jsonschema()["parameters"]["properties"]
    assert properties["tags"]["description"] == "uniqueItems: true."
    assert "uniqueItems" not in properties["tags"]
    assert properties["path"]["description"] == 'format: "uri". Default: "a".'
    assert properties["day"]["format"] == "date"


def test_the_canonical_schema_is_never_changed():
    before = json.dumps(draw.input_schema)
    draw.to_jsonschema()["parameters"]["properties"].clear()
    plain = draw.to_jsonschema(strict=False)
    assert (plain["strict"], plain["parameters"]) == (False, draw.input_schema)
    assert json.dumps(draw.input_schema) == before


def test_a_bound_parameter_is_not_exported():
    spec = draw.clone().bind("line").bind("root")
    assert {"line", "root"}.isdisjoint(spec.to_jsonschema()["parameters"]["properties"])
    assert {"Line", "Node"}.isdisjoint(spec.to_jsonschema()["parameters"]["$defs"])


def test_a_tool_without_parameters_is_strict():
    schema = ToolSpec.from_function(lambda: None, name="f").to_jsonschema()
    assert schema["strict"] is True
    assert schema["parameters"] == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


def deep(levels: int) -> dict[str, Any]:
    node: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        node = {"type": "object", "properties": {"a": node}, "required": ["a"]}
    return node


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (of(a={}), "a: it accepts any value"),
        (of(a=True), "a: it accepts any value"),
        (of(a={"type": "array"}), "a[]: it accepts any value"),
        (of(a={"type": "object"}), "a: its members are not named"),
        (of(a={"type": "object", "properties": {}}), "a: its members are not named"),
        (of(a={"const": {"b": 1}}), "a: its values are objects or lists"),
        (of(a={"enum": [1, []]}), "a: its values are objects or lists"),
        ({**of(a={"type": "null"}), "required": ["a", "b"]}, "the schema: 'b' is required but has no schema"),
        (of(a={"type": "object", "additionalProperties": {"type": "integer"}}), "a: its members are not named"),
        (of(a={**of(b={"type": "integer"}), "additionalProperties": True}), "a: its members are not named"),
        (of(a={"type": "string", "not": {"const": "x"}}), "a: 'not' is not allowed"),
        (of(a={"type": "array", "prefixItems": [], "items": {"type": "null"}}), "a: 'prefixItems' is not allowed"),
        (of(a={"allOf": [{"type": "string"}, {"type": "null"}]}), "a: 'allOf' is not allowed"),
        (of(a={"$ref": "#/properties/b"}, b={"type": "null"}), "a: '#/properties/b' is not in '$defs'"),
        (
            {**of(a={"$ref": "#/$defs/A", "pattern": "a"}), "$defs": {"A": {"type": "string", "pattern": "b"}}},
            "a: its '$ref' has sibling keywords",
        ),
        (
            of(a={"allOf": [{"type": "string", "pattern": "a"}], "pattern": "b"}),
            "a: 'allOf' clashes with the keywords beside it",
        ),
        ({**of(a={"$ref": "#/$defs/A"}), "$defs": {"A": {}}}, "$defs.A: it accepts any value"),
        (of(a={"anyOf": [{"type": "string"}, {}]}), "a[1]: it accepts any value"),
        (deep(MAX_DEPTH + 1), "levels deep"),
        ({"type": "object", "anyOf": [of(a={"type": "null"})]}, "the schema: its root is a union"),
        (of(a={**of(b={"type": "null"}), "anyOf": [of(c={"type": "null"})]}), "a: it has both members and a union"),
        (of(a={"oneOf": [{"type": "null"}], "anyOf": [{"type": "null"}]}), "a: it has both 'anyOf' and 'oneOf'"),
        (
            {
                **of(a={"$ref": "#/$defs/A", "minItems": 1}),
                "$defs": {"A": {"type": "array", "items": {"$ref": "#/$defs/A", "maxItems": 1}}},
            },
            "levels deep",
        ),
        (of(**{f"a{i}": {"type": "null"} for i in range(MAX_PROPERTIES + 1)}), "more than 5,000 properties"),
        (of(a={"enum": list(range(MAX_ENUM_VALUES + 1))}), "more than 1,000 enum values"),
        (of(a={"const": "x" * (MAX_CHARS + 1)}), "more than 120,000 characters"),
        (
            of(a={"enum": [f"{i:0{MAX_LARGE_ENUM_CHARS // LARGE_ENUM_VALUES}}" for i in range(LARGE_ENUM_VALUES + 1)]}),
            "one enum has more than 15,000 characters",
        ),
    ],
    ids=lambda case: str(case)[:80],
)
def test_a_schema_that_cannot_be_strict_has_reasons_and_no_strict_form(schema, reason):
    strict, reasons = to_strict(schema)
    assert strict is None
    assert any(reason in str(finding) for finding in reasons), reasons


def test_a_tool_that_cannot_be_strict_is_exported_without_strict():
    @tool
    def put(values: dict[str, int], other: list = []) -> None: ...

    schema = put.to_jsonschema()
    assert schema["strict"] is False
    assert schema["parameters"] == put.input_schema


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (deep(MAX_DEPTH)["properties"]["a"], None),
        ({**of(a={"$ref": "#"}), "required": []}, {"anyOf": [{"$ref": "#"}, {"type": "null"}]}),
        (of(a={"allOf": [{"type": "string"}], "description": "D."}), {"type": "string", "description": "D."}),
        (of(a={"oneOf": [{"type": "string"}, {"type": "null"}]}), {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        (
            of(a={"oneOf": [{"type": "string"}, {"type": "string", "minLength": 1}]}),
            {"anyOf": [{"type": "string"}, {"type": "string", "minLength": 1}], "description": EXACTLY_ONE},
        ),
        (
            {**of(a={"$ref": "#/$defs/A", "minLength": 1}), "$defs": {"A": {"type": "string", "minLength": 2}}},
            {"type": "string", "minLength": 2},
        ),
        (of(a={"enum": [1, "x"]}), {"enum": [1, "x"], "type": ["integer", "string"]}),
        (
            {**of(a={"$ref": "#/$defs/A", "minLength": 1}), "$defs": {"A": {"type": "string"}}},
            {"type": "string", "minLength": 1},
        ),
        (
            of(a={"type": "string", "pattern": "(?=x)", "description": "D."}),
            {"type": "string", "description": 'D. pattern: "(?=x)".'},
        ),
        (
            of(a={"type": "string", "contentEncoding": "base64", "x-note": 1}),
            {"type": "string", "description": 'contentEncoding: "base64".'},
        ),
        (of(a={"const": 1}), {"const": 1, "type": "integer"}),
        (of(a={"type": ["string", "null"]}), {"type": ["string", "null"]}),
        (
            {**of(a={"$ref": "#/$defs/A", "description": "D."}), "$defs": {"A": {"type": "string"}}},
            {"description": "D.", "anyOf": [{"$ref": "#/$defs/A"}]},
        ),
        (
            {**of(a={"$ref": "#/$defs/A", "default": "red"}), "$defs": {"A": {"type": "string"}}},
            {"description": 'Default: "red".', "anyOf": [{"$ref": "#/$defs/A"}]},
        ),
        (
            {**of(a={"$ref": "#/$defs/A", "default": "red", "description": "Which"}), "$defs": {"A": {"const": "red"}}},
            {"description": 'Which. Default: "red".', "anyOf": [{"$ref": "#/$defs/A"}]},
        ),
        (
            {**of(a={"$ref": "#/$defs/A", "default": 1}), "required": [], "$defs": {"A": {"type": "integer"}}},
            {"description": "Default: 1.", "anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]},
        ),
        (
            {**of(a={"const": 1, "description": "D."}), "required": []},
            {"description": "D.", "anyOf": [{"const": 1, "type": "integer"}, {"type": "null"}]},
        ),
        ({**of(a={"enum": ["x", None]}), "required": []}, {"enum": ["x", None], "type": ["string", "null"]}),
        ({**of(a={"const": None}), "required": []}, {"const": None, "type": "null"}),
        (
            {**of(a={"type": "string", "enum": ["x", None]}), "required": []},
            {"anyOf": [{"type": "string", "enum": ["x", None]}, {"type": "null"}]},
        ),
        ({**of(a={"type": ["string", "null"]}), "required": []}, {"type": ["string", "null"]}),
    ],
    ids=str,
)
def test_the_strict_form_of_a_schema(schema, expected):
    strict, losses = to_strict(schema)
    assert strict is not None
    assert {finding.severity for finding in losses} <= {"note"}
    if expected is not None:
        assert strict["properties"]["a"] == expected


ABSENT = object()
POINTS = st.fixed_dictionaries({"x": st.integers(), "y": st.just(ABSENT) | st.integers()})
EXTRAS = st.fixed_dictionaries({"note": st.text(max_size=5), "weight": st.just(ABSENT) | st.integers(0, 9)})
LINES = st.fixed_dictionaries(
    {
        "start": POINTS,
        "end": st.just(ABSENT) | st.none() | POINTS,
        "color": st.just(ABSENT) | st.text(max_size=5),
        "dashes": st.just(ABSENT) | st.lists(st.integers(), max_size=3),
    }
)
TREES = st.deferred(
    lambda: st.fixed_dictionaries(
        {
            "name": st.just(ABSENT) | st.text(max_size=3),
            "children": st.just(ABSENT) | st.lists(TREES, max_size=2),
        }
    )
)
ANSWERS = st.fixed_dictionaries(
    {
        "line": LINES,
        "width": st.just(ABSENT) | st.integers(),
        "extra": st.just(ABSENT) | st.none() | EXTRAS,
        "label": st.text(max_size=5),
        "shape": st.just(ABSENT) | POINTS | EXTRAS | st.integers(),
        "mode": st.just(ABSENT) | st.sampled_from(["fast", "slow"]),
        "root": st.just(ABSENT) | TREES,
        "points": st.just(ABSENT) | st.lists(POINTS, max_size=3),
    }
)


def plain(value: Any) -> Any:
    """Omit absent members."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items() if item is not ABSENT}
    return [plain(item) for item in value] if isinstance(value, list) else value


def nulled(value: Any) -> Any:
    """Send absent members as null, as a model does for a strict schema."""
    if isinstance(value, dict):
        return {name: None if item is ABSENT else nulled(item) for name, item in value.items()}
    return [nulled(item) for item in value] if isinstance(value, list) else value


@given(ANSWERS)
@pytest.mark.exhaustive
def test_nulls_for_absent_members_mean_absent(answer):
    wanted = draw.exec(**plain(answer))
    assert wanted.error is None
    got = draw.exec(**nulled(answer))
    assert (got.error, got.value) == (None, wanted.value)


def test_a_null_that_the_schema_accepts_stays_null():
    assert draw(line={"start": {"x": 1}}, label=None)["label"] is None
    assert draw(line={"start": {"x": 1}})["label"] == "none"


def test_a_null_for_a_required_member_is_refused():
    refused = draw.exec(line={"start": {"x": None}})
    assert refused.error.code == "invalid_parameters"
    assert "'line.start.x' must not be null" in refused.error.message
    assert draw.exec(line=None).error.code == "invalid_parameters"


def test_nulls_mean_the_same_with_an_explicit_schema():
    @tool(input_schema=of(line=draw.input_schema["$defs"]["Point"]))
    def put(line: dict[str, Any]) -> dict[str, Any]:
        return line

    assert put.to_jsonschema()["strict"] is True
    assert put(line={"x": 1, "y": None}) == {"x": 1}
    assert put.exec(line={"x": None}).error.code == "invalid_parameters"


def test_a_null_is_replaced_by_the_default_of_a_factory():
    @dataclass
    class Bag:
        items: list[int] = field(default_factory=lambda: [1])

    @tool
    def count(bag: Bag, more: list[int] = Field(default_factory=lambda: [9])) -> list[int]:
        return bag.items + more

    assert count(bag={"items": None}, more=None) == count(bag={}) == [1, 9]
