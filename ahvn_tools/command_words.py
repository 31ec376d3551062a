"""split_command: the words of a command that is written as one text."""

from __future__ import annotations

import re
import shlex
import sys

_PART = re.compile(r'(?P<escapes>\\*)"|(?P<space>\s+)|[^\s"\\]+|\\+')
_SINGLE_QUOTED = re.compile(r"'([^']*)'(?!\S)")


def split_command(text: str, *, platform: str | None = None) -> list[str]:
    r"""Return the words of a command, by default as `platform`, that of this process, separates them.

    On Windows a backslash is a part of a path, and escapes only a double quote (the rules of its C runtime, which
    `subprocess.list2cmdline` writes); a whole word may be in single quotes, too. Elsewhere the rules are those of a
    POSIX shell. Raises ValueError for a quote that is not closed.

    >>> split_command(r'C:\tools\python.exe "C:\my notes\server.py"', platform="win32")
    ['C:\\tools\\python.exe', 'C:\\my notes\\server.py']
    """
    return _split_for_windows(text) if (platform or sys.platform) == "win32" else shlex.split(text)


def _split_for_windows(text: str) -> list[str]:
    words: list[str] = []
    word: str | None = None
    is_quoted, position = False, 0
    while position < len(text):
        whole = _SINGLE_QUOTED.match(text, position) if word is None else None
        if whole is not None:
            words.append(whole[1])
            position = whole.end()
            continue
        part = _PART.match(text, position)
        assert part is not None  # noqa: S101  # every character is of one of its kinds
        position = part.end()
        if part["escapes"] is not None:
            backslashes, is_escaped = divmod(len(part["escapes"]), 2)
            word = (word or "") + "\\" * backslashes + '"' * is_escaped
            is_quoted ^= not is_escaped
        elif part["space"] is None or is_quoted:
            word = (word or "") + part[0]
        elif word is not None:
            words.append(word)
            word = None
    if is_quoted:
        raise ValueError("No closing quotation")
    return words if word is None else [*words, word]
