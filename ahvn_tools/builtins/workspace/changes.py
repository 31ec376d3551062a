"""What an edit changes: the changed lines for a model, and a unified diff for a person."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from ahvn_tools import invisible
from ahvn_tools.builtins.workspace.lines import bare, numbered_block

CONTEXT_LINES: Final = 3
"""Unchanged lines that are shown before and after a change."""
MAX_COMPARED_LINES: Final = 5_000
"""More changed lines are one change, because comparing them would be slow."""
MAX_SNIPPET_CHARS: Final = 4_000
MAX_DIFF_CHARS: Final = 20_000
DIFF_IS_CUT: Final = "... (the diff is longer)"
"""The last line of a diff that was cut. No other line of a diff can be the same."""


@dataclass(frozen=True)
class Region:
    """Lines that were replaced by others: indexes before and after."""

    start: int
    stop: int
    new_start: int
    new_stop: int


@dataclass(frozen=True)
class Change:
    """The lines of a file before and after an edit."""

    before: list[str]
    after: list[str]

    @cached_property
    def regions(self) -> list[Region]:
        """The lines that differ."""
        first = _count_equal(self.before, self.after)
        same = _count_equal(self.before[first:][::-1], self.after[first:][::-1])
        old, new = self.before[first : len(self.before) - same], self.after[first : len(self.after) - same]
        if not old and not new:
            return []
        if not old or not new or len(old) + len(new) > MAX_COMPARED_LINES:
            return [Region(first, first + len(old), first, first + len(new))]
        codes = difflib.SequenceMatcher(None, old, new).get_opcodes()
        return [Region(first + a, first + b, first + c, first + d) for tag, a, b, c, d in codes if tag != "equal"]

    @property
    def snippet(self) -> str:
        """The changed lines as they are now, with their numbers and the lines around them."""
        shown, left = [], MAX_SNIPPET_CHARS
        for group in self._groups():
            if left <= 0:
                shown.append("... (more changes)")
                break
            start = max(group[0].new_start - CONTEXT_LINES, 0)
            stop = min(group[-1].new_stop + CONTEXT_LINES, len(self.after))
            shown.append(numbered_block(self.after, start, stop, max_chars=left) or "(The file is empty.)")
            left -= len(shown[-1])
        return "\n...\n".join(shown)

    def diff(self, name: str) -> str:
        """Return a unified diff, whose last line is DIFF_IS_CUT if it is longer than a person can read."""
        lines = [f"--- {name}", f"+++ {name}"]
        left = MAX_DIFF_CHARS
        for group in self._groups():
            for line in self._hunk(group):
                visible = invisible.escape(line)  # what a terminal would not show, or show in another order
                lines.append(visible[:left])
                left -= len(visible) + 1
                if left < 0:
                    return "\n".join([*lines, DIFF_IS_CUT])
        return "\n".join(lines)

    def _hunk(self, group: list[Region]) -> list[str]:
        start = max(group[0].start - CONTEXT_LINES, 0)
        stop = min(group[-1].stop + CONTEXT_LINES, len(self.before))
        new_start = start + group[0].new_start - group[0].start
        new_stop = stop + group[-1].new_stop - group[-1].stop
        lines = [f"@@ -{_span(start, stop)} +{_span(new_start, new_stop)} @@"]
        position = start
        for region in group:
            lines += [f" {bare(line)}" for line in self.before[position : region.start]]
            lines += [f"-{bare(line)}" for line in self.before[region.start : region.stop]]
            lines += [f"+{bare(line)}" for line in self.after[region.new_start : region.new_stop]]
            position = region.stop
        return lines + [f" {bare(line)}" for line in self.before[position:stop]]

    def _groups(self) -> list[list[Region]]:
        """Return the regions, with those together whose context lines meet."""
        groups: list[list[Region]] = []
        for region in self.regions:
            if groups and region.start - groups[-1][-1].stop <= 2 * CONTEXT_LINES:
                groups[-1].append(region)
            else:
                groups.append([region])
        return groups


def _count_equal(one: list[str], other: list[str]) -> int:
    """Return how many lines at the beginning are equal: by halves, which is faster than line by line."""
    equal, end = 0, min(len(one), len(other))
    while equal < end:
        middle = (equal + end + 1) // 2
        if one[equal:middle] == other[equal:middle]:
            equal = middle
        else:
            end = middle - 1
    return equal


def _span(start: int, stop: int) -> str:
    return f"{start + 1 if stop > start else start},{stop - start}"
