"""Splits a command line into simple commands, or says why it does not understand the line.

Only a small part of the shell language is understood: words, quotes, paths with wildcards, comments, the separators
; & && || | and line feeds, and a few harmless redirections. It has one meaning in sh, dash and bash. Everything else is
NotUnderstoodError, so that what is understood runs no program but those that are returned.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

MAX_UNDERSTOOD_CHARS: Final = 10_000
"""A longer command line is not understood."""


class NotUnderstoodError(ValueError):
    """A command line may do more than its words say. The message is the reason."""


@dataclass(frozen=True)
class SimpleCommand:
    """A program with its arguments, as the program gets them; wildcards are not replaced."""

    words: tuple[str, ...]

    @property
    def program(self) -> str:
        """The first word."""
        return self.words[0]


def split_command_line(text: str) -> list[SimpleCommand]:
    """Return the simple commands of a command line, in their order. Raises NotUnderstoodError."""
    if len(text) > MAX_UNDERSTOOD_CHARS:
        raise NotUnderstoodError(f"it is longer than {MAX_UNDERSTOOD_CHARS:,} characters")
    if not all(character.isprintable() or character in "\n\t" for character in text):
        raise NotUnderstoodError("it contains a control character or an invisible character")
    return _Scanner(text).scan()


@dataclass
class _Scanner:
    """Reads a command line from left to right. Each method reads one kind of token at the position."""

    text: str
    position: int = 0
    commands: list[SimpleCommand] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    needs_command: bool = False
    """Whether the last separator was && or ||, or |."""

    def scan(self) -> list[SimpleCommand]:
        while self.position < len(self.text):
            if match := _BLANKS_OR_COMMENT.match(self.text, self.position):
                self.position = match.end()
            elif match := _HARMLESS_REDIRECTION.match(self.text, self.position):
                self._require_program("a redirection")
                self.position = match.end()
            elif match := _SEPARATOR.match(self.text, self.position):
                self._end_command(match[0])
                self.position = match.end()
            else:
                self._read_word()
        self._end_command("\n")
        if self.needs_command:
            raise NotUnderstoodError("a command is missing at its end")
        return self.commands

    def _require_program(self, what: str) -> None:
        if not self.words:
            raise NotUnderstoodError(f"{what} stands where a program is expected")

    def _end_command(self, separator: str) -> None:
        if separator not in _SEPARATORS:
            raise NotUnderstoodError(f"it contains {separator!r}")
        if separator != "\n":
            self._require_program(repr(separator))
        if self.words:
            self.commands.append(SimpleCommand(tuple(self.words)))
            self.words = []
            self.needs_command = False
        self.needs_command = self.needs_command or separator in {"&&", "||", "|"}

    def _read_word(self) -> None:
        """Read one word: unquoted and quoted parts without a space between them."""
        start, parts = self.position, []
        has_wildcard = False
        while self.position < len(self.text) and (match := _WORD_PART.match(self.text, self.position)):
            parts.append(_value_of_part(match))
            has_wildcard |= match["plain"] is not None and any(character in "*?[" for character in match["plain"])
            self.position = match.end()
        if self.position < len(self.text) and self.text[self.position] not in _ENDS_WORD:
            raise NotUnderstoodError(_reason_against(self.text, self.position))
        value = "".join(parts)
        if not self.words and not _PROGRAM.fullmatch(word := self.text[start : self.position]):
            raise NotUnderstoodError(f"a program must be a plain name or path, and {word[:80]!r} is none")
        if has_wildcard and (value[0] == "-" or _WILDCARD_FIRST.match(self.text, start)):
            raise NotUnderstoodError(
                "a wildcard at the start of a word may stand for an option: write ./*.py instead of *.py"
            )
        self.words.append(value)


def _value_of_part(match: re.Match[str]) -> str:
    if match["double"] is not None:
        return re.sub(r'\\([\\"$`])', r"\1", match["double"])
    return match["plain"] if match["plain"] is not None else match["single"]


def _reason_against(text: str, position: int) -> str:
    character = text[position]
    if not character.isascii():
        return f"it contains {character!r} outside of quotes"
    if character in "\"'":
        return "it contains a quote that does not end, or a substitution in double quotes"
    return _REASONS.get(character, f"it contains {character!r}")


_SEPARATORS: Final = frozenset({";", "&", "&&", "||", "|", "\n"})
_ENDS_WORD: Final = " \t\n;&|"
_BLANKS_OR_COMMENT: Final = re.compile(r"[ \t]+|#[^\n]*")
_SEPARATOR: Final = re.compile(r"\n|[;&|]+")
_HARMLESS_REDIRECTION: Final = re.compile(
    r"(?:[12]?>>?[ \t]*/dev/null|[12]?>&[12]|0?<[ \t]*/dev/null)(?=[ \t\n;|]|&&|&[ \t\n]|\Z)"
)
_WORD_PART: Final = re.compile(
    r"(?P<plain>[A-Za-z0-9_./:,+@%=^~*?\[\]-]+)"
    r"|'(?P<single>[^']*)'"
    r'|"(?P<double>(?:[^"\\$`]|\\[^\n])*)"'
)
_PROGRAM: Final = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*")
_WILDCARD_FIRST: Final = re.compile(r"(?:''|\"\")*[*?\[]")
_REASONS: Final = {
    "$": "it contains a substitution ($)",
    "`": "it contains a substitution (`)",
    "\\": "it contains a backslash outside of quotes",
    "<": "it reads from a file or a here-document",
    ">": "it writes to a file",
    "(": "it contains a group or a function",
    ")": "it contains a group or a function",
    "{": "it contains a group, a function or a list in braces",
    "}": "it contains a group, a function or a list in braces",
    "!": "it contains !",
    "#": "it contains # in a word",
}
