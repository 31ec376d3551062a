"""Hints: how a model writes a program without what Monty's Python lacks."""

from __future__ import annotations

import re
from typing import Final

_IMPORTS: Final = (
    "Modules that can be imported: asyncio, base64, bisect, collections, copy, csv, dataclasses, datetime, decimal, "
    "functools, hashlib, itertools, json, math, random, re, time, typing, unicodedata. Some lack names. "
    "The functions of tools need no import."
)
_KEYS: Final = "Read a key as `value['title']`."
_HINTS: Final = tuple(
    (re.compile(pattern), hint)
    for pattern, hint in (
        (r"Line \d+: Cannot resolve imported module|ModuleNotFoundError: |ImportError: cannot import name", _IMPORTS),
        (r"Line \d+: Module `asyncio` has no member", "asyncio has `gather` and `run`."),
        (
            r"NotImplementedError: gather\(\) ",
            "Catch errors in an async function around each call, and gather its calls.",
        ),
        (r"Line \d+: .*`CoroutineType\[", "Await the call."),
        (r"Line \d+: `return` statement outside", "End with an expression instead: its value is the result."),
        (r"Line \d+: Object of type `\w*_\w+` has no attribute|AttributeError: 'dict' object has no attribute", _KEYS),
        (
            r"TypeError: 'list' object is not an iterator",
            "Generator expressions are lists: write `next(iter(…), None)`.",
        ),
        (r"Line \d+: Got unexpected token `", "Pass only the program, without text or ``` around it."),
    )
)


def find_hints(lines: list[str]) -> list[str]:
    """Return the hints for the lines of a message."""
    return [hint for pattern, hint in _HINTS if any(map(pattern.match, lines))]
