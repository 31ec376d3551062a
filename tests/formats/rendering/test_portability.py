"""Findings about a tool in each format; they agree with what the export does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ahvn_tools import ToolDefinition, ToolSpec, formats
from ahvn_tools.lint import verdicts
from ahvn_tools.schema.dialects.finding import NOT_STRICT
from tests.formats.awkward_schemas import CASES
from tests.formats.providers import provider

STRICT = ("anthropic", "bedrock", "mistral", "openai", "openai-responses")


def of(**properties: Any) -> ToolDefinition:
    return ToolDefinition(name="ship", input_schema={"type": "object", "properties": properties})


def problems(name: str, definition: ToolDefinition) -> list[tuple[str, str, str]]:
    return [(finding.severity, finding.place, finding.problem) for finding in formats.portability(definition)[name]]


def test_a_plain_tool_has_no_findings():
    def add(left: int, right: int) -> int:
        return left + right

    assert formats.portability(ToolSpec.from_function(add).definition) == {name: [] for name in formats.BUILT_IN}


@pytest.mark.parametrize("name", STRICT)
def test_a_schema_that_cannot_be_strict_has_a_finding_with_path_and_fix(name):
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
def test_a_tool_is_strict_unless_a_note_explains_why_not(name, node):
    (tool,) = formats.get(name).export([of(a=node)], strict=True)
    flat = tool.get("function", tool.get("toolSpec", tool))
    notes = [problem for severity, _, problem in problems(name, of(a=node)) if severity == "note"]
    assert flat["strict"] is (notes == [])


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        ("many optional members", "it has more than 24 optional parameters"),
        ("many unions", "it has more than 16 unions"),
    ],
)
def test_a_tool_that_alone_exceeds_a_limit_of_anthropic_is_not_strict_and_has_a_finding(case, problem):
    definition = ToolDefinition(name="f", input_schema=CASES[case])
    assert formats.get("anthropic").export([definition], strict=True)[0]["strict"] is False
    assert problems("anthropic", definition) == [("note", "", problem)]
    members = dict(list(CASES[case]["properties"].items())[1:])
    schema = {"type": "object", "properties": members, "required": CASES[case].get("required", [])[1:]}
    fitting = ToolDefinition(name="f", input_schema=schema)
    assert formats.get("anthropic").export([fitting], strict=True)[0]["strict"] is True
    assert problems("anthropic", fitting) == []


def is_strict(name: str, definition: ToolDefinition) -> bool:
    (tool,) = formats.get(name).export([definition], strict=True)
    return bool(tool.get("function", tool.get("toolSpec", tool))["strict"])


@pytest.mark.parametrize("name", [*STRICT, "langchain"])
@pytest.mark.parametrize(
    "case",
    [
        case
        if case in {"anyOf of requirements", "not at the root", "a reference bomb", "many unions"}
        else pytest.param(case, marks=pytest.mark.exhaustive)
        for case in CASES
    ],
)
def test_a_finding_and_the_verdict_say_whether_a_tool_can_be_strict(name, case):
    definition = ToolDefinition(name="f", input_schema=CASES[case])
    reasons = [finding for finding in formats.portability(definition)[name] if finding.rule == NOT_STRICT]
    assert is_strict(name, definition) is (reasons == [])
    verdict = verdicts(definition, [name])[name]
    assert verdict == "refused" or (verdict == "not strict") is (reasons != [])


def test_an_unenforced_rule_is_a_note_at_its_path():
    definition = of(a={"type": "string", "minLength": 1})
    assert problems("gemini", definition) == [("note", "a", "'minLength' is not enforced")]
    assert problems("openai", definition) == []
    (_, schema), *_ = provider("gemini").exported(formats.get("gemini").export([definition]))
    assert schema["properties"]["a"]["description"] == "minLength: 1."


@pytest.mark.parametrize("name", ["anthropic", "bedrock"])
def test_a_rule_that_a_strict_grammar_ignores_is_a_note_at_its_path(name):
    definition = of(a={"type": "integer", "minimum": 1, "default": 2}, b={"type": "array", "items": {"pattern": "x"}})
    assert problems(name, definition)[:1] == [("note", "b[]", "it accepts any value")]
    definition = of(a={"type": "array", "items": {"type": "integer", "minimum": 1, "default": 2}})
    assert problems(name, definition) == [("note", "a[]", "'minimum' is not enforced")]


@pytest.mark.parametrize(
    ("node", "problem"),
    [({"pattern": "(?=x)"}, "'pattern'"), ({"format": "uri"}, "'format'"), ({"contentEncoding": "hex"}, "'contentE")],
    ids=str,
)
def test_a_rule_that_openai_ignores_is_a_note_though_the_tool_is_strict(node, problem):
    ((severity, place, result),) = problems("openai", of(a={"type": "string", **node}))
    assert (severity, place) == ("note", "a")
    assert result.startswith(problem)


def test_the_losses_of_a_tuple_are_found_once():
    pair = {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "maxItems": 2}
    assert problems("openai", of(a=pair)) == [
        ("note", "a", "'prefixItems' is not enforced"),
        ("note", "a", "'prefixItems' is not allowed"),
    ]
    assert problems("gemini", of(a=pair)) == [("note", "a", "'prefixItems' is not enforced in form='parameters'")]
    assert problems("mcp", of(a=pair)) == []


def test_only_what_ollama_deletes_is_found():
    unchanged = of(a={"type": ["string", "null"], "default": None}, b={"enum": [1]}, c={"type": "array", "items": {}})
    assert problems("ollama", unchanged) == []
    reduced = of(a={"type": "integer", "minimum": 1, "default": 2}, b={"type": "object", "properties": {"c": {}}})
    assert problems("ollama", reduced) == [
        ("note", "a", "'minimum' is not enforced"),
        ("warning", "b", "its structure is only described in words"),
    ]


def test_mistakes_in_a_schema_are_found_for_every_format():
    definition = of(a={"type": "dict"}, b={"$ref": "other.json"})
    for name in formats.BUILT_IN:
        assert problems(name, definition)[:2] == [
            ("note", "a", "the type 'dict' is read as 'object'"),
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


@pytest.mark.parametrize("name", ["anthropic", "bedrock"])
def test_a_name_of_an_argument_that_claude_refuses_is_an_error(name):
    """Claude refuses the whole request; it does not check the names of members further inside."""
    places = {"page size": {}, "größe": {}, "x" * 65: {}, "a.b-c_1": {}, "x" * 64: {}}
    inside = {"type": "object", "properties": {"page size": {"type": "string"}}, "additionalProperties": False}
    found = formats.portability(of(**{key: {"type": "string"} for key in places}, inside=inside))
    refused = [finding for finding in found[name] if finding.severity == "error"]
    assert [finding.place for finding in refused] == ["page size", "größe", "x" * 65]
    assert "arguments={'page size': {'name': 'page_size'}}" in refused[0].fix
    assert not [finding for finding in found["openai"] if finding.severity == "error"]


def test_a_registered_format_can_have_findings(monkeypatch):
    four = {name: getattr(formats.get("openai"), name) for name in ("export", "calls", "results", "choice")}
    found = [formats.Finding(severity="error", place="a", problem="no", fix="Yes.")]
    monkeypatch.setattr(formats, "_registered", {})
    formats.register("without findings", SimpleNamespace(**four))
    formats.register("with findings", SimpleNamespace(**four, findings=lambda definition: found))
    result = formats.portability(of())
    assert result["with findings"] == found
    assert "without findings" not in result


def test_a_finding_reads_as_a_line():
    (finding,) = formats.portability(of(a={}))["openai"]
    assert str(finding) == "a: it accepts any value"


def test_a_finding_is_reported_once():
    parts = [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A", "title": "Again"}]
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"allOf": parts}}}
    found = formats.portability(ToolDefinition(name="f", input_schema=schema))["gemini"]
    assert len(found) == len(set(found))
    assert [str(finding) for finding in found] == [
        "$defs.A: it is recursive, or too large to repeat",
        "a: it is recursive, or too large to repeat in form='parameters'",
        "a: it may be anything, but null and lists of lists or of null are not accepted in form='parameters'",
    ]
