"""Pattern: the regular expression that a search looks for, in time proportional to the length of a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from ahvn_tools.builtins.files.text import find_codec
from ahvn_tools.builtins.workspace.keyword import MAX_CHARS, FoundLine
from ahvn_tools.errors import ToolError

_MAX_MEMORY: Final = 1 << 20
"""Bytes of a compiled pattern, with its cache; RE2 refuses a larger one."""
_STEPS: Final = 60_000_000
"""Size of the compiled pattern times bytes of one call of RE2, which cannot be interrupted: about 2 seconds at most."""
_MIN_WINDOW, _MAX_WINDOW = 4_096, 65_536
"""Bytes that one call of RE2 reads, which may take 10 seconds with the largest pattern. Half of a window is read again
with the next one if it is within one line."""
_SEVERAL_LINES: Final = re.compile(r"(?<!\\)(?:\\\\)*\\n")
_ESCAPE: Final = re.compile(r"\\Q.*?(?:\\E|$)|\\.")
_ENDS_OF_TEXT: Final = {r"\A": "^", r"\z": "$", r"\Z": "$"}
"""A line is the whole text of a match, so they are the ends of a line."""
_EXCLUDED_CHARACTERS: Final = re.compile(r"\[\^(?:\\.|[^\]\\])*\]")


class Pattern:
    """A regular expression of RE2, whose matches are within one line."""

    byte_pattern = None
    """No expression for ripgrep: one engine decides, so that a pattern has one meaning."""

    def __init__(self, text: str, *, ignore_case: bool, encoding: str | None = None) -> None:
        """Raise ToolError for what RE2 does not accept, and where it is not installed."""
        try:
            import re2
        except ImportError:
            needs = 'A regular expression needs `pip install "ahvn-tools[search]"` where the tool runs.'
            raise ToolError(f"{needs} Search for a literal text with regex=false.") from None
        if not text or len(text) > MAX_CHARS:
            raise ToolError(f"Pass a regular expression that is not empty, of at most {MAX_CHARS:,} characters.")
        if "\n" in text or "\r" in text or _SEVERAL_LINES.search(_EXCLUDED_CHARACTERS.sub("", text)):
            raise ToolError(
                "A match is within one line. Pass a regular expression without line ends, for one of the lines."
            )
        text = _ESCAPE.sub(lambda found: _ENDS_OF_TEXT.get(found[0], found[0]), text)
        self.encoding = None if encoding is None else find_codec(encoding)
        options = re2.Options()
        options.log_errors, options.never_nl, options.never_capture = False, True, True
        options.max_mem, options.case_sensitive = _MAX_MEMORY, not ignore_case
        try:
            self._compiled = re2.compile(f"(?m){text}", options)
        except re2.error as error:
            raise _refused(error.args[0]) from None
        except UnicodeEncodeError:
            raise ToolError("The regular expression has half of a character (a surrogate). Remove it.") from None
        self._window = max(_MIN_WINDOW, min(_MAX_WINDOW, _STEPS // self._compiled.programsize))

    def may_be_in(self, content: bytes) -> bool:  # noqa: ARG002  # as that of Keyword
        """Return True: only the lines tell."""
        return True

    def find_lines(self, lines: list[str], is_over: Callable[[], bool]) -> Iterator[FoundLine]:
        """Yield the first match of each line that has one, until it is over."""
        data = "\n".join(lines).encode()
        position = counted = number = 0
        while lines and position <= len(data) and not is_over():
            end, following = self._next_window(data, position)
            match = self._compiled.search(data, position, end)
            if match is None:
                position = following
                continue
            number += data.count(b"\n", counted, match.start())
            counted = match.start()
            start = data.rfind(b"\n", 0, counted) + 1
            before = len(data[start:counted].decode(errors="replace"))  # RE2 can begin and end inside of a character
            yield FoundLine(number, before, before + len(data[counted : match.end()].decode(errors="replace")))
            end_of_line = data.find(b"\n", match.end())
            position = end_of_line + 1 if end_of_line >= 0 else len(data) + 1

    def _next_window(self, data: bytes, position: int) -> tuple[int, int]:
        """Return where the next bytes to read end, which is the end of a line where possible, and those after them."""
        limit = position + self._window
        if limit >= len(data):
            return len(data), len(data) + 1
        end = data.rfind(b"\n", position, limit)
        return (end, end + 1) if end >= 0 else (limit, limit - self._window // 2)


def _refused(error: bytes | str) -> ToolError:
    reason = (error.decode(errors="replace") if isinstance(error, bytes) else error).partition(":")[0]
    return ToolError(
        f"The regular expression is not accepted: {reason}. The syntax is that of RE2, without lookaround (?=…), "
        "(?!…), (?<=…), backreferences \\1 and repetitions of more than 1000. Write a simpler one."
    )
