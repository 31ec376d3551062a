"""The JSON objects in a model's text: valid, with mistakes, or truncated."""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from operator import itemgetter

from ahvn_tools.formats.parsing.broken_json import ParsedObject, scan_object
from ahvn_tools.json_types import JsonObject

MAX_REPAIRS = 10
"""At most this many objects of one text are repaired; the rest of the text is ignored."""

MAX_REPAIR_COST = 2_000_000
"""The limit for all repairs of one text, in characters times quotes and brackets: the repair time grows with both."""

_START = re.compile(r"<(think|thinking|thought|reasoning)>|\{", re.IGNORECASE)
_END_OF_THOUGHTS = re.compile(r"</(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_VALID_START = re.compile(r"""\{\s*(?:\}|"(?:[^"\\]|\\.)*"\s*:)""", re.DOTALL)
_OBJECT_START = re.compile(
    r"\{(?:\s|//[^\n]{0,200}\n|\#[^\n]{0,200}\n|/\*.{0,200}?\*/){0,200}"  # comments may come first
    r"""(?:["“”][^"“”\n]{1,100}["“”]|'[^'\n]{1,100}'|[\w-]{1,100})\s{0,200}:""",
    re.DOTALL,
)
_CONTINUATION = re.compile(r"""\s*(?:\}|,?\s*["'“][\w-]{1,100}["'”]\s*:)""")
"""Follows an object whose last brace came too early: another member, or another closing brace."""


def iter_json_objects(text: str, wrapper_keys: Collection[str]) -> Iterator[ParsedObject]:
    """Yield the objects in a text in order, except in a model's thoughts.

    Objects inside another object are part of it. They are yielded separately only if the outer object cannot be read
    and the readable part of it has one of the `wrapper_keys`.
    """
    repairs, budget = 0, MAX_REPAIR_COST
    position = _end_of_leading_thoughts(text)
    opaque_spans: list[tuple[int, int]] = []  # texts inside an unreadable wrapper: braces in them are no objects
    while (start := _START.search(text, position)) and repairs < MAX_REPAIRS:
        if end_of_span := _end_of_span(opaque_spans, start.start()):
            position = end_of_span
        elif start[1]:
            end = _END_OF_THOUGHTS.search(text, start.end())
            position = end.end() if end else len(text)
        elif valid := _decode_valid(text, start.start()):
            value, position = valid
            yield ParsedObject(value=value, is_truncated=_CONTINUATION.match(text, position) is not None)
        elif not _OBJECT_START.match(text, start.start()):
            position = start.end()  # a brace in prose
        else:
            broken = scan_object(text, start.start())
            repairs, budget = repairs + 1, budget - broken.repair_cost
            parsed, position = broken.parse(is_repairable=budget >= 0), broken.end
            yield replace(parsed, is_truncated=True) if _CONTINUATION.match(text, position) else parsed
            if not parsed.is_exact and any(key in parsed.value for key in wrapper_keys):
                opaque_spans, position = broken.opaque_spans, start.end()


def _end_of_span(spans: list[tuple[int, int]], position: int) -> int:
    """Return the end of the span that contains a position, or 0. Spans are sorted."""
    index = bisect.bisect_right(spans, position, key=itemgetter(0))
    return spans[index - 1][1] if index and position < spans[index - 1][1] else 0


def _end_of_leading_thoughts(text: str) -> int:
    """Return the end of thoughts that began before the text, or 0: some hosts open them in the prompt.

    An end tag inside an object belongs to the object.
    """
    position, end = 0, _END_OF_THOUGHTS.search(text)
    while end:
        start = _START.search(text, position, end.start())
        if start is None:
            return end.end()
        if start[1]:
            return 0
        position = _end_of_object(text, start.start())
        if position > end.start():
            end = _END_OF_THOUGHTS.search(text, position)
    return 0


def _end_of_object(text: str, start: int) -> int:
    """Return the end of the object that begins at a brace, or the next position for a brace in prose."""
    if valid := _decode_valid(text, start):
        return valid[1]
    return scan_object(text, start).end if _OBJECT_START.match(text, start) else start + 1


def _decode_valid(text: str, start: int) -> tuple[JsonObject, int] | None:
    if not _VALID_START.match(text, start):
        return None
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return value, end
