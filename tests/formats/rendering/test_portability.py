"""Findings: what each format says of a tool before it is sent; they agree with what its export does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ahvn_tools import ToolDefinition, ToolSpec, formats
from ahvn_tools.formats import openai
from tests.formats.providers import provider

STRICT = ("anthropic", "bedrock", "mistral", "openai", "openai-responses")


def of(**properties: Any) -> ToolDefinition:
    return ToolDefinition(name="ship", input_schema={"type": "object", "properties": properties})


def problems(name: str, definition: ToolDefinition) -> list[tuple[str, str, str]]:
    return [(finding.severity, finding.place, finding.problem) for finding in formats.portability(definition)[name]]


def test_a_plain_tool_is_at_home_everywhere():
    def add(left: int, right: int) -> int:
        return left + right

    assert formats.portability(ToolSpec.from_function(add).definition) == {name: [] for name in formats.BUILT_IN}


@pytest.mark.parametrize("name", STRICT)
def test_what_cannot_be_strict_says_where_and_what_to_do(name):
    (finding,) = formats.portability(of(places={"type": "array", "items": {"type": "object"}}))[name]
    assert (finding.severity, finding.place) == ("note", "places[]")
    assert finding.problem == "its members are not named"
    assert finding.fix == "Name its members, or pass a list of entries with a key and a value."


@pytest.mark.parametrize("name", STRICT)
@pytest.mark.parametrize(
    "node",
    [{"type": "string"}, {}, {"type": "object"}, {"allOf": [{"type": "string"}, {"minLength": 1}]}, {"$ref": "#"},
     {"type": "array", "items": {"type": "string"}, "contains": {}}],
    ids=str,
)  # fmt: skip
def test_a_tool_is_strict_exactly_when_no_note_says_why_not(name, node):
    (tool,) = formats.get(name).export([of(a=node)], strict=True)
    flat = tool.get("function", tool.get("toolSpec", tool))
    notes = [problem for severity, _, problem in problems(name, of(a=node)) if severity == "note"]
    assert flat["strict"] is (notes == [])


def test_what_is_told_instead_of_enforced_is_a_warning_at_its_place():
    definition = of(a={"type": "string", "minLength": 1})
    assert problems("gemini", definition) == [("warning", "a", "'minLength' is not enforced")]
    assert problems("openai", definition) == []
    (_, schema), *_ = provider("gemini").exported(formats.get("gemini").export([definition]))
    assert schema["properties"]["a"]["description"] == "minLength: 1."


@pytest.mark.parametrize("name", ["anthropic", "bedrock"])
def test_what_a_strict_grammar_only_tells_is_a_warning_at_its_place(name):
    definition = of(a={"type": "integer", "minimum": 1, "default": 2}, b={"type": "array", "items": {"pattern": "x"}})
    assert problems(name, definition)[:1] == [("note", "b[]", "it may be anything")]
    definition = of(a={"type": "array", "items": {"type": "integer", "minimum": 1, "default": 2}})
    assert problems(name, definition) == [("warning", "a[]", "'minimum' is not enforced")]


@pytest.mark.parametrize(
    ("node", "problem"),
    [({"pattern": "(?=x)"}, "'pattern'"), ({"format": "uri"}, "'format'"), ({"contentEncoding": "hex"}, "'contentE")],
    ids=str,
)
def test_what_openai_only_tells_is_a_warning_though_the_tool_is_strict(node, problem):
    ((severity, place, told),) = problems("openai", of(a={"type": "string", **node}))
    assert (severity, place) == ("warning", "a")
    assert told.startswith(problem)


def test_what_a_tuple_loses_is_found_once():
    pair = {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}
    assert problems("openai", of(a=pair)) == [
        ("warning", "a", "'prefixItems' is not enforced"),
        ("note", "a", "'prefixItems' is not allowed"),
    ]
    assert problems("gemini", of(a=pair)) == problems("mcp", of(a=pair)) == []


def test_what_ollama_deletes_is_found_and_what_it_keeps_is_not():
    kept = of(a={"type": ["string", "null"], "default": None}, b={"enum": [1]}, c={"type": "array", "items": {}})
    assert problems("ollama", kept) == []
    lost = of(a={"type": "integer", "minimum": 1, "default": 2}, b={"type": "object", "properties": {"c": {}}})
    assert problems("ollama", lost) == [
        ("warning", "a", "'minimum' is not enforced"),
        ("warning", "b", "its form is told in words only"),
    ]


def test_slips_of_a_schema_are_found_for_every_format():
    definition = of(a={"type": "dict"}, b={"$ref": "other.json"})
    for name in formats.BUILT_IN:
        assert problems(name, definition)[:2] == [
            ("note", "a", "the type 'dict' is understood as 'object'"),
            ("error", "b", "its '$ref' leads nowhere"),
        ]


def test_a_rule_at_the_root_a_name_and_a_long_description_are_found():
    definition = ToolDefinition(
        name="parcels.ship",
        description="x" * 1_025,
        input_schema={"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}]},
    )
    found = problems("openai", definition)
    assert found[:3] == [
        ("note", "", "the model sees the name 'parcels_ship_650c0ead'"),
        ("warning", "", "the description has more than 1,024 characters"),
        ("warning", "", "a rule at its root is not enforced"),
    ]
    assert ("warning", "", "the description has more than 1,024 characters") not in problems("anthropic", definition)


def test_a_registered_format_may_have_findings_of_its_own(monkeypatch):
    four = {name: getattr(openai, name) for name in ("export", "calls", "results", "choice")}
    found = [formats.Finding(severity="error", place="a", problem="no", fix="Yes.")]
    monkeypatch.setattr(formats, "_registered", {})
    formats.register("silent", SimpleNamespace(**four))
    formats.register("talking", SimpleNamespace(**four, findings=lambda definition: found))
    told = formats.portability(of())
    assert told["talking"] == found
    assert "silent" not in told


def test_a_finding_reads_as_a_line():
    (finding,) = formats.portability(of(a={}))["openai"]
    assert str(finding) == "a: it may be anything"


def test_a_finding_is_told_once():
    parts = [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A", "title": "Again"}]
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"allOf": parts}}}
    found = formats.portability(ToolDefinition(name="f", input_schema=schema))["gemini"]
    assert len(found) == len(set(found))
    assert [str(finding) for finding in found] == ["$defs.A: it contains itself, or very much"]
