"""The arguments of an operation: one input schema for its parameters and its body, and where each one is sent."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast
from urllib.parse import parse_qsl

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.dialects.description import append_description
from ahvn_tools.schema.refs import unused_name
from ahvn_tools.sources.http.request import HTTPArgument, Location, Style
from ahvn_tools.sources.openapi.bodies import Body
from ahvn_tools.sources.openapi.document import Node, is_json
from ahvn_tools.sources.openapi.schemas import SchemaConverter

MAX_LENGTH: Final = 64
"""The limit of the strictest provider."""

_DIGEST_LENGTH: Final = 8
_UNSAFE_IN_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")
_UNSAFE_IN_ARGUMENT: Final = re.compile(r"[^A-Za-z0-9_.-]+")


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

_LOCATIONS: Final = ("path", "query", "header", "cookie")
"""Of several parameters of one name, the first of these keeps it."""

_LABELS: Final = {
    "path": "path parameter",
    "query": "query parameter",
    "header": "header",
    "cookie": "cookie",
    "body": "member of the body",
}


def tool_name(operation_id: str | None, method: str, path: str) -> str:
    """Return the name of a tool: the operation's id, or its method and path.

    >>> tool_name("pets.list", "get", "/pets")
    'pets_list'
    >>> tool_name(None, "get", "/pets/{petId}/toys")
    'get_pets_petId_toys'
    """
    return _portable(operation_id or method + path, _UNSAFE_IN_NAME)


def argument_name(name: str, location: str, taken: Container[str]) -> str:
    """Return the name of an argument: its own if possible, else one with its location, such as `query_id`."""
    own = _portable(name, _UNSAFE_IN_ARGUMENT)
    if own not in taken:
        return own
    return unused_name(_portable(f"{location}_{own}", _UNSAFE_IN_ARGUMENT), taken)


def _portable(text: str, unsafe: re.Pattern[str]) -> str:
    name = unsafe.sub("_", text).strip("_") if unsafe.search(text) else text
    if not re.match(r"[A-Za-z_]", name):
        name = f"_{name}"
    if len(name) <= MAX_LENGTH:
        return name
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    return f"{name[: MAX_LENGTH - _DIGEST_LENGTH - 1]}_{digest}"


@dataclass(frozen=True, kw_only=True)
class OpenAPIParameter:
    """A parameter in the path, the query, a header or a cookie."""

    place: HTTPArgument
    is_required: bool = False
    is_deprecated: bool = False
    description: str = ""
    schema: Node | None = field(default=None, repr=False, compare=False)
    example: Any = field(default=None, repr=False, compare=False)

    @property
    def name(self) -> str:
        """Its name in the request."""
        return self.place.name

    @property
    def location(self) -> str:
        """Where it is sent."""
        return self.place.location


def is_reserved_header(name: str) -> bool:
    """Return whether a header belongs to the protocol, to proxies or to credentials."""
    lowered = name.lower()
    return lowered in _RESERVED_HEADERS or lowered.startswith(_RESERVED_PREFIXES)


def read_parameters(*lists: Node | None) -> list[OpenAPIParameter]:
    """Return the parameters of an operation: those of later lists replace those of earlier ones.

    Reserved headers are left out. Raises DocumentError for a parameter that cannot be sent.
    """
    parameters: dict[tuple[str, str], OpenAPIParameter] = {}
    for nodes in lists:
        for node in () if nodes is None else nodes.items():
            parameter = _read_parameter(node)
            parameters[parameter.name, parameter.location] = parameter
    return [
        parameter
        for parameter in parameters.values()
        if not (parameter.location == "header" and is_reserved_header(parameter.name))
    ]


def fit_path(
    path: str, parameters: list[OpenAPIParameter]
) -> tuple[str, tuple[tuple[str, str], ...], list[OpenAPIParameter]]:
    """Return the path of requests, what is always in their query, and the parameters that have a place in them.

    A path may have a query, and a fragment that tells operations of one address from each other and is never sent. A
    template in it that no parameter describes is a text, and a path parameter without a template is left out.
    """
    path, _, text = path.strip().partition("#")[0].partition("?")
    path = path if path.startswith("/") else f"/{path}"
    declared = {one.name: one for one in parameters if one.location == "path"}
    similar = {name.lower(): name for name in declared}
    places: dict[str, OpenAPIParameter] = {}

    def place(written: str) -> str:
        bare = written.partition(":")[0].strip("+*?. ") or written
        name = next((one for one in (written, bare) if one in declared), similar.get(bare.lower(), bare))
        default = HTTPArgument(location="path", name=name, style="simple", explode=False, is_declared=True)
        places[name] = replace(declared.get(name) or OpenAPIParameter(place=default), is_required=True)
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
        moved.append(replace(one, place=replace(one.place, name=key, location="query", style="form", explode=True)))
    others = [one for one in parameters if one.location != "path"]
    known = {(one.location, one.name) for one in others}
    return path, tuple(fixed), [*in_path, *others, *(one for one in moved if ("query", one.name) not in known)]


def without(parameters: Iterable[OpenAPIParameter], credentials: Iterable[tuple[str, str]]) -> list[OpenAPIParameter]:
    """Return the parameters without those that carry credentials, given as location and name in lower case."""
    taken = set(credentials)
    return [one for one in parameters if (one.location, one.name.lower()) not in taken]


def _read_parameter(node: Node) -> OpenAPIParameter:
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
    sent = HTTPArgument(
        location=cast("Location", location),
        name=name,
        style=cast("Style", style),
        explode=node.read("explode", bool, default=explode),
        content_type="application/json" if has_json else None,
        allow_reserved=node.read("allowReserved", bool, default=False),
        is_declared=True,
    )
    return OpenAPIParameter(
        place=sent,
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


def build_arguments(
    parameters: Iterable[OpenAPIParameter],
    body: Body | None,
    converter: SchemaConverter,
    reserved: Collection[str] = (),
) -> tuple[JsonObject, dict[str, HTTPArgument]]:
    """Return the schema of the arguments of an operation, and where each is sent. None has a `reserved` name.

    Raises DocumentError for a schema that is not one.
    """
    collected = _Collected(reserved)
    for parameter in sorted(parameters, key=lambda one: _LOCATIONS.index(one.location)):
        collected.add(_parameter_schema(parameter, converter), parameter.place, is_required=parameter.is_required)
    if body is not None:
        _add_body(collected, body)
    schema: JsonObject = {"type": "object", "properties": collected.properties, "additionalProperties": False}
    if collected.required:
        schema["required"] = collected.required
    definitions = converter.definitions_of(schema)
    return {**schema, "$defs": definitions} if definitions else schema, collected.places


class _Collected:
    """The arguments so far."""

    def __init__(self, reserved: Collection[str]) -> None:
        self.properties: JsonObject = {}
        self.required: list[str] = []
        self.places: dict[str, HTTPArgument] = {}
        self._taken = set(reserved)

    def add(self, schema: Any, place: HTTPArgument, *, is_required: bool) -> None:
        """Add an argument under its own name, or under another, which its description explains."""
        name = argument_name(place.name, "body" if place.location == "whole-body" else place.location, self._taken)
        if name != place.name and place.location in _LABELS:
            schema = {**schema} if isinstance(schema, dict) else {}
            append_description(schema, [f"The {_LABELS[place.location]} {place.name!r}."])
        if isinstance(schema, dict) and schema.get("deprecated") is True:  # which few providers read
            schema = {**schema}
            append_description(schema, ["Deprecated."])
        self._taken.add(name)
        self.properties[name] = schema
        self.places[name] = place
        if is_required:
            self.required.append(name)

    def has_any(self, names: Iterable[str]) -> bool:
        """Whether one of these names is in use."""
        return not self._taken.isdisjoint(names)


def _add_body(collected: _Collected, body: Body) -> None:
    members = body.members
    if members is not None and not (body.kind == "json" and collected.has_any(members)):
        for member in members.values():
            collected.add(member.schema, member.place, is_required=member.is_required and body.is_required)
        return
    schema = {**body.schema} if isinstance(body.schema, dict) else {}
    if body.description:
        schema["description"] = body.description
    whole = HTTPArgument(location="whole-body", name="body")
    collected.add(schema, whole, is_required=body.is_required)


def _parameter_schema(parameter: OpenAPIParameter, converter: SchemaConverter) -> Any:
    """Return the schema of a parameter with its description."""
    schema = {} if parameter.schema is None else converter.convert(parameter.schema)
    schema = {**schema} if isinstance(schema, dict) else {}
    if parameter.description:
        schema["description"] = parameter.description
    if parameter.is_deprecated:
        schema["deprecated"] = True
    if parameter.example is not None and "$ref" not in schema:
        schema.setdefault("examples", [parameter.example])
    return schema
