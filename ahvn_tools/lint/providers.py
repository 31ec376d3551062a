"""What each provider does with a tool: one word for a table, and the findings of all formats together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from ahvn_tools import formats
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.schema.dialects.finding import NOT_STRICT, Finding

Verdict = Literal["ok", "adapted", "not strict", "refused"]
"""What a provider does with a tool. `"ok"`: it receives the tool unchanged, strict if it has strict tools. `"adapted"`:
in another form, or not all of its rules. `"not strict"`: as well, and `strict=True` has no effect. `"refused"`: it
would refuse the tool, or a model could not use it."""

_EFFECT_RULES = {"wider": "not-enforced", "narrower": "narrowed", None: "adapted"}

Findings = Mapping[str, list[Finding]]
"""Findings about one tool, by format."""


def list_formats() -> list[str]:
    """Return the formats that have findings: those of this package, and registered ones."""
    return list(formats.portability(ToolDefinition(name="tool")))


def find_by_format(definition: ToolDefinition, names: Iterable[str] | None = None) -> dict[str, list[Finding]]:
    """Return, for each format, its findings about a tool, each with a rule; of these formats, or of all.

    Raises ToolLookupError for an unknown format, and ToolSpecError for one without a function `findings`.
    """
    chosen = formats.portability(definition) if names is None else {name: _find(name, definition) for name in names}
    return {name: [_with_rule(finding) for finding in findings] for name, findings in chosen.items()}


def _find(name: str, definition: ToolDefinition) -> list[Finding]:
    module: Any = formats.get(name)
    if not hasattr(module, "findings"):
        raise ToolSpecError(f"The format {name!r} has no `findings`. Known: {', '.join(map(repr, list_formats()))}.")
    findings: list[Finding] = module.findings(definition)
    return findings


def _with_rule(finding: Finding) -> Finding:
    if finding.rule:
        return finding
    return replace(finding, rule="refused" if finding.severity == "error" else _EFFECT_RULES[finding.effect])


def verdicts(definition: ToolDefinition, names: Iterable[str] | None = None) -> dict[str, Verdict]:
    """Return what each provider does with a tool, by format.

    >>> from ahvn_tools import ToolDefinition
    >>> verdicts(ToolDefinition(name="notes.add"), ["openai", "mcp"])
    {'openai': 'adapted', 'mcp': 'adapted'}
    """
    return judge(definition, find_by_format(definition, names))


def judge(definition: ToolDefinition, found: Findings) -> dict[str, Verdict]:
    """Return the verdicts that follow from findings by format."""
    return {name: _judge_format(definition, name, findings) for name, findings in found.items()}


def _judge_format(definition: ToolDefinition, name: str, findings: list[Finding]) -> Verdict:
    if any(finding.severity == "error" for finding in findings):
        return "refused"
    if any(finding.rule == NOT_STRICT for finding in findings) and not _is_strict(definition, name):
        return "not strict"
    return "adapted" if findings else "ok"


def _is_strict(definition: ToolDefinition, name: str) -> bool:
    """Return whether `strict=True` makes an export strict: it says so at the tool, or in its one inner object."""
    (tool,) = formats.get(name).export([definition], strict=True)
    return any(part.get("strict", True) is True for part in (tool, *tool.values()) if _has_strict(part))


def _has_strict(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("strict"), bool)


def split(definition: ToolDefinition, merged: Iterable[Finding], names: Iterable[str]) -> dict[str, list[Finding]]:
    """Return the findings about a tool by format again: the inverse of `merge`."""
    own = [finding for finding in merged if finding.tool == definition.name]
    return {name: [finding for finding in own if name in finding.formats] for name in names}


def merge(definition: ToolDefinition, found: Findings) -> list[Finding]:
    """Return the findings by format as one list: what several formats find is one finding about all of them."""
    merged: dict[Finding, list[str]] = {}
    for name, findings in found.items():
        for finding in findings:
            merged.setdefault(replace(finding, tool=definition.name), []).append(name)
    return [replace(finding, formats=tuple(dict.fromkeys(names))) for finding, names in merged.items()]
