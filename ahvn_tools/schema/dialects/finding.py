"""Finding: one thing about a tool that a provider does not take, or takes in another form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was found, where, and what to do about it. As text: `place: problem`."""

    severity: Severity
    """`error`: the provider would refuse the tool, or a model could not use it as meant. `warning`: the provider is
    told less than the schema says, and only the tool itself enforces the rest. `note`: it is taken in another form."""
    place: str
    """The path of the member, such as `lines[].color`; empty for the tool as a whole."""
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.place or 'the schema'}: {self.problem}"
