"""Parameters of plain types, such as `int`, `list[str]` and `str | None`: the schemas that pydantic makes, made faster.

Most tools have no others. Pydantic spends most of the time on finding out what a type is.
"""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Sequence
from typing import Any, Literal, Union, get_args, get_origin

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.titles import get_title_from_name

EMPTY = inspect.Parameter.empty

_SCALAR_TYPES: tuple[tuple[Any, str], ...] = ((str, "str"), (int, "int"), (bool, "bool"), (float, "float"))
_JSON_TYPES = {"str": "string", "int": "integer", "bool": "boolean", "float": "number"}


class PlainParameters:
    """Keyword-only parameters of plain types. It has what FunctionInputs reads of a TypeAdapter."""

    def __init__(self, fields: list[Any]) -> None:
        arguments = {"type": "arguments", "arguments_schema": fields}
        self.core_schema: Any = {"type": "call", "arguments_schema": arguments}

    @classmethod
    def from_parameters(cls, parameters: Sequence[inspect.Parameter]) -> PlainParameters | None:
        """Return the schemas of parameters; None if pydantic has to make that of one of them."""
        fields = []
        for parameter in parameters:
            schema = _to_core_schema(parameter.annotation)
            if schema is None:
                return None
            if parameter.default is not EMPTY:
                if not _is_plain_default(parameter.default):
                    return None
                schema = {"type": "default", "schema": schema, "default": parameter.default}
            fields.append({"name": parameter.name, "mode": "keyword_only", "schema": schema})
        return cls(fields)

    def json_schema(self, **_options: Any) -> JsonObject:
        """Return the clean JSON Schema (see `clean_schema`). The options of a TypeAdapter have no effect."""
        fields = self.core_schema["arguments_schema"]["arguments_schema"]
        required = [field["name"] for field in fields if field["schema"]["type"] != "default"]
        return {
            "additionalProperties": False,
            "properties": {field["name"]: _to_property(field) for field in fields},
            **({"required": required} if required else {}),
            "type": "object",
        }


def plain_schema(annotation: Any) -> JsonObject | None:
    """Return the JSON Schema of a plain type; None for another type."""
    schema = _to_core_schema(annotation)
    return None if schema is None else _to_json_schema(schema)


def _to_property(field: Any) -> JsonObject:
    schema = field["schema"]
    if schema["type"] != "default":
        return _to_json_schema(schema)
    inner = _to_json_schema(schema["schema"]) or {"title": get_title_from_name(field["name"])}
    return dict(sorted({**inner, "default": schema["default"]}.items()))


def _to_core_schema(annotation: Any) -> Any:
    """Return the core schema of a plain type; None for another type."""
    for kind, name in _SCALAR_TYPES:
        if annotation is kind:
            return {"type": name}
    if annotation is Any or annotation is EMPTY:
        return {"type": "any"}
    origin, arguments = get_origin(annotation), get_args(annotation)
    if not arguments:
        return None
    if origin is list:
        items = _to_core_schema(arguments[0])
        return items and {"type": "list", "items_schema": items}
    if origin is dict and arguments[0] is str:
        values = _to_core_schema(arguments[1])
        return values and {"type": "dict", "keys_schema": {"type": "str"}, "values_schema": values}
    if origin is Literal and all(type(value) is str for value in arguments):
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
