"""The messages of Monty, with lines of the program, without its own names, and with hints.

A hint says how a model writes a program without what Monty's Python lacks.
"""

from __future__ import annotations

import re
from typing import Final

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

_IMPORTS: Final = (
    "Modules that can be imported: asyncio, base64, bisect, collections, copy, csv, dataclasses, datetime, decimal, "
    "functools, hashlib, itertools, json, math, random, re, time, typing, unicodedata. Some lack names. "
    "The functions of tools need no import."
)
_NAMES: Final = {
    "asyncio": "asyncio has `gather` and `run`. Calls need no tasks, semaphores and timeouts.",
    "collections": "collections has `Counter`, `defaultdict`, `deque` and `namedtuple`. Dicts keep their order.",
    "dataclasses": "dataclasses has `dataclass`, `field` and `is_dataclass`.",
    "datetime": "datetime has `date`, `datetime`, `time`, `timedelta` and `timezone`, which has `timezone.utc`.",
    "functools": "functools has `cache`, `lru_cache`, `partial` and `reduce`.",
    "typing": "typing has `Any`, `Callable`, `Dict`, `List`, `Optional` and few more. Leave annotations out.",
}
"""What some modules have."""
_AWAIT: Final = "Await the call. A function that awaits begins with `async def`."
_KEYS: Final = "Read a key as `value['title']`."
_METHODS: Final = "A method can only be called: write `lambda x: x.lower()` or `lambda x: counts.get(x)`."
_UNCALLED: Final = (
    r"\S*(?:dict|Counter)' object has no attribute '(?:get|items|keys|pop|values)'|"
    r"str' (?:object )?has no attribute '(?:capitalize|lower|replace|split|startswith|strip|title|upper)'|"
    r"list' object has no attribute '(?:append|count|index)'"
)
"""Methods that are there. Monty finds them only where they are called."""
_CALLBACKS: Final = "Call functions of tools in a loop or a comprehension, not in `map`, `filter`, `sorted` or `max`."
_GATHER: Final = "Catch errors in an async function around each call, and gather its calls."
_LISTS: Final = "Pass a list, such as `[value]` or `list(values)`."
_HINTS: Final = tuple(
    (re.compile(pattern), hint)
    for pattern, hint in (
        (r"Line \d+: Cannot resolve imported module|ModuleNotFoundError: ", _IMPORTS),
        *(
            (rf"Line \d+: Module `{module}` has no member|ImportError: cannot import name '\w+' from '{module}'", hint)
            for module, hint in _NAMES.items()
        ),
        (rf"ImportError: cannot import name '\w+' from '(?!{'|'.join(_NAMES)})", _IMPORTS),
        (r"NotImplementedError: gather\(\) |Line \d+: `gather` has no", _GATHER),
        (r"Line \d+: .*`CoroutineType\[|(?:Type|Attribute)Error: 'coroutine' object ", _AWAIT),
        (r"Line \d+: Object of type `\w*_\w+` has no attribute|Line \d+: .*`bound method \w+_\w*\.", _KEYS),
        (r"AttributeError: 'dict' object has no attribute", _KEYS),
        (rf"AttributeError: (?:type object )?'(?:{_UNCALLED})", _METHODS),
        (
            r"Line \d+: A value of type `str` has no key|TypeError: string indices must be integers",
            "A loop over a dict gives its keys. Loop over the list in it.",
        ),
        (r"KeyError: ", "Print the keys that are there: `print(list(value))`."),
        (r"TypeError: the JSON object must be str", "Results are values: leave `json.loads` out."),
        (r"Line \d+: Name `(?:true|false|null)` used", "Write True, False and None."),
        (r"Line \d+: A value of type `list\[.* has no key", "Read an item first: `values[0]['title']`."),
        (r"Line \d+: A value of type `\w*_\w+` has no key \d", "It is a dict. Read the list in it first."),
        (r"Line \d+: Name `\w+(?:Error|Exception)` used", "A call that fails raises RuntimeError."),
        (
            r"Line \d+: Name `(?:functions|tools|default_api|api|client|mcp|server|\w+__\w+)` used",
            "Call a function by its name alone.",
        ),
        (r"Line \d+: .*found `(?:dict_|range)|RuntimeError: .*should be (?:a valid list|of type array)", _LISTS),
        (
            r"TypeError: 'list' object is not an iterator",
            "Generator expressions are lists: write `next(iter(…), None)`.",
        ),
        (r"TypeError: '\w+' object is not callable", "A variable may have the name of a function: use another name."),
        (r"TypeError: JSONEncoder.* 'default'", "Leave `default` out. Turn dates into texts first: `str(day)`."),
        (r"NotImplementedError: .* cannot be called by another function", _CALLBACKS),
        (
            r"RuntimeError: '[\w.]+' is not supported|PermissionError: Permission denied: '/",
            "Programs have no files, network, environment and sleep. Leave it out.",
        ),
        (r"Line \d+: Programs do not support yield", "Return a list."),
        (r"Line \d+: Programs do not support the 'del'", "Write `values.pop(key)`."),
        (
            r"Line \d+: Programs do not support class inheritance",
            "Write a class without a base, or a dict. Raise RuntimeError.",
        ),
        (
            r"Line \d+: `gather` is not awaited|TypeError: '\w+' object can't be awaited",
            "Write `await asyncio.gather(…)`, or call the functions directly, without asyncio.",
        ),
        (r"Line \d+: Got unexpected token `", "Pass only the program, without text or ``` around it."),
    )
)


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
    hints = _find_hints(lines if is_check else lines[-1:])
    if len(lines) > _MAX_LINES:
        half = _MAX_LINES // 2
        lines = [*lines[:half], f"… ({len(lines) - _MAX_LINES} more lines) …", *lines[-half:]]
    return "\n".join([*(_FRAME.sub(lambda match: _frame(match[1], shift), line) for line in lines), *hints])


def to_unsupported(display: str, message: str) -> str:
    """Return the message of a check for what Monty's parser does not know, with its line."""
    frame = _FRAME.search(display)
    line = f"Line {int(frame[1]) - 1}: " if frame is not None and frame[1] else ""
    text = f"{line}{_cut(message.replace(_PARSER, 'Programs do not support')).removesuffix('.')}."
    return "\n".join([text, *_find_hints([text])])


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


def _find_hints(lines: list[str]) -> list[str]:
    """Return the hints for the lines of a message."""
    return list(dict.fromkeys(hint for pattern, hint in _HINTS if any(map(pattern.match, lines))))
