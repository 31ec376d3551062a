"""The rules: their names, which never change, and what each is about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, get_args

from ahvn_tools.errors import ToolSpecError, near_misses
from ahvn_tools.schema.dialects.finding import NOT_STRICT, Finding, Severity


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What a rule finds."""

    summary: str
    severity: Severity
    """That of most of its findings: one finding may be less or more severe."""


RULES: Final[dict[str, Rule]] = {
    "changed-name": Rule(summary="models see the tool under another name", severity="note"),
    "missing-description": Rule(summary="the tool has no description", severity="warning"),
    "long-description": Rule(summary="some models refuse a description of this length", severity="warning"),
    "undocumented-parameter": Rule(summary="a parameter has no description", severity="warning"),
    "similar-names": Rule(
        summary="two names of tools differ only in case, separators or look-alikes", severity="warning"
    ),
    "similar-parameters": Rule(summary="two parameters of a tool differ only as similar names do", severity="warning"),
    "secret-parameter": Rule(summary="the model is asked for a secret", severity="warning"),
    "hidden-unicode": Rule(summary="a text has characters that people do not see", severity="error"),
    "prompt-injection": Rule(
        summary="a text has instructions against the user or other instructions", severity="error"
    ),
    "name-clash": Rule(summary="two tools have one name for models", severity="error"),
    "refused": Rule(summary="a provider refuses the tool, or a model cannot use it as intended", severity="error"),
    "refused-argument-name": Rule(summary="a provider refuses the name of a parameter", severity="error"),
    "not-enforced": Rule(summary="a provider receives less than the schema says", severity="warning"),
    "narrowed": Rule(summary="a provider accepts less than the tool does", severity="warning"),
    "adapted": Rule(summary="a provider receives another form of the schema", severity="note"),
    NOT_STRICT: Rule(summary="the tool cannot be exported with strict=True", severity="note"),
    "changed-since-pin": Rule(summary="the tool differs from the lock file", severity="error"),
    "duplicate-tool": Rule(summary="a second tool of the same name is not used", severity="warning"),
    "load-error": Rule(summary="a part of a source cannot be loaded", severity="error"),
    "no-executor": Rule(summary="a tool runs in an executor, and there is none", severity="error"),
    "unsent-secret": Rule(
        summary="a server's tool requires a secret that the server may not receive", severity="error"
    ),
    "unbound-parameter": Rule(summary="a parameter without a JSON form must be bound", severity="error"),
    "unreadable-result": Rule(summary="models cannot read the tool's raw results", severity="warning"),
    "no-output-schema": Rule(summary="the tool's return annotation has no JSON Schema", severity="note"),
    "unlisted-tool": Rule(summary="no model can call the tool in code mode", severity="warning"),
    "unused-binding": Rule(summary="no tool has the bound parameter", severity="warning"),
    "unused-middleware": Rule(summary="a `retry` or a `cache` acts on no tool", severity="warning"),
    "empty-group": Rule(summary="a group has no tool", severity="warning"),
    "empty-toolset": Rule(summary="a toolset matches no tool", severity="warning"),
    "unknown-member": Rule(summary="a selection names what does not exist", severity="warning"),
    "unmatched-option": Rule(summary="an option of an MCP server matches nothing", severity="warning"),
    "refused-tool": Rule(summary="a tool of an MCP server is not used", severity="warning"),
    "toolkit": Rule(summary="anything else that Toolkit.check finds", severity="warning"),
}
"""All rules by name."""

SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
"""From the most to the least severe."""


def require_rules(names: Iterable[str]) -> frozenset[str]:
    """Return the names of rules as a set. Raises ToolSpecError with similar names for an unknown one."""
    chosen = frozenset([names] if isinstance(names, str) else names)
    for name in sorted(chosen - RULES.keys()):
        raise ToolSpecError(f"There is no rule {name!r}. {near_misses(name, RULES)}")
    return chosen


def is_severe(finding: Finding, level: str) -> bool:
    """Return whether a finding is at least as severe as a level; none is for `"never"`."""
    levels: tuple[str, ...] = SEVERITIES
    return level in levels and levels.index(finding.severity) <= levels.index(level)
