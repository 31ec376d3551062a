"""The arguments of an operation: one input schema for its parameters and its body, and where each one is sent."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.dialects.description import append_description
from ahvn_tools.sources.http.request import HTTPArgument
from ahvn_tools.sources.openapi.bodies import Body
from ahvn_tools.sources.openapi.names import argument_name
from ahvn_tools.sources.openapi.parameters import Parameter
from ahvn_tools.sources.openapi.schemas import SchemaConverter

_LOCATIONS: Final = ("path", "query", "header", "cookie")
"""Of several parameters of one name, the first of these keeps it."""

_LABELS: Final = {
    "path": "path parameter",
    "query": "query parameter",
    "header": "header",
    "cookie": "cookie",
    "body": "member of the body",
}


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The arguments of an operation."""

    schema: JsonObject
    places: Mapping[str, HTTPArgument]
    """Where each argument is sent."""


def build_arguments(
    parameters: Iterable[Parameter], body: Body | None, converter: SchemaConverter, reserved: Collection[str] = ()
) -> Arguments:
    """Return the arguments of an operation. No argument has a `reserved` name.

    Raises DocumentError for a schema that is not one.
    """
    collected = _Collected(reserved)
    for parameter in sorted(parameters, key=lambda one: _LOCATIONS.index(one.location)):
        place = HTTPArgument(
            location=parameter.location,
            name=parameter.name,
            style=parameter.style,
            explode=parameter.explode,
            content_type="application/json" if parameter.is_json else None,
            allow_reserved=parameter.allow_reserved,
            is_declared=True,
        )
        collected.add(_parameter_schema(parameter, converter), place, is_required=parameter.is_required)
    if body is not None:
        _add_body(collected, body)
    schema: JsonObject = {"type": "object", "properties": collected.properties, "additionalProperties": False}
    if collected.required:
        schema["required"] = collected.required
    definitions = converter.definitions_of(schema)
    return Arguments(schema={**schema, "$defs": definitions} if definitions else schema, places=collected.places)


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


def _parameter_schema(parameter: Parameter, converter: SchemaConverter) -> Any:
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
