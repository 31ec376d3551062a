"""Parameters of plain types, such as `int`, `list[str]` and `str | None`: the schemas that pydantic makes, made faster.

Most tools have no others. Pydantic spends most of the time on finding out what a type is.
"""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, Union, get_args, get_origin

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.inputs import Parameter

EMPTY = inspect.Parameter.empty

_SCALARS: Final[Mapping[Any, str]] = {str: "str", int: "int", bool: "bool", float: "float"}
_JSON_TYPES: Final = {"str": "string", "int": "integer", "bool": "boolean", "float": "number"}


def are_plain(parameters: Iterable[inspect.Parameter], annotations: Mapping[str, Any]) -> bool:
    """Return whether parameters, with these annotations, have plain types and defaults; else pydantic is needed."""
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            return False
        if parameter.default is not EMPTY and not _is_plain_default(parameter.default):
            return False
        if _to_core_schema(annotations[parameter.name]) is None:
            return False
    return True


def to_core_schema(parameters: Iterable[Parameter]) -> Any:
    """Return the core schema of a function with plain parameters, as keyword-only ones."""
    fields = []
    for parameter in parameters:
        schema = _to_core_schema(parameter.annotation)
        if not parameter.is_required:
            schema = {"type": "default", "schema": schema, "default": parameter.fixed_default}
        fields.append({"name": parameter.name, "mode": "keyword_only", "schema": schema})
    return {"type": "call", "arguments_schema": {"type": "arguments", "arguments_schema": fields}}


def to_json_schema(parameters: Iterable[Parameter]) -> JsonObject:
    """Return the clean JSON Schema of plain parameters (see `clean_schema`)."""
    properties: JsonObject = {}
    required = []
    for parameter in parameters:
        name = parameter.name
        properties[name] = _to_json_schema(_to_core_schema(parameter.annotation))
        if parameter.is_required:
            required.append(name)
        else:
            inner = properties[name] or {"title": get_title_from_name(name)}
            properties[name] = dict(sorted({**inner, "default": parameter.fixed_default}.items()))
    needed = {"required": required} if required else {}
    return {"additionalProperties": False, "properties": properties, **needed, "type": "object"}


def get_title_from_name(name: str) -> str:
    """Return the title that pydantic makes of a parameter's name."""
    return name.title().replace("_", " ").strip()


def plain_schema(annotation: Any) -> JsonObject | None:
    """Return the JSON Schema of a plain type; None for another type."""
    schema = _to_core_schema(annotation)
    return None if schema is None else _to_json_schema(schema)


def _to_core_schema(annotation: Any) -> Any:
    """Return the core schema of a plain type; None for another type."""
    if type(annotation) is type:
        return (
            {"type": _SCALARS[annotation]}
            if annotation in _SCALARS
            else {"type": "any"}
            if annotation is EMPTY
            else None
        )
    if annotation is Any:
        return {"type": "any"}
    origin, arguments = get_origin(annotation), get_args(annotation)
    if not arguments:
        return None
    if origin is list:
        items = _to_core_schema(arguments[0])
        return items and {"type": "list", "items_schema": items}
    if origin is dict and len(arguments) == 2 and arguments[0] is str:  # noqa: PLR2004  # of keys and values
        values = _to_core_schema(arguments[1])
        return values and {"type": "dict", "keys_schema": {"type": "str"}, "values_schema": values}
    if origin is Literal and all(type(value) is str and value.isascii() for value in arguments):
        return {"type": "literal", "expected": list(arguments)}
    if origin in (Union, types.UnionType) and len(arguments) == 2 and types.NoneType in arguments:  # noqa: PLR2004
        inner = _to_core_schema(arguments[arguments[0] is types.NoneType])
        return inner and {"type": "nullable", "schema": inner}
    return None


def _to_json_schema(schema: Any) -> JsonObject:
    """Return the JSON Schema of a plain type, from its core schema."""
    match schema["type"]:
        case "any":
            return {}
        case "list":
            return {"items": _to_json_schema(schema["items_schema"]), "type": "array"}
        case "dict":
            return {"additionalProperties": _to_json_schema(schema["values_schema"]) or True, "type": "object"}
        case "literal":
            values = schema["expected"]
            return {"const": values[0], "type": "string"} if len(values) == 1 else {"enum": values, "type": "string"}
        case "nullable":
            return {"anyOf": [_to_json_schema(schema["schema"]), {"type": "null"}]}
        case name:
            return {"type": _JSON_TYPES[name]}


def _is_plain_default(value: Any) -> bool:
    """Return whether a default is its own JSON form and never changes."""
    kind = type(value)
    if kind is str:
        return bool(value.isascii())
    return value is None or kind is int or kind is bool or (kind is float and math.isfinite(value))
