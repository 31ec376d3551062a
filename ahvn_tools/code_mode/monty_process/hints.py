"""Hints: how a model writes a program without what Monty's Python lacks."""

from __future__ import annotations

import re
from typing import Final

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


def find_hints(lines: list[str]) -> list[str]:
    """Return the hints for the lines of a message."""
    return list(dict.fromkeys(hint for pattern, hint in _HINTS if any(map(pattern.match, lines))))
