"""Exports obey each provider's rules: every tool of the corpora, and every awkward schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ahvn_tools import ToolDefinition, formats
from tests.formats.awkward_schemas import CASES
from tests.formats.rules import linter
from tests.formats.test_contract import CORPORA

WITHOUT_STRICTNESS = ("gemini", "mcp", "ollama", "prompt")
FORMS: list[tuple[str, dict[str, Any]]] = [
    *((name, {"strict": False}) for name in formats.BUILT_IN),
    *((name, {"strict": True}) for name in formats.BUILT_IN if name not in WITHOUT_STRICTNESS),
    ("gemini", {"form": "parameters"}),
]
MAX_EXPORT_CHARS = 200_000
"""The limit for an export of one awkward tool."""

IDS = [f"{name}-{options}" for name, options in FORMS]

each_form = pytest.mark.parametrize(("name", "options"), FORMS, ids=IDS)

openai_or_exhaustive = pytest.mark.parametrize(
    ("name", "options"),
    [form if form[0] == "openai" else pytest.param(*form, marks=pytest.mark.exhaustive) for form in FORMS],
    ids=IDS,
)
"""OpenAI's forms by default, all of them with `-m exhaustive`: for the recorded definitions, thousands of them."""


def problems(name: str, options: dict[str, Any], definitions: list[ToolDefinition]) -> list[str]:
    """Return the rules that an export breaks."""
    return linter(name)(formats.get(name).export(definitions, **options), options.get("strict", False))


def broken_rules(definition: ToolDefinition, *names: str) -> dict[str, list[str]]:
    """Return the rules that the exports of one tool break, by format and options; for all formats without `names`."""
    found: dict[str, list[str]] = {}
    for name, options in FORMS:
        if names and name not in names:
            continue
        broken = problems(name, options, [definition])
        size = len(json.dumps(formats.get(name).export([definition], **options)))
        broken += [f"it has {size} characters"] if size > MAX_EXPORT_CHARS else []
        if broken:
            found[f"{name} {options}"] = broken
    return found


@pytest.mark.parametrize("case", CASES)
@pytest.mark.exhaustive
def test_an_awkward_schema_is_exported_everywhere_by_the_rules(case):
    assert broken_rules(ToolDefinition(name="awkward", description="It is.", input_schema=CASES[case])) == {}


@each_form
@pytest.mark.parametrize("wire", ["a.b", "", "天气", "x" * 200, "2fast", "a b\n"])
def test_a_tool_of_any_name_and_without_a_description_is_exported_by_the_rules(name, options, wire):
    assert problems(name, options, [ToolDefinition(name=wire)]) == []


def rows(file: str) -> list[dict[str, Any]]:
    path = CORPORA / file
    if not path.exists():
        pytest.skip(f"no recorded data at {path}")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def functions() -> list[ToolDefinition]:
    """Every BFCL function."""
    return [
        ToolDefinition(name=row["name"], description=row["description"], input_schema=row["parameters"])
        for row in rows("bfcl_functions.jsonl")
    ]


@pytest.fixture(scope="module")
def served() -> list[ToolDefinition]:
    """Every tool of the GitHub MCP server."""
    return [
        ToolDefinition(
            name=row["name"],
            title=row.get("title"),
            description=row["description"],
            input_schema=row["inputSchema"],
            annotations=row.get("annotations"),
        )
        for row in rows("github_mcp_tools.jsonl")
    ]


def all_broken(name: str, options: dict[str, Any], definitions: list[ToolDefinition]) -> dict[str, list[str]]:
    """Return what the export of all together breaks, and each tool's own, by tool.

    A tool that is exported alone as it is among all others is not looked at twice, unless there is something to name.
    """
    export = formats.get(name).export
    distinct = {definition.name: definition for definition in definitions}
    together = dict(zip(distinct, export(distinct.values(), **options), strict=False))  # `prompt` makes one text
    found = {"all in one": problems(name, options, list(distinct.values()))}
    for definition in definitions:
        if found["all in one"] or export([definition], **options) != [together.get(definition.name)]:
            found[definition.name] = problems(name, options, [definition])
    return {tool: broken for tool, broken in found.items() if broken}


@openai_or_exhaustive
@pytest.mark.exhaustive
def test_every_function_of_the_leaderboard_is_exported_by_the_rules(name, options, functions):
    assert all_broken(name, options, functions) == {}


@each_form
@pytest.mark.default_cases(6)
def test_every_tool_of_a_real_server_is_exported_by_the_rules(name, options, served):
    assert all_broken(name, options, served) == {}


@pytest.mark.parametrize("name", WITHOUT_STRICTNESS)
@pytest.mark.default_cases(2)
def test_strict_has_no_effect_without_strict_tools(name):
    definitions = [ToolDefinition(name=f"f{index}", input_schema=schema) for index, schema in enumerate(CASES.values())]
    assert formats.get(name).export(definitions, strict=True) == formats.get(name).export(definitions)
