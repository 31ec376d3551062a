"""Screening accepts a tool with visible texts and at a limited cost, or refuses it with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from mcp_types import Tool

from ahvn_tools import invisible
from ahvn_tools.mcp.trust.changes import to_wire
from ahvn_tools.mcp.trust.limits import Budgets
from ahvn_tools.mcp.trust.screening import screen
from tests.clocks import cpu_limit
from tests.property_checks import EXAMPLES, run_examples
from tests.schema.test_limits import bomb

CORPUS = Path(__file__).resolve().parents[4] / "shared" / "corpora" / "github_mcp_tools.jsonl"
OBJECT = {"type": "object"}
INVISIBLE = "\u200b\u202e\U000e0041\x1b"


def tool(name="add", **fields):
    return {"name": name, "inputSchema": OBJECT, **fields}


def refusal(wire, budgets=None):
    """Return why the one tool was refused."""
    screened = screen([wire], budgets)
    assert screened.tools == []
    (reason,) = screened.refused.values()
    return reason


def texts(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from texts(item)


COMPLETE = {
    "name": "look up/all",
    "title": "Look up",
    "description": "Looks up.\r\n\tAll of it. ⚠️",
    "inputSchema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"from": {"$ref": "#/$defs/day"}, "to": {"anyOf": [{"$ref": "#day"}, {"type": "null"}]}},
        "required": ["from"],
        "if": {"required": ["to"]},
        "then": {"minProperties": 2},
        "additionalProperties": False,
        "$defs": {"day": {"$anchor": "day", "type": "string", "format": "date", "examples": ["2026-01-01"]}},
    },
    "outputSchema": {"type": "object", "properties": {"n": {"type": ["integer", "null"]}}},
    "annotations": {"readOnlyHint": True, "title": "Look"},
    "icons": [{"src": "https://example.com/i.png"}],
    "_meta": {"fastmcp": {"tags": ["x"]}},
}


def test_a_parsed_tool_is_accepted():
    tool = Tool.model_validate(COMPLETE)
    screened = screen([tool])
    assert screened.tools == [tool]


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not available")
def test_the_tools_of_a_large_real_server_are_accepted_unchanged():
    wires = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    screened = screen(wires)
    assert screened.refused == {}
    assert [to_wire(parsed) for parsed in screened.tools] == wires


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("x" * 129, "129 characters"),
        ("a\u200bb", r"\u200b"),
        ("a\nb", r"\n"),
        ("a\u202eb", r"\u202e"),
        ("a\x1b[31mb", r"\x1b"),
        ("\U000e0041", r"\U000e0041"),
        ("a\u00a0b", r"\xa0"),
        ("\ud800", r"\ud800"),
        (None, "no name"),
        (7, "no name"),
    ],
    ids=repr,
)
def test_an_unreadable_name_is_refused(name, reason):
    assert reason in refusal(tool(name))


@pytest.mark.parametrize("name", ["a b", "../x", "a/b.c:d", "__class__", "größe", "大小", "x" * 128, " a"])
def test_a_readable_name_is_accepted(name):
    assert [parsed.name for parsed in screen([tool(name)]).tools] == [name]


def test_a_refused_tool_is_listed_under_an_escaped_name():
    screened = screen([tool("a\u200bb"), tool("a\u200bb"), tool("y" * 1000), tool(None), {}])
    assert list(screened.refused)[:2] == [r"a\u200bb", r"a\u200bb (2)"]
    assert all(len(name) < 200 for name in screened.refused)
    assert list(screened.refused)[3:] == ["(no name)", "(no name) (2)"]


def test_a_second_tool_of_a_name_never_replaces_the_first():
    first, second = tool(description="first"), tool(description="second")
    screened = screen([first, second, tool("add (2)"), second])
    assert [parsed.description for parsed in screened.tools] == ["first", None]
    assert list(screened.refused) == ["add (2)", "add (3)"]
    assert all("has this name" in reason for reason in screened.refused.values())


def test_every_refused_tool_is_listed_under_a_different_name():
    bad = [tool(name, inputSchema=None) for name in ("x (2)", "x", "x", "x", "x (2)")]
    assert list(screen(bad).refused) == ["x (2)", "x", "x (3)", "x (4)", "x (2) (2)"]


def test_a_second_tool_of_a_name_is_refused_even_if_the_first_was():
    screened = screen([tool(inputSchema=None), tool()])
    assert screened.tools == []
    assert list(screened.refused) == ["add", "add (2)"]


def test_names_that_look_the_same_are_the_same():
    assert list(screen([tool("read"), tool("\uff52ead"), tool("cafe\u0301"), tool("café")]).refused) == [
        "\uff52ead",
        "café",
    ]


@pytest.mark.parametrize(
    "wire",
    [
        tool(description=INVISIBLE),
        tool(title=INVISIBLE),
        tool(annotations={"title": INVISIBLE}),
        tool(inputSchema={"type": "object", "description": INVISIBLE}),
        tool(inputSchema={"type": "object", "properties": {"a": {"properties": {"b": {"description": INVISIBLE}}}}}),
        tool(inputSchema={"type": "object", "properties": {"a": {"title": INVISIBLE}}}),
        tool(inputSchema={"type": "object", "properties": {"a": {"enum": [["x"], [INVISIBLE]]}}}),
        tool(inputSchema={"type": "object", "properties": {"a": {"default": {"b": INVISIBLE}}}}),
        tool(inputSchema={"type": "object", "properties": {"a": {"examples": [INVISIBLE]}}}),
        tool(outputSchema={"type": "object", "description": INVISIBLE}),
        tool(_meta={"x": {"y": INVISIBLE}}),
        tool(icons=[{"src": INVISIBLE}]),
    ],
    ids=lambda wire: next(json.dumps(wire[key])[:60] for key in reversed(wire)),
)
def test_invisible_characters_are_escaped(wire):
    (parsed,) = screen([wire]).tools
    assert not any(invisible.find(text) for text in texts(to_wire(parsed)))
    assert any(r"\u200b\u202e\U000e0041\x1b" in text for text in texts(to_wire(parsed)))


@pytest.mark.parametrize("part", ["inputSchema", "outputSchema"])
@pytest.mark.parametrize("values", [{"enum": ["a", "b\u200b"]}, {"const": "b\u200b"}, {"anyOf": [{"const": "\u200b"}]}])
def test_an_allowed_value_with_invisible_characters_is_refused_because_no_other_one_is_accepted(part, values):
    schema = {"type": "object", "properties": {"kind": values}}
    assert refusal(tool(**{part: schema})) == r"an allowed value has invisible characters: \u200b"
    named = {"type": "object", "properties": {"enum": {"description": "One.\u200b"}, "const": {}}}
    assert len(screen([tool(**{part: named})]).tools) == 1


@pytest.mark.parametrize("part", ["inputSchema", "outputSchema", "_meta"])
def test_a_member_name_with_invisible_characters_is_refused(part):
    schema = {"type": "object", "properties": {"pass\u200bword": {}}}
    assert r"invisible characters: \u200b" in refusal(tool(**{part: schema}))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"inputSchema": None}, "does not describe an object"),
        ({"inputSchema": []}, "does not describe an object"),
        ({"inputSchema": {"type": "string"}}, "does not describe an object"),
        ({"inputSchema": {"type": ["object", "null"]}}, "does not describe an object"),
        ({"inputSchema": {"properties": []}}, "must describe an object"),
        ({"inputSchema": {"properties": {"a": {"type": "strin"}}}}, "Not a usable JSON Schema"),
        ({"inputSchema": {"properties": {"a": {"pattern": "("}}}}, "Not a usable JSON Schema"),
        ({"inputSchema": {"required": "a"}}, "Not a usable JSON Schema"),
        ({"inputSchema": {"$schema": "http://127.0.0.1:9/own"}}, "Not a usable JSON Schema"),
        ({"inputSchema": {"properties": {"a": {"default": float("nan")}}}}, "NaN"),
        ({"outputSchema": []}, "output schema is not an object"),
        ({"outputSchema": {"type": "array", "items": {"type": "strin"}}}, "Not a usable JSON Schema"),
        ({"outputSchema": {"type": "object", "required": 1}}, "Not a usable JSON Schema"),
        ({"outputSchema": {"type": "object", "allOf": [{"$ref": "http://127.0.0.1:9/x"}]}}, "nothing is fetched"),
        ({"description": 5}, "malformed: description"),
        ({"annotations": {"readOnlyHint": "perhaps"}}, "malformed: annotations.readOnlyHint"),
        ({"icons": [{}]}, "malformed: icons.0.src"),
        ({"_meta": 1}, "malformed: _meta"),
    ],
    ids=lambda value: json.dumps(value)[:60] if isinstance(value, dict) else None,
)
def test_a_malformed_tool_is_refused_with_the_reason(fields, reason):
    assert reason in refusal(tool(**fields))


def test_a_missing_input_schema_is_refused():
    assert "does not describe an object" in refusal({"name": "add"})


@pytest.mark.parametrize("not_a_tool", [None, 5, "add", [], object(), {}])
def test_a_value_that_is_not_a_tool_is_refused(not_a_tool):
    assert refusal(not_a_tool) == "it has no name"


HEADER = "x-mcp-header"
STRING = {"type": "string"}


@pytest.mark.parametrize(
    "properties",
    [
        {"a": {**STRING, HEADER: ""}},
        {"a": {**STRING, HEADER: "My Region"}},
        {"a": {**STRING, HEADER: "Region:x"}},
        {"a": {**STRING, HEADER: "Région"}},
        {"a": {**STRING, HEADER: "Region\r\nX: y"}},
        {"a": {**STRING, HEADER: 7}},
        {"a": {"type": "object", HEADER: "A"}},
        {"a": {"type": "array", HEADER: "A"}},
        {"a": {"type": "number", HEADER: "A"}},
        {"a": {"type": "null", HEADER: "A"}},
        {"a": {**STRING, HEADER: "A"}, "b": {**STRING, HEADER: "A"}},
        {"a": {**STRING, HEADER: "A"}, "b": {**STRING, HEADER: "a"}},
        {"a": {"type": "array", "items": {**STRING, HEADER: "A"}}},
        {"a": {"anyOf": [{**STRING, HEADER: "A"}]}},
    ],
    ids=json.dumps,
)
def test_an_invalid_header_annotation_refuses_that_tool_only(properties):
    screened = screen([tool("bad", inputSchema={"type": "object", "properties": properties}), tool("good")])
    assert [parsed.name for parsed in screened.tools] == ["good"]
    assert HEADER in screened.refused["bad"]


def test_regular_expressions_that_repeat_much_are_refused():
    members = {f"p{i}": {"type": "string", "pattern": "((a{1,100}){1,100}){1,9}"} for i in range(3)}
    schema = {"type": "object", "properties": members}
    assert refusal(tool(inputSchema=schema)) == "its regular expressions repeat too much"
    assert refusal(tool(outputSchema=schema)) == "its regular expressions repeat too much"


def test_a_valid_header_annotation_is_accepted():
    schema = {"type": "object", "properties": {"region": {**STRING, HEADER: "Region"}}}
    assert screen([tool(inputSchema=schema)]).tools[0].input_schema == schema


def nested(levels):
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"description": "x" * 10_000_000}, "262144 bytes"),
        ({"inputSchema": {"type": "object", **bomb(30)}}, "20000 schemas"),
        ({"outputSchema": {"type": "object", **bomb(30, "oneOf")}}, "20000 schemas"),
        ({"inputSchema": nested(120)}, "64 levels"),
        ({"inputSchema": nested(100_000)}, "64 levels"),
        ({"inputSchema": {"type": "object", "properties": {str(i): {} for i in range(2001)}}}, "2000 properties"),
        (
            {"inputSchema": {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}},
            "nothing is fetched",
        ),
        ({"inputSchema": {"type": "object", "$defs": {"a": {"$ref": "http://127.0.0.1:9/"}}}}, "nothing is fetched"),
        ({"inputSchema": {"type": "object", "allOf": [{"$ref": "#"}]}}, "without going deeper"),
    ],
    ids=["text", "inputs", "outputs", "deep", "deeper", "wide", "file", "network", "circle"],
)
def test_a_tool_that_costs_too_much_is_refused_quickly(fields, reason):
    wire = tool(**fields)
    with cpu_limit():
        assert reason in refusal(wire)


def test_the_number_of_tools_has_a_budget():
    screened = screen((tool(str(i)) for i in range(12)), Budgets(tools=10))
    assert [parsed.name for parsed in screened.tools] == [str(i) for i in range(10)]
    assert screened.refused == dict.fromkeys(("10", "11"), "the server has more than 10 tools")


def test_all_tools_together_have_a_budget():
    wires = [tool(str(i), description="x" * 1000) for i in range(10)]
    screened = screen(wires, Budgets(total_bytes=5000))
    assert 3 <= len(screened.tools) <= 4
    assert set(screened.refused.values()) == {"the server's tools together have more than 5000 bytes"}


def test_a_reason_is_short_and_escaped():
    reason = refusal(
        tool(inputSchema={"type": "object", "properties": {"a": {"$ref": "http://x/\u202e" + "y" * 5000}}})
    )
    assert len(reason) < 400
    assert invisible.find(reason) == []
    assert r"\u202e" in reason


CHARACTERS = st.one_of(st.characters(), st.sampled_from([*INVISIBLE, "\r", "\ufe0f", "\ud800", "a", "#", "/"]))
TEXTS = st.text(CHARACTERS, max_size=8)
WORDS = st.sampled_from([
    "type", "properties", "required", "items", "anyOf", "allOf", "$ref", "$defs", "enum", "const", "default", "title",
    "description", "$id", "$schema", "$anchor", "pattern", "format", "additionalProperties", "not", "if", "minimum",
    "a", "b", "prefixItems", "dependentSchemas", "$dynamicRef", "contentSchema", "minLength", HEADER,
])  # fmt: skip
VALUES = st.sampled_from(
    ["object", "string", "array", "#", "#/$defs/a", "#/properties/a", "#a", "http://127.0.0.1:9/x"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | TEXTS, inner, max_size=4),
    max_leaves=20,
)
SCHEMAS = st.recursive(
    st.just({}) | st.fixed_dictionaries({"type": VALUES}) | st.fixed_dictionaries({"enum": st.lists(TEXTS)}),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.just("object"),
            "properties": st.dictionaries(TEXTS | WORDS, inner, max_size=3),
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "$ref": VALUES,
            "$defs": st.dictionaries(WORDS, inner, max_size=2),
            "description": TEXTS,
            "default": JSON,
            HEADER: TEXTS,
        },
    ),
    max_leaves=10,
)
TOOLS = st.fixed_dictionaries(
    {"name": TEXTS, "inputSchema": SCHEMAS.map(lambda schema: {**schema, "type": "object"})},
    optional={
        "title": TEXTS,
        "description": TEXTS,
        "outputSchema": SCHEMAS.map(lambda schema: {**schema, "type": "object"}),
        "annotations": st.fixed_dictionaries({}, optional={"title": TEXTS, "readOnlyHint": st.booleans()}),
        "_meta": st.dictionaries(TEXTS, JSON, max_size=2),
    },
)
ANYTHING = st.dictionaries(st.sampled_from([*COMPLETE]) | TEXTS, JSON, max_size=5) | JSON


@EXAMPLES
def test_screening_never_raises_and_accepts_no_invisible_characters(max_examples):
    def check(wires):
        screened = screen(wires)
        assert len(screened.tools) + len(screened.refused) == len(wires)
        for parsed in screened.tools:
            assert not any(invisible.find(text) for text in texts(to_wire(parsed)))
        assert not any(invisible.find(text) for text in texts(screened.refused))

    run_examples(max_examples, check, st.lists(TOOLS | ANYTHING, max_size=4))


@EXAMPLES
def test_an_accepted_tool_is_accepted_again_unchanged(max_examples):
    def check(wire):
        tools = screen([wire]).tools
        assert screen(tools).tools == tools

    run_examples(max_examples, check, TOOLS)


@EXAMPLES
def test_a_tool_without_invisible_characters_is_accepted_unchanged(max_examples):
    def check(wire):
        if any(map(invisible.find, texts(wire))):
            return
        for parsed in screen([wire]).tools:
            assert to_wire(parsed) == wire

    run_examples(max_examples, check, TOOLS)


def test_a_refused_name_is_escaped_to_one_line():
    screened = screen([{"name": "a\nb\tc", "inputSchema": {"type": "object"}}])
    assert list(screened.refused) == ["a\\nb\\tc"]
