"""Findings: what a provider does not accept of a tool, for the developer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["error", "warning", "note"]
Effect = Literal["wider", "narrower"]

NOT_ENFORCED_FIX: Final = (
    "None is needed: the tool checks it, and the description states it where an export leaves the rule out."
)

NOT_STRICT: Final = "not-strict"
"""The rule of the reasons why a tool cannot be strict."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was found, where, and what to do about it. As text: `place: problem`."""

    severity: Severity
    """`error`: the provider would refuse the tool, or a model could not use it as intended. `warning`: models may use
    it wrongly, and you can do something about it. `note`: it is exported in another form, or the tool alone enforces a
    rule."""
    place: str
    """The path of the member, such as `lines[].color`; empty for the tool as a whole."""
    problem: str
    fix: str
    effect: Effect | None = None
    """How what the provider's schema accepts differs from what the tool accepts. `wider`: it accepts more, which only
    the tool itself refuses. `narrower`: it accepts less, so a model cannot pass every valid value. None: not at all."""
    rule: str = ""
    """The name of the rule that found it, the same in every version: `missing-description`. It may be empty in what a
    format returns; `Toolkit.check` always sets it."""
    tool: str | None = None
    """The tool that it is about; None if `place` alone says it."""
    formats: tuple[str, ...] = ()
    """The formats that it is about; empty if it is not about formats."""

    def __str__(self) -> str:
        place = self.place or ("the schema" if self.tool is None else f"the tool {self.tool!r}")
        return f"{place}: {self.problem}"


def not_enforced(keyword: str, place: str) -> Finding:
    """Return the finding about a keyword that a provider does not enforce."""
    problem = f"{keyword!r} is not enforced"
    return Finding(severity="note", place=place, problem=problem, fix=NOT_ENFORCED_FIX, effect="wider")


def not_strict(place: str, problem: str, fix: str) -> Finding:
    """Return the finding about a reason why a tool cannot be strict."""
    return Finding(severity="note", place=place, problem=problem, fix=fix, rule=NOT_STRICT)
