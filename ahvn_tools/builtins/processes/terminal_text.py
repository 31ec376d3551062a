"""The output of a terminal program as a text that shows what a terminal would show at the end."""

from __future__ import annotations

import re
from typing import Final

from ahvn_tools import invisible
from ahvn_tools.builtins.processes.result import LEFT_OUT


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
        text = _ESCAPE_SEQUENCE.sub(lambda match: "\x1b[" + match[1] if match[1] else "", text)
    if not _MOVES.search(text):
        return text, 0
    parts = [_last_states_of_part(part) for part in LEFT_OUT.split(text)]
    return "".join(shown for shown, _ in parts), sum(count for _, count in parts)


def _last_states_of_part(text: str) -> tuple[str, int]:
    """Return the last states of a text of which nothing is left out."""
    screen = _Screen()
    for part in _PARTS.finditer(text):
        if part["text"]:
            screen.write(part["text"])
        elif part["move"] == "K":
            screen.erase(is_whole=part["number"] in ("1", "2"))
        else:
            screen.move(part["control"] or part["move"], int(part["number"] or 1))
    return "\n".join(map("".join, screen.lines)), screen.overwritten


def overwritten_note(**counts: int) -> str | None:
    """Return the sentence about the states that are left out, by the name of the stream that they were written to."""
    texts = [f"{count:,} of {name}" for name, count in counts.items() if count]
    if not texts:
        return None
    return f"Earlier states of lines that were overwritten, as by a progress bar, are left out: {', '.join(texts)}."


class _Screen:
    """The lines that a terminal shows, but a line that is written again from its start has nothing left of before."""

    def __init__(self) -> None:
        self.lines: list[list[str]] = [[]]
        self.overwritten = 0
        self._row = self._column = 0

    def move(self, control: str, number: int) -> None:
        """Move as a control says, or erase."""
        match control:
            case "\n":
                self._row, self._column = self._row + 1, 0
                if self._row == len(self.lines):
                    self.lines.append([])
            case "\r":
                self._column = 0
            case "\b" | "D":
                self._column = max(self._column - number, 0)
            case "A" | "F":
                self._row = max(self._row - number, 0)
                self._column = min(self._column, len(self.lines[self._row])) if control == "A" else 0
            case "G":
                self._column = min(max(number - 1, 0), len(self.lines[self._row]))

    def erase(self, *, is_whole: bool) -> None:
        """Erase a line, or what is right of the position."""
        line = self.lines[self._row]
        self._column = 0 if is_whole else self._column
        self._count(line[self._column :], "")
        del line[self._column :]

    def write(self, text: str) -> None:
        """Write characters of one line."""
        line = self.lines[self._row]
        end = len(line) if self._column == 0 else self._column + len(text)
        self._count(line[self._column : end], text)
        line[self._column : end] = text
        self._column += len(text)

    def _count(self, old: list[str], new: str) -> None:
        text = "".join(old)
        if text.strip(" _") and not new.startswith(text):
            self.overwritten += 1


_MOVE: Final = r"\x1b\[(?P<number>\d{0,4})(?P<move>[ADFGK])"
_ESCAPE_SEQUENCE: Final = re.compile(
    r"(?:\x1b\[|\x9b)(\d{0,4}[ADFGK])"  # up, left, to a column, erase
    r"|(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"  # colors and other movements
    r"|\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"  # titles and links of the terminal
    r"|\x1b[()*+][0-9A-Za-z]|\x1b[=>78cDEHM]"  # character sets, resets
)
_MOVES: Final = re.compile(rf"[\r\x08]|{_MOVE}")
_PARTS: Final = re.compile(
    rf"(?P<control>[\n\r\x08])|{_MOVE}|(?P<text>(?:[^\n\r\x08\x1b]|\x1b(?!\[\d{{0,4}}[ADFGK]))+)"
)
