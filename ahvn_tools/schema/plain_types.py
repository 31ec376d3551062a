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

EMPTY = inspect.Parameter.empty

_SCALAR_TYPES: tuple[tuple[Any, str], ...] = ((str, "str"), (int, "int"), (bool, "bool"), (float, "float"))
_JSON_TYPES = {"str": "string", "int": "integer", "bool": "boolean", "float": "number"}


class PlainParameters:
    """The parameters of a function, as keyword-only ones, if all are plain. Schemas are made at each access."""

    __slots__ = ("_parameters",)

    without_schema: frozenset[str] = frozenset()
    """The parameters whose type has no JSON form: none."""

    def __init__(self, parameters: Sequence[inspect.Parameter]) -> None:
        self._parameters = parameters

    @classmethod
    def from_parameters(cls, parameters: Sequence[inspect.Parameter]) -> PlainParameters | None:
        """Return the schemas of parameters; None if pydantic has to make that of one of them."""
        return cls(parameters) if all(map(_is_plain, parameters)) else None

    @property
    def core_schema(self) -> Any:
        """The core schema of a function with these parameters."""
        return {"type": "call", "arguments_schema": {"type": "arguments", "arguments_schema": self._fields()}}

    def json_schema(self) -> JsonObject:
        """Return the clean JSON Schema (see `clean_schema`)."""
        fields = self._fields()
        required = [field["name"] for field in fields if field["schema"]["type"] != "default"]
        return {
            "additionalProperties": False,
            "properties": {field["name"]: _to_property(field) for field in fields},
            **({"required": required} if required else {}),
            "type": "object",
        }

    def _fields(self) -> list[Any]:
        return [{"name": p.name, "mode": "keyword_only", "schema": _to_field_schema(p)} for p in self._parameters]


def get_title_from_name(name: str) -> str:
    """Return the title that pydantic makes of a parameter's name."""
    return name.title().replace("_", " ").strip()


def plain_schema(annotation: Any) -> JsonObject | None:
    """Return the JSON Schema of a plain type; None for another type."""
    schema = _to_core_schema(annotation)
    return None if schema is None else _to_json_schema(schema)


def _is_plain(parameter: inspect.Parameter) -> bool:
    has_plain_default = parameter.default is EMPTY or _is_plain_default(parameter.default)
    is_variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return has_plain_default and not is_variadic and _to_core_schema(parameter.annotation) is not None


def _to_field_schema(parameter: inspect.Parameter) -> Any:
    schema = _to_core_schema(parameter.annotation)
    is_required = parameter.default is EMPTY
    return schema if is_required else {"type": "default", "schema": schema, "default": parameter.default}


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
