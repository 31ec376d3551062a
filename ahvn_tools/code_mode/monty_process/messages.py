"""The messages of Monty, with lines of the program and without its own names."""

from __future__ import annotations

import re
from typing import Final

from ahvn_tools.code_mode.monty_process.hints import find_hints
from ahvn_tools.code_mode.schema_types import to_result_annotation

FILE_NAME: Final = "program.py"
START: Final = "start_of_program_"
"""A function that the check calls in a line before the program, so that nothing of the program runs."""

MAX_LINE_CHARS: Final = 300
"""Longer lines of a message are cut."""

_MAX_READ_CHARS: Final = 2_000
"""What is after them in a line is not read."""

_MAX_LINES: Final = 40
"""Of a longer message, the first and last half of this many lines remain."""

_POSITION: Final = re.compile(rf"^{re.escape(FILE_NAME)}:(\d+):\d+: (?:error|warning)\[[\w-]+\] ")
_FRAME: Final = re.compile(r'File "<python-input-\d+>"(?:, line (\d+))?')
_TIME: Final = re.compile(r"feed time limit exceeded: \S+ > (\S+)$")
_EXPECTED: Final = re.compile(r"Expected `([^`]*)`, found")
_NO_KEY: Final = r"A value of type `\2` has no key \1"
_PLAIN: Final = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"Method `__getitem__` of .* key of type `(?:Literal\[)?(.*?)\]?` on object of type `(.*)`$", _NO_KEY),
        (r"TypedDict `(.*)` can only be .* key of type `Literal\[(.*)\]`$", r"A value of type `\1` has no key \2"),
        (
            r"external function '(\w+)' cannot suspend.*",
            r"\1() cannot be called by another function than the program's",
        ),
    )
)
"""Parts of messages that are long or name what is inside, and how a model reads them."""
_PARSER: Final = "The monty syntax parser does not yet support"


def to_readable(text: str, *, is_check: bool = False) -> str:
    """Return a message as a model reads it, with hints, of about 40 lines.

    That of a check has each line once, and counts a line before the program.
    """
    shift = 1 if is_check else 0
    lines = [
        _POSITION.sub(lambda match: f"Line {int(match[1]) - shift}: ", _cut(_to_plain(line)))
        for line in text.strip().split("\n", 10_000)
    ]
    if is_check:
        lines = list(dict.fromkeys(lines))
    else:
        lines[-1] = _TIME.sub(r"time limit exceeded: the program itself ran longer than \1", lines[-1])
    hints = find_hints(lines if is_check else lines[-1:])
    if len(lines) > _MAX_LINES:
        half = _MAX_LINES // 2
        lines = [*lines[:half], f"… ({len(lines) - _MAX_LINES} more lines) …", *lines[-half:]]
    return "\n".join([*(_FRAME.sub(lambda match: _frame(match[1], shift), line) for line in lines), *hints])


def to_unsupported(display: str, message: str) -> str:
    """Return the message of a check for what Monty's parser does not know, with its line."""
    frame = _FRAME.search(display)
    line = f"Line {int(frame[1]) - 1}: " if frame is not None and frame[1] else ""
    text = f"{line}{_cut(message.replace(_PARSER, 'Programs do not support')).removesuffix('.')}."
    return "\n".join([text, *find_hints([text])])


def _to_plain(line: str) -> str:
    line = _EXPECTED.sub(lambda match: f"Expected `{_to_declared(match[1])}`, found", line[:_MAX_READ_CHARS])
    for pattern, text in _PLAIN:
        line = pattern.sub(text, line)
    return line


def _to_declared(annotation: str) -> str:
    """Return an annotation for the type checker as it is in the declaration that a model has read."""
    return to_result_annotation(annotation).removesuffix(" | None")


def _cut(line: str) -> str:
    return line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]}…"


def _frame(line: str | None, shift: int) -> str:
    return f'File "{FILE_NAME}"' + (f", line {int(line) - shift}" if line else "")
