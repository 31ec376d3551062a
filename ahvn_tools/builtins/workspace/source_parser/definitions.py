"""Definition: a class, a function or a method, as the parsing process writes it and the outline reads it."""

from __future__ import annotations

from typing import NamedTuple

MAX_DEFINITIONS = 1_000
"""The most definitions of one file."""
_MAX_NAME_CHARS = 120
_MAX_SIGNATURE_CHARS = 240
_WITH_METHODS = frozenset({"Class", "Struct", "Union", "Interface", "Trait", "Impl", "Enum", "Record"})


class Definition(NamedTuple):
    """What a file defines."""

    depth: int
    """How many definitions it is in."""
    kind: str
    name: str
    first_line: int
    last_line: int
    signature: str
    """Its source text before the body."""


def on_one_line(text: str, max_chars: int) -> str:
    """Return a text without line breaks, and not longer than allowed."""
    line = " ".join(text.split())
    return line if len(line) <= max_chars else f"{line[:max_chars]}…"


class Definitions:
    """The definitions of one file in their order, with their nesting."""

    def __init__(self) -> None:
        self.found: list[Definition] = []
        self.is_complete = True
        """Whether the file has no more of them."""

    def add(
        self, *, depth: int, kind: str, outer_kind: str, name: str, lines: tuple[int, int], signature: str
    ) -> str:  # fmt: skip
        """Add a definition and return its kind: a function in a class is a method."""
        if kind == "Function" and (outer_kind in _WITH_METHODS or "::" in name):
            kind = "Method"
        if len(self.found) >= MAX_DEFINITIONS:
            self.is_complete = False
            return kind
        name, signature = on_one_line(name, _MAX_NAME_CHARS), on_one_line(signature, _MAX_SIGNATURE_CHARS)
        self.found.append(Definition(depth, kind, name, *lines, signature))
        return kind
