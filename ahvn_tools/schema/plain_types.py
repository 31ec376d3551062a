"""Plain types, such as `int`, `list[str]` and `str | None`: what pydantic makes of parameters of them, made faster.

Most tools have no others, and pydantic spends most of its time on finding out what a type is. Without this module, a
tool of a function takes 5.2 times as long to make, 3.0 times with its export, and a program takes 2.2 times as long to
its first call, because it imports pydantic. Providers get an object of plain scalars as it is.
"""

from __future__ import annotations

import functools
import inspect
import math
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, NamedTuple, Union, get_args, get_origin

from ahvn_tools.json_types import JsonObject

EMPTY = inspect.Parameter.empty


class PlainType(NamedTuple):
    """Both schemas of a plain type. They are shared: do not change them."""

    core_schema: Any
    json_schema: JsonObject


_ANY: Final = PlainType({"type": "any"}, {})
_SCALARS: Final[Mapping[Any, PlainType]] = {
    str: PlainType({"type": "str"}, {"type": "string"}),
    int: PlainType({"type": "int"}, {"type": "integer"}),
    bool: PlainType({"type": "bool"}, {"type": "boolean"}),
    float: PlainType({"type": "float"}, {"type": "number"}),
    EMPTY: _ANY,
}
_PLAIN_DEFAULTS: Final = frozenset({types.NoneType, int, bool})

_SCALAR_TYPES: Final = frozenset({"string", "integer", "number", "boolean"})
_SCALAR_KEYWORDS: Final = frozenset({"type", "title", "description", "default"})
_OBJECT_KEYWORDS: Final = frozenset({"type", "properties", "required", "additionalProperties"})


@dataclass(frozen=True)
class PlainParameters:
    """The parameters of a function, as keyword-only ones, if all are plain. Other ones are PydanticParameters."""

    types: Mapping[str, PlainType]
    defaults: Mapping[str, Any]
    """Those of the parameters that have one."""

    without_schema: ClassVar = frozenset[str]()
    """The parameters whose type has no JSON form."""

    @classmethod
    def read(cls, parameters: Iterable[inspect.Parameter], annotations: Mapping[str, Any]) -> PlainParameters | None:
        """Return the parameters with these annotations; None if a type or a default is not plain."""
        found: dict[str, PlainType] = {}
        defaults: JsonObject = {}
        for parameter in parameters:
            name, default = parameter.name, parameter.default
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                return None
            if default is not EMPTY:
                if not _is_plain_default(default):
                    return None
                defaults[name] = default
            if (plain := plain_type(annotations[name])) is None:
                return None
            found[name] = plain
        return cls(found, defaults)

    @functools.cached_property
    def core_schema(self) -> Any:
        """The core schema of a function with these parameters."""
        fields = []
        for name, plain in self.types.items():
            schema = plain.core_schema
            if name in self.defaults:
                schema = {"type": "default", "schema": schema, "default": self.defaults[name]}
            fields.append({"name": name, "mode": "keyword_only", "schema": schema})
        return {"type": "call", "arguments_schema": {"type": "arguments", "arguments_schema": fields}}

    def json_schema(self) -> JsonObject:
        """Return the clean JSON Schema (see `clean_schema`)."""
        properties: JsonObject = {}
        required = []
        for name, plain in self.types.items():
            if name in self.defaults:
                inner = plain.json_schema or {"title": get_title_from_name(name)}
                properties[name] = dict(sorted({**inner, "default": self.defaults[name]}.items()))
            else:
                properties[name] = {**plain.json_schema}
                required.append(name)
        needed = {"required": required} if required else {}
        return {"additionalProperties": False, "properties": properties, **needed, "type": "object"}


def get_title_from_name(name: str) -> str:
    """Return the title that pydantic makes of a parameter's name."""
    return name.title().replace("_", " ").strip()


def plain_type(annotation: Any) -> PlainType | None:
    """Return the schemas of a plain type; None for another type."""
    if type(annotation) is type:
        return _SCALARS.get(annotation)
    if annotation is Any:
        return _ANY
    origin, arguments = get_origin(annotation), get_args(annotation)
    if not arguments:
        return None
    if origin is list:
        items = plain_type(arguments[0])
        return items and PlainType(
            {"type": "list", "items_schema": items.core_schema}, {"items": items.json_schema, "type": "array"}
        )
    if origin is dict and len(arguments) == 2 and arguments[0] is str:  # noqa: PLR2004  # of keys and values
        values = plain_type(arguments[1])
        return values and PlainType(
            {"type": "dict", "keys_schema": {"type": "str"}, "values_schema": values.core_schema},
            {"additionalProperties": values.json_schema or True, "type": "object"},
        )
    if origin is Literal and all(type(value) is str and value.isascii() for value in arguments):
        choice = {"const": arguments[0]} if len(arguments) == 1 else {"enum": list(arguments)}
        return PlainType({"type": "literal", "expected": list(arguments)}, {**choice, "type": "string"})
    if origin in (Union, types.UnionType) and len(arguments) == 2 and types.NoneType in arguments:  # noqa: PLR2004
        inner = plain_type(arguments[arguments[0] is types.NoneType])
        return inner and PlainType(
            {"type": "nullable", "schema": inner.core_schema}, {"anyOf": [inner.json_schema, {"type": "null"}]}
        )
    return None


def _is_plain_default(value: Any) -> bool:
    """Return whether a default is its own JSON form and never changes."""
    kind = type(value)
    return kind in _PLAIN_DEFAULTS or (kind is str and value.isascii()) or (kind is float and math.isfinite(value))


def is_plain_object(schema: JsonObject) -> bool:
    """Whether a JSON Schema is an object of plain scalars: then it is in normal form (see `normalize`)."""
    properties, required = schema.get("properties"), schema.get("required", [])
    if schema.get("type") != "object" or schema.get("additionalProperties") is not False:
        return False
    if not isinstance(properties, dict) or not isinstance(required, list) or not schema.keys() <= _OBJECT_KEYWORDS:
        return False
    has_names = {*map(type, required)} <= {str} and len({*required}) == len(required)
    return has_names and all(map(is_plain_scalar, properties.values()))


def is_plain_scalar(node: Any) -> bool:
    """Whether a schema is a type with at most texts and a default."""
    if not isinstance(node, dict):
        return False
    kind = node.get("type")
    is_scalar = isinstance(kind, str) and kind in _SCALAR_TYPES and node.keys() <= _SCALAR_KEYWORDS
    return is_scalar and isinstance(node.get("title", ""), str) and isinstance(node.get("description", ""), str)
