"""Lines with their numbers, as models read them, cut to a length that a model can read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ahvn_tools.builtins.workspace.lines import bare

MAX_LINE_CHARS: Final = 2_000
"""A longer line is cut where lines are shown with their numbers."""


def numbered(number: int, line: str) -> str:
    """Return one line as `12: text`."""
    text = bare(line)
    if len(text) > MAX_LINE_CHARS:
        text = f"{text[:MAX_LINE_CHARS]}... (The line is longer than {MAX_LINE_CHARS:,} characters.)"
    return f"{number}: {text}"


def fitting(shown: Iterable[str], max_chars: int) -> tuple[list[str], bool]:
    """Return the first texts that fit into so many characters, at least one, and whether all of them do."""
    kept: list[str] = []
    size = 0
    for text in shown:
        size += len(text) + 1
        if kept and size > max_chars:
            return kept, False
        kept.append(text)
    return kept, True


def numbered_block(lines: list[str], start: int, stop: int, *, max_chars: int) -> str:
    """Return the lines from index `start` to before `stop` with their numbers, and say how many are left out."""
    kept, is_whole = fitting((numbered(index + 1, lines[index]) for index in range(start, stop)), max_chars)
    if not is_whole:
        kept.append(f"... ({stop - start - len(kept):,} more lines)")
    return "\n".join(kept)
