"""IgnoreRules: which files of a folder the .gitignore files leave out: https://git-scm.com/docs/gitignore."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Final

from ahvn_tools.roots import MAX_PATH_CHARS

_ANY: Final = r"[^/\0]"
_FOLDERS: Final = r"(?:[^/\0]+/)*"
_SKIP_NAME: Final = r"[^\0]*+\0"
_TRAILING_SPACES: Final = re.compile(r"(?<!\\) +$")
_TOKEN: Final = re.compile(r"(?P<stars>\*+)|(?P<any>\?)|(?P<bracket>\[)|\\(?P<escaped>.)|(?P<plain>[^\\])", re.DOTALL)
_CLASSES: Final = {
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f", "digit": "0-9",
    "graph": r"\x21-\x7e", "lower": "a-z", "print": r"\x20-\x7e", "punct": r"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    "space": r"\s", "upper": "A-Z", "xdigit": "0-9a-fA-F",
}  # fmt: skip
_MEMBER: Final = re.compile(
    r"\[:(?P<named>\w+):\]|(?P<first>\\.|[^\\])(?:-(?P<last>\\.|[^\\\]]))?", re.DOTALL
)  # fmt: skip


def subject_of(path: str, *, is_folder: bool) -> str:
    """Return the text that the expressions are matched with."""
    end = "/" if is_folder else ""
    return f"{path[path.rfind('/') + 1 :]}{end}\0{path}{end}"


def to_expression(line: str) -> tuple[str, bool] | None:
    """Return the expression and whether what it matches is left out, or taken back. None for what matches nothing."""
    text = (
        "" if line.startswith("#") or len(line) > MAX_PATH_CHARS else _TRAILING_SPACES.sub("", line.removesuffix("\r"))
    )
    is_ignored = not text.startswith("!")
    pattern = text.removeprefix("!")
    end = "/" if pattern.endswith("/") else "/?"
    pattern = pattern.removesuffix("/")
    if not pattern:
        return None
    try:
        if "/" not in pattern:
            return f"{_to_part(pattern)}{end}\\0", is_ignored
        return f"{_SKIP_NAME}{_to_path(pattern.removeprefix('/').split('/'))}{end}\\Z", is_ignored
    except _UnusableError:
        return None


class _UnusableError(ValueError):
    """A pattern that matches nothing: its last bracket is open, or a backslash is its last character."""


def _to_path(parts: list[str]) -> str:
    """Return the expression of a path with slashes. `**` as a part stands for any number of folders."""
    groups = [list(group) for _, group in groupby(parts, key=_is_any_folders)]
    expression = ""
    is_after_folders = False
    for number, group in enumerate(groups, 1):
        is_last = number == len(groups)
        if _is_any_folders(group[0]):
            is_after_folders = True
            expression += ".+" if is_last else ""
            continue
        names = "/".join(_to_part(part) for part in group) + ("" if is_last else "/")
        if not is_after_folders:
            expression += names
        else:
            expression += f"{_FOLDERS}{names}" if is_last else f"(?>{_FOLDERS}?{names})"
    return expression


def _is_any_folders(part: str) -> bool:
    return len(part) > 1 and set(part) == {"*"}


def _to_part(part: str) -> str:
    """Return the expression of one name. What stands between two stars is matched where it is first found."""
    chunks = _to_chunks(part)
    if len(chunks) == 1:
        return chunks[0]
    first, *middle, last = chunks
    between = "".join(f"(?>{_ANY}*?{chunk})" for chunk in middle if chunk)
    is_there = "" if first else f"(?={_ANY})"  # a name is never empty, as `*` alone could be
    return f"{is_there}{first}{between}{_ANY}*{last}"


def _to_chunks(part: str) -> list[str]:
    """Return the expressions between the stars of a name."""
    chunks = [""]
    position = 0
    while position < len(part):
        token = _TOKEN.match(part, position)
        if token is None:  # a backslash at the end
            raise _UnusableError
        position = token.end()
        if token["stars"]:
            chunks.append("")
        elif token["any"]:
            chunks[-1] += _ANY
        elif token["bracket"]:
            members, position = _to_bracket(part, position)
            chunks[-1] += members
        else:
            chunks[-1] += re.escape(token["escaped"] or token["plain"])
    return chunks


def _to_bracket(part: str, position: int) -> tuple[str, int]:
    """Return the expression of a set of characters, and the position after it."""
    is_negated = part[position : position + 1] in {"!", "^"}
    position += is_negated
    start, members = position, ""
    while position == start or part[position : position + 1] != "]":
        member = _MEMBER.match(part, position)
        if member is None:
            raise _UnusableError
        position = member.end()
        members += _to_members(member)
    if not members:
        return (_ANY if is_negated else "(?!)"), position + 1
    return f"(?!/)[{'^' if is_negated else ''}{members}]", position + 1


def _to_members(member: re.Match[str]) -> str:
    if member["named"]:
        return _CLASSES.get(member["named"], "")
    first = member["first"][-1]
    last = (member["last"] or first)[-1]
    return f"{_escape(first)}-{_escape(last)}" if first <= last else ""


def _escape(character: str) -> str:
    return f"\\U{ord(character):08x}"


MAX_RULES_BYTES: Final = 64_000
"""The size of a .gitignore file above which it is not read: a hostile one would take seconds."""
MAX_LINES: Final = 1000
"""How many lines of a .gitignore file count: each file is compared with all of them."""


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules of several .gitignore files, the outermost first. Paths are relative to the folder of the first."""

    files: tuple[tuple[int, _Rules], ...] = ()
    """The length of the path of the folder that the file is in, with its / at the end, and its rules."""

    def extended(self, folder: str, content: bytes) -> IgnoreRules:
        """Return the rules with those of a file in a folder; "" is the folder of the first."""
        rules = _compile(content)
        return IgnoreRules((*self.files, (len(folder) + 1 if folder else 0, rules))) if rules.is_ignored else self

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a file or folder is left out. What is in a folder that is left out must not be asked for."""
        for start, rules in reversed(self.files):
            decision = rules.decide(subject_of(path[start:], is_folder=is_folder))
            if decision is not None:
                return decision
        return False


@dataclass(frozen=True, slots=True)
class _Rules:
    """The patterns of one file as one regular expression, the last pattern first, since the last that fits decides."""

    expression: re.Pattern[str]
    is_ignored: tuple[bool, ...]
    """For each group of the expression, which has the patterns of some lines, whether it leaves out or takes back."""

    def decide(self, subject: str) -> bool | None:
        """Return whether the last pattern that fits leaves a file out; None if no pattern fits."""
        found = self.expression.match(subject)
        return None if found is None or found.lastindex is None else self.is_ignored[found.lastindex - 1]


@lru_cache(maxsize=256)
def _compile(content: bytes) -> _Rules:
    """Return the rules of a file. Lines that match nothing are skipped, and those after the first thousand."""
    lines = content.decode("utf-8-sig", errors="surrogateescape").split("\n")[:MAX_LINES]
    patterns = [pattern for line in reversed(lines) if (pattern := to_expression(line)) is not None]
    runs = [(is_ignored, list(run)) for is_ignored, run in groupby(patterns, key=lambda pattern: pattern[1])]
    expression = "|".join(f"({'|'.join(expression for expression, _ in run)})" for _, run in runs)
    return _Rules(re.compile(expression, re.DOTALL), tuple(is_ignored for is_ignored, _ in runs))
