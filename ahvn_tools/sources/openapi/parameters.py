"""The parameters of an operation: where each one is sent, and how its value is written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, cast
from urllib.parse import parse_qsl

from ahvn_tools.sources.openapi.document import Node
from ahvn_tools.sources.openapi.media_types import is_json

Location = Literal["path", "query", "header", "cookie"]
Style = Literal["matrix", "label", "simple", "form", "spaceDelimited", "pipeDelimited", "deepObject"]

_DEFAULT_STYLES: Final[dict[str, Style]] = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
_STYLES: Final[dict[str, frozenset[str]]] = {
    "path": frozenset({"matrix", "label", "simple"}),
    "query": frozenset({"form", "spaceDelimited", "pipeDelimited", "deepObject"}),
    "header": frozenset({"simple"}),
    "cookie": frozenset({"form", "cookie"}),
}
_RESERVED_HEADERS: Final = frozenset({
    "accept", "accept-encoding", "authorization", "connection", "content-length", "content-type", "cookie", "cookie2",
    "date", "expect", "forwarded", "host", "keep-alive", "origin", "proxy-authenticate", "proxy-authorization",
    "set-cookie", "te", "trailer", "transfer-encoding", "upgrade", "via",
})  # fmt: skip
"""Headers that belong to the protocol or carry credentials: no model sets them, whatever a document says."""
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A name of a header or a cookie: RFC 9110, section 5.6.2."""
_PLACE: Final = re.compile(r"\{([^{}]+)\}")
_SAME_STYLES: Final[dict[tuple[str, str], tuple[Style, bool]]] = {
    ("query", "simple"): ("form", False), ("path", "form"): ("simple", False), ("header", "form"): ("simple", False),
    ("cookie", "simple"): ("form", False),
}  # fmt: skip
"""The style, and whether it explodes, of a style that its location does not have, by both."""
_RESERVED_PREFIXES: Final = (
    "proxy-", "sec-", "x-forwarded-", "x-http-method", "x-method-override", "x-original-", "x-rewrite-",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter in the path, the query, a header or a cookie."""

    name: str
    """Its name in the request."""
    location: Location
    style: Style = "form"
    explode: bool = True
    """Whether each item or member is written by itself, with the name of the parameter or its own."""
    is_json: bool = False
    """Whether the value is written as JSON."""
    allow_reserved: bool = False
    """Whether reserved characters, such as `/`, stay as they are in a query."""
    is_required: bool = False
    is_deprecated: bool = False
    description: str = ""
    schema: Node | None = field(default=None, repr=False, compare=False)
    example: Any = field(default=None, repr=False, compare=False)


def is_reserved_header(name: str) -> bool:
    """Return whether a header belongs to the protocol, to proxies or to credentials."""
    lowered = name.lower()
    return lowered in _RESERVED_HEADERS or lowered.startswith(_RESERVED_PREFIXES)


def read_parameters(*lists: Node | None) -> list[Parameter]:
    """Return the parameters of an operation: those of later lists replace those of earlier ones.

    Reserved headers are left out. Raises DocumentError for a parameter that cannot be sent.
    """
    parameters: dict[tuple[str, str], Parameter] = {}
    for nodes in lists:
        for node in () if nodes is None else nodes.items():
            parameter = _read_parameter(node)
            parameters[parameter.name, parameter.location] = parameter
    return [
        parameter
        for parameter in parameters.values()
        if not (parameter.location == "header" and is_reserved_header(parameter.name))
    ]


def fit_path(path: str, parameters: list[Parameter]) -> tuple[str, tuple[tuple[str, str], ...], list[Parameter]]:
    """Return the path of requests, what is always in their query, and the parameters that have a place in them.

    A path may have a query, and a fragment that tells operations of one address from each other and is never sent. A
    template in it that no parameter describes is a text, and a path parameter without a template is left out.
    """
    path, _, text = path.strip().partition("#")[0].partition("?")
    path = path if path.startswith("/") else f"/{path}"
    declared = {one.name: one for one in parameters if one.location == "path"}
    similar = {name.lower(): name for name in declared}
    places: dict[str, Parameter] = {}

    def place(written: str) -> str:
        bare = written.partition(":")[0].strip("+*?. ") or written
        name = next((one for one in (written, bare) if one in declared), similar.get(bare.lower(), bare))
        found = declared.get(name) or Parameter(name=name, location="path", style="simple", explode=False)
        places[name] = replace(found, is_required=True)
        return name

    path = _PLACE.sub(lambda match: "{" + place(match[1]) + "}", path)
    in_path = list(places.values())
    fixed = []
    moved = []
    for key, value in parse_qsl(text, keep_blank_values=True):
        match = _PLACE.fullmatch(value)
        if match is None:
            fixed.append((key, value))
            continue
        one = places[place(match[1])]
        moved.append(replace(one, name=key, location="query", style="form", explode=True))
    others = [one for one in parameters if one.location != "path"]
    known = {(one.location, one.name) for one in others}
    return path, tuple(fixed), [*in_path, *others, *(one for one in moved if ("query", one.name) not in known)]


def without(parameters: Iterable[Parameter], credentials: Iterable[tuple[str, str]]) -> list[Parameter]:
    """Return the parameters without those that carry credentials, given as location and name in lower case."""
    taken = set(credentials)
    return [one for one in parameters if (one.location, one.name.lower()) not in taken]


def _read_parameter(node: Node) -> Parameter:
    node.require(dict)
    name, location = node.read("name", str, ""), node.read("in", str, "")
    if not name:
        raise node.error("a parameter needs a `name`.")
    if location not in _STYLES:
        place = node.get("in") or node
        raise place.error(f"a parameter is in {location!r}; use path, query, header or cookie.")
    if location in {"header", "cookie"} and not _TOKEN.fullmatch(name):
        raise node.child("name").error(f"a {location} cannot be named {name!r}.")
    style = node.read("style", str, _DEFAULT_STYLES[location])
    style, explode = _SAME_STYLES.get((location, style), (style, style in {"form", "deepObject"}))
    if style not in _STYLES[location]:
        known = ", ".join(sorted(_STYLES[location]))
        raise node.child("style").error(f"a parameter in {location} has no style {style!r}; use {known}.")
    style = "form" if style == "cookie" else style
    schema, has_json = _read_schema(node)
    return Parameter(
        name=name,
        location=cast("Location", location),
        style=cast("Style", style),
        explode=node.read("explode", bool, default=explode),
        is_json=has_json,
        allow_reserved=node.read("allowReserved", bool, default=False),
        is_required=location == "path" or node.read("required", bool, default=False),
        is_deprecated=node.read("deprecated", bool, default=False),
        description=node.read("description", str, ""),
        schema=schema,
        example=node.value.get("example"),
    )


def _read_schema(node: Node) -> tuple[Node | None, bool]:
    """Return the schema of a parameter, and whether its value is sent as JSON."""
    content = node.get("content")
    if content is None:
        if "schema" in node.value:
            return node.child("schema"), False
        return (node if "type" in node.value else None), False  # as Swagger 2.0 has it
    media_types = list(content.members())
    if len(media_types) != 1:
        raise content.error(f"a parameter has one media type, not {len(media_types)}.")
    name, media_type = media_types[0]
    media_type = media_type.resolve().require_node(dict)
    return (media_type.child("schema") if "schema" in media_type.value else None), is_json(name)
