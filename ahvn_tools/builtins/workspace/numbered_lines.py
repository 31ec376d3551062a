"""Lines with their numbers, as models read them, cut to a length that a model can read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ahvn_tools.builtins.workspace.lines import bare

MAX_LINE_CHARS: Final = 2_000
"""A longer line is cut where lines are shown with their numbers."""

REST_HINT: Final = (
    "Go on with partially_read_by_range, start_line={line}, end_line={line}, start_character={character}."
)
"""How to read the rest of a line, from this character."""


def numbered(
    number: int, line: str, *, dropped: int = 0, max_chars: int = MAX_LINE_CHARS, hint: str = REST_HINT
) -> str:
    """Return one line as `12: text`, without the characters that were dropped; a long one says how to go on."""
    text = bare(line)
    place = f"{number} (from character {dropped + 1})" if dropped else f"{number}"
    if len(text) <= max_chars:
        return f"{place}: {text}"
    return f"{place}: {text[:max_chars]}... {rest_of_line(number, dropped + max_chars, hint)}"


def rest_of_line(number: int, shown_chars: int, hint: str = REST_HINT) -> str:
    """Return how to read a line after so many characters."""
    return f"(The line is longer. {hint.format(line=number, character=shown_chars + 1)})"


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


def numbered_block(lines: list[str], start: int, stop: int, *, max_chars: int, hint: str = REST_HINT) -> str:
    """Return the lines from index `start` to before `stop` with their numbers, and say how many are left out."""
    kept, is_whole = fitting((numbered(index + 1, lines[index], hint=hint) for index in range(start, stop)), max_chars)
    if not is_whole:
        kept.append(f"... ({stop - start - len(kept):,} more lines)")
    return "\n".join(kept)
