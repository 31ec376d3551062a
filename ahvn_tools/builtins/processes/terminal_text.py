"""The output of a terminal program as a text that shows what a terminal would show at the end."""

from __future__ import annotations

import re
from typing import Final

from ahvn_tools import invisible

_LINE_START: Final = re.compile(r"(?:\x1b\[|\x9b)(?:2K|1?G)")
"""Erases a line, or goes to its start."""
_ESCAPE_SEQUENCE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"  # colors and movements
    r"|\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"  # titles and links of the terminal
    r"|\x1b[()*+][0-9A-Za-z]|\x1b[=>78cDEHM]"  # character sets, resets
)


def to_readable(text: str) -> tuple[str, int]:
    r"""Return a text without colors, with the last state of each line, and how many earlier states are left out.

    Every other control and invisible character is escaped. Text after a carriage return replaces the line.

    >>> to_readable("\x1b[31mred\x1b[0m\x00\n 50 %\r100 %")
    ('red\\x00\n100 %', 1)
    """
    text, count = to_last_states(text)
    return invisible.escape(text), count


def to_last_states(text: str) -> tuple[str, int]:
    """Return a text without sequences of a terminal, and how many states of its lines were overwritten."""
    text = text.replace("\r\n", "\n")
    if "\x1b" in text or "\x9b" in text:
        text = _ESCAPE_SEQUENCE.sub("", _LINE_START.sub("\r", text))
    if "\r" not in text and "\b" not in text:
        return text, 0
    states = [
        [state for state in map(_without_backspaces, line.split("\r")) if state.strip()] or [""]
        for line in text.split("\n")
    ]
    return "\n".join(line[-1] for line in states), sum(len(line) - 1 for line in states)


def _without_backspaces(state: str) -> str:
    """Return a state of a line in which characters after backspaces have replaced those before."""
    if "\b" not in state:
        return state
    shown: list[str] = []
    column = 0
    for character in state:
        if character == "\b":
            column = max(column - 1, 0)
        else:
            shown[column : column + 1] = character
            column += 1
    return "".join(shown)


def overwritten_note(**counts: int) -> str | None:
    """Return the sentence about the states that are left out, by the name of the stream that they were written to."""
    texts = [f"{count:,} of {name}" for name, count in counts.items() if count]
    if not texts:
        return None
    return f"Earlier states of lines that were overwritten, as by a progress bar, are left out: {', '.join(texts)}."
