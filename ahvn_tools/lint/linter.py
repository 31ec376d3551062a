"""The linter: all findings about the definitions of tools, in a stable order."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

from ahvn_tools import invisible
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.formats.rendering.names import wire_name
from ahvn_tools.json_types import JsonObject
from ahvn_tools.lint import names, phrases, providers
from ahvn_tools.lint.rules import RULES, require_rules
from ahvn_tools.lint.texts import iter_texts
from ahvn_tools.schema.dialects.finding import Finding

MAX_QUOTED_CHARS: Final = 80
"""How much of a text a finding quotes."""

_SECRETS: Final = frozenset(
    f"{word}{ending}"
    for word in ("apikey", "accesskey", "accesstoken", "authtoken", "clientsecret", "password", "passwd", "privatekey",
                 "secretkey", "secret", "credentials")
    for ending in ("", "s")
)  # fmt: skip
"""Names of parameters that ask for a secret, without case and separators."""

_ESCAPES: Final = re.compile(r"\\[uU]([0-9a-fA-F]{8}|[0-9a-fA-F]{4})")
"""An invisible character in the text of a server's tool: the client has escaped it."""


def lint(
    definitions: Iterable[ToolDefinition], *, formats: Iterable[str] | None = None, ignore: Iterable[str] = ()
) -> list[Finding]:
    """Return what is wrong with tools: by tool in their order, then what is about several.

    `formats` are those that the tools are for; without it, all. The rules in `ignore` are left out. Raises
    ToolSpecError for an unknown rule and ToolLookupError for an unknown format.

    >>> from ahvn_tools import ToolDefinition
    >>> [finding.rule for finding in lint([ToolDefinition(name="add")])]
    ['missing-description']
    """
    ignored, tools = require_rules(ignore), list(definitions)
    wanted = None if formats is None else list(dict.fromkeys(formats))
    found = [finding for tool in tools for finding in lint_tool(tool, providers.find_by_format(tool, wanted))]
    return [finding for finding in (*found, *_find_similar_tools(tools)) if finding.rule not in ignored]


def lint_tool(tool: ToolDefinition, found: providers.Findings) -> list[Finding]:
    """Return the findings about one tool; `found` are those of the formats."""
    return [
        *_find_bad_texts(tool),
        *_find_missing_description(tool),
        *_find_bad_parameters(tool),
        *providers.merge(tool, found),
    ]


def _finding(rule: str, tool: str, place: str, problem: str, fix: str) -> Finding:
    return Finding(rule=rule, severity=RULES[rule].severity, tool=tool, place=place, problem=problem, fix=fix)


def _find_bad_texts(tool: ToolDefinition) -> Iterator[Finding]:
    """Yield what is wrong with texts; of several texts of one place with the same problem, once."""
    found: dict[Finding, None] = {}
    for place, text in iter_texts(tool):
        if hidden := _find_invisible(text):
            problem = f"it has invisible characters: {', '.join(hidden)}"
            found[_finding("hidden-unicode", tool.name, place, problem, "Remove them: a model reads them.")] = None
        for problem, words in phrases.find_injections(text):
            quoted = f"{problem}: {words[:MAX_QUOTED_CHARS]!r}"
            fix = "Remove it. If the tool is not yours, do not use the tool before you know why it says so."
            found[_finding("prompt-injection", tool.name, place, quoted, fix)] = None
    yield from found


def _find_invisible(text: str) -> list[str]:
    codes = [int(match[1], 16) for match in _ESCAPES.finditer(text)]
    escaped = "".join(chr(code) for code in codes if code <= sys.maxunicode)
    return list(dict.fromkeys([*invisible.find(text), *(invisible.find(escaped) if escaped else ())]))


def _find_missing_description(tool: ToolDefinition) -> Iterator[Finding]:
    if not tool.description.strip():
        fix = "Write a docstring or a `description`; for a tool of a server, add_mcp(…, describe={…}) or a manifest."
        yield _finding("missing-description", tool.name, "", "it has no description", fix)


def _find_bad_parameters(tool: ToolDefinition) -> Iterator[Finding]:
    schema = tool.input_schema
    properties: JsonObject = schema.get("properties", {}) if isinstance(schema.get("properties"), dict) else {}
    for name, node in properties.items():
        if not _is_described(node, schema):
            fix = "Describe it in the docstring (Args:), with Field(description=…), in its schema, or in a manifest."
            yield _finding("undocumented-parameter", tool.name, name, "it has no description", fix)
        if names.to_skeleton(name) in _SECRETS:
            fix = f"Bind it, so that no model sees it: bind({name!r}, secret=True)."
            yield _finding("secret-parameter", tool.name, name, "models would have to know a secret", fix)
    for name, other in names.find_similar(properties):
        yield _finding("similar-parameters", tool.name, name, f"it is taken for {other!r}", "Rename one of them.")


def _is_described(node: Any, root: JsonObject) -> bool:
    if not isinstance(node, dict):
        return False
    if str(node.get("description") or "").strip():
        return True
    reference = node.get("$ref")
    target = root.get("$defs", {}).get(str(reference).removeprefix("#/$defs/")) if reference else None
    return isinstance(target, dict) and bool(str(target.get("description") or "").strip())


def _find_similar_tools(tools: list[ToolDefinition]) -> Iterator[Finding]:
    """Yield the tools that a model or a person takes for another one, and those that no export has both."""
    first: dict[str, ToolDefinition] = {}
    for tool in tools:
        other = first.setdefault(wire_name(tool.name), tool)
        if other is not tool:
            problem = f"models would see it as {wire_name(tool.name)!r}, as {other.name!r}, and no export has both"
            yield _finding("name-clash", tool.name, "", problem, "Rename one of them.")
    for name, similar in names.find_similar(tool.name for tool in first.values()):
        fix = "Rename one of them, or add it with prefix=…."
        yield _finding("similar-names", name, "", f"it is taken for the tool {similar!r}", fix)
