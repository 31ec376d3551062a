r"""One line of a .gitignore file as a regular expression: https://git-scm.com/docs/gitignore.

The expression matches the start of `subject_of(path)`, which is the name, a NUL and the path: most patterns are
compared with the name alone. Wildcards are atomic where more of them follow, so that no pattern is slow.
"""

from __future__ import annotations

import re
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
