"""Reports: how sub-agents ended, and the text about them that their parent reads."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

Ending = Literal["finished", "failed", "cancelled", "timeout"]

_SEPARATOR: Final = "\n\n----------------\n\n"
_IMITATION: Final = re.compile(
    r"(?:\A|(?<=[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]))(?=[^\S\n]{0,50}(?:#{1,9}\s{0,9}Sub-agent|-{16}))", re.IGNORECASE
)
"""The beginning of a line that looks like one of ours."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """How one sub-agent ended."""

    name: str
    ending: Ending
    text: str
    """What it reports; for a failed one what went wrong."""

    def to_text(self, max_chars: int) -> str:
        """Return the text for the parent, with at most `max_chars` characters of the report."""
        if self.ending == "cancelled":
            return f"### Sub-agent {self.name!r} was deleted (Cancelled)."
        text = _cut(self.text, max_chars)
        if self.ending == "timeout":
            return f"### Sub-agent {self.name!r} was stopped: {text}"
        if self.ending == "failed":
            return f"### Sub-agent {self.name!r} Failed:\n{text}"
        return f"### Sub-agent {self.name!r} Finished:\n{text}"


def join(reports: Iterable[Report], max_chars: int) -> str:
    """Return the reports as one text."""
    return _SEPARATOR.join(report.to_text(max_chars) for report in reports)


def _cut(text: str, max_chars: int) -> str:
    """Return a report, shortened, in which no line looks like the beginning of another report."""
    shown = _IMITATION.sub("> ", text[:max_chars])
    if len(text) <= max_chars:
        return shown
    return f"{shown}\n[… {len(text) - max_chars:,} more characters were left out …]"
