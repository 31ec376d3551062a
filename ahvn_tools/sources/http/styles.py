"""How values are written in a path, a query, a header and a cookie: OpenAPI's styles, percent-encoded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import quote

from ahvn_tools.sources.http.request import HTTPArgument

_RESERVED_SAFE = "!$'()*,/:;?@"
"""The reserved characters that mean nothing in the value of a query."""

Pair = tuple[str, str]
"""A name and a value of the query or of a form, both percent-encoded."""

_DELIMITERS = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}

_COOKIE_SAFE = "!#$%&'()*+-./:<=>?@[]^_`{|}~"
"""What a value of a cookie may contain beside letters and digits: RFC 6265, section 4.1.1, without the comma."""


def to_text(value: Any) -> str:
    """Return a JSON value as text: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def to_json_text(value: Any) -> str:
    """Return a value as JSON, a text in quotes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def percent_encode(text: str) -> str:
    """Return a text in which everything but letters, digits and `-._~` is percent-encoded."""
    return quote(text, safe="")


def path_text(argument: HTTPArgument, value: Any) -> str:
    """Return a value for a path, percent-encoded."""
    if argument.content_type is not None:
        return percent_encode(to_json_text(value))
    return _labelled_text(argument, value, percent_encode)


def header_text(argument: HTTPArgument, value: Any) -> str:
    """Return a value for a header."""
    if argument.content_type is not None:
        return json.dumps(value)
    return _labelled_text(argument, value, str)


def cookie_text(value: Any) -> str:
    """Return a value for a cookie; what a cookie cannot contain is percent-encoded."""
    parts = [item for pair in value.items() for item in pair] if isinstance(value, dict) else value
    text = ",".join(map(to_text, parts)) if isinstance(parts, list) else to_text(value)
    return quote(text, safe=_COOKIE_SAFE)


def query_pairs(argument: HTTPArgument, value: Any) -> list[Pair]:
    """Return the names and values of a query or of a form; none for null."""
    name, encode = percent_encode(argument.name), _encode_reserved if argument.allow_reserved else _encode_value
    style = argument.style or "form"
    explodes = style == "form" if argument.explode is None else argument.explode
    if value is None:
        return []
    if argument.content_type is not None:
        return [(name, percent_encode(to_json_text(value)))]
    if not isinstance(value, dict | list):
        return [(name, encode(value))]
    if style == "deepObject":
        return list(_bracketed_pairs(name, value, encode))
    value = _without_nulls(value)
    if explodes and isinstance(value, dict):
        return [(percent_encode(key), encode(item)) for key, item in value.items()]
    if explodes:
        return [(name, encode(item)) for item in value]
    return [(name, _DELIMITERS.get(style, ",").join(_flatten(value, encode)))]


def _bracketed_pairs(name: str, value: Any, encode: Callable[[Any], str]) -> Iterator[Pair]:
    """Yield the values in an object or a list at any depth, as `a[b][0]=…`."""
    if not isinstance(value, dict | list):
        yield name, encode(value)
        return
    value = _without_nulls(value)
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _bracketed_pairs(f"{name}%5B{percent_encode(str(key))}%5D", item, encode)


def _without_nulls(value: Any) -> Any:
    """Return an object or a list without its nulls, which are not sent: RFC 6570, section 2.3."""
    if isinstance(value, dict):
        return {key: item for key, item in value.items() if item is not None}
    return [item for item in value if item is not None]


def _encode_value(value: Any) -> str:
    return percent_encode(to_text(value))


def _encode_reserved(value: Any) -> str:
    return quote(to_text(value), safe=_RESERVED_SAFE)


def _flatten(value: Any, encode: Callable[[Any], str]) -> Iterable[str]:
    items = value.items() if isinstance(value, dict) else ((item,) for item in value)
    return (encode(part) for item in items for part in item)


def _labelled_text(argument: HTTPArgument, value: Any, encode: Callable[[str], str]) -> str:
    """Return a value in one of the styles of a path: `simple`, `label`, `matrix`."""
    style, explodes = argument.style or "simple", bool(argument.explode)
    name = encode(argument.name)
    prefix = {"label": ".", "matrix": f";{name}="}.get(style, "")
    if not isinstance(value, dict | list):
        return prefix + encode(to_text(value))
    value = _without_nulls(value)
    separator = {"label": ".", "matrix": f";{name}="}.get(style, ",") if explodes else ","
    if not (explodes and isinstance(value, dict)):
        return prefix + separator.join(_flatten(value, lambda part: encode(to_text(part))))
    pairs = [f"{encode(key)}={encode(to_text(item))}" for key, item in value.items()]
    prefix, separator = {"label": (".", "."), "matrix": (";", ";")}.get(style, ("", ","))
    return prefix + separator.join(pairs)
