"""SchemaTypes: JSON Schema as Python annotations, with a TypedDict for each object."""

from __future__ import annotations

import keyword
import re
from typing import Any, Final

from ahvn_tools.json_types import JsonObject

_MAX_DEPTH: Final = 12
_MAX_LITERALS: Final = 40
_SCALARS: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


class SchemaTypes:
    """The annotations for one schema, and the declarations that they use."""

    def __init__(self, prefix: str, schema: JsonObject, *, is_input: bool) -> None:
        """`prefix` begins the names of declared types. Inputs accept plain dicts and any sequence, too."""
        self.declarations: dict[str, str] = {}
        self._prefix, self._root, self._is_input = prefix, schema, is_input
        self._by_reference: dict[str, str] = {}

    def annotation(self, schema: Any, name: str, depth: int = 0) -> str:
        """Return the annotation for a subschema; `name` is the end of the name of a type that is declared for it."""
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return "Any"
        if isinstance(reference := schema.get("$ref"), str):
            return self._referenced(reference, depth)
        if "const" in schema:
            return _literal([schema["const"]])
        if isinstance(values := schema.get("enum"), list):
            return _literal(values)
        branches = schema.get("anyOf", schema.get("oneOf"))
        if isinstance(branches, list) and branches:
            parts = [self.annotation(part, f"{name}{index or ''}", depth + 1) for index, part in enumerate(branches)]
            return _union(parts)
        if isinstance(kinds := schema.get("type"), list):
            return _union([self.annotation({**schema, "type": kind}, name, depth + 1) for kind in kinds])
        return self._of_type(schema, name, depth)

    def _of_type(self, schema: JsonObject, name: str, depth: int) -> str:
        kind = schema.get("type")
        if kind == "array":
            return self._array(schema, name, depth)
        if kind == "object" or (kind is None and "properties" in schema):
            return self._object(schema, name, depth)
        parts = schema.get("allOf")
        if kind is None and isinstance(parts, list) and len(parts) == 1:
            return self.annotation(parts[0], name, depth + 1)
        return _SCALARS.get(str(kind), "Any")

    def _referenced(self, reference: str, depth: int) -> str:
        if reference in self._by_reference:
            return self._by_reference[reference]
        target: Any = self._root
        if not reference.startswith("#/"):
            return "Any"
        for part in reference[2:].split("/"):
            target = target.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
        if not isinstance(target, dict):
            return "Any"
        name = self._type_name(reference.rsplit("/", 1)[-1])
        self._by_reference[reference] = f'"{name}"' if _is_object(target) else "Any"  # of a recursive type
        self._by_reference[reference] = found = self.annotation(target, reference.rsplit("/", 1)[-1], depth + 1)
        return found

    def _array(self, schema: JsonObject, name: str, depth: int) -> str:
        item = self.annotation(schema.get("items", True), f"{name}Item", depth + 1)
        return f"Sequence[{item}]" if self._is_input else f"list[{item}]"

    def _object(self, schema: JsonObject, name: str, depth: int) -> str:
        properties = schema.get("properties")
        if not isinstance(properties, dict) or not properties:
            extra = schema.get("additionalProperties", True)
            value = self.annotation(extra, f"{name}Value", depth + 1)
            return f"Mapping[str, {value}]" if self._is_input else f"dict[str, {value}]"
        declared = self._type_name(name)
        self.declarations.setdefault(declared, "")
        required = required_names(schema)
        fields: dict[str, str] = {}
        for key, part in properties.items():
            text = self.annotation(part, f"{name}{_camel(key)}", depth + 1)
            fields[key] = text if key in required else f"NotRequired[{text}]"
        self.declarations[declared] = _typed_dict(declared, fields)
        return f"{declared} | Mapping[str, Any]" if self._is_input else declared

    def _type_name(self, name: str) -> str:
        return f"{self._prefix}{_camel(name)}"


def required_names(schema: JsonObject) -> frozenset[str]:
    """Return the names of the properties that must be there."""
    names = schema.get("required")
    return frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()


def _union(parts: list[str]) -> str:
    unique = dict.fromkeys(parts)
    return " | ".join(unique) if unique and "Any" not in unique else "Any"


def _is_object(schema: JsonObject) -> bool:
    return schema.get("type") == "object" and bool(schema.get("properties"))


def _literal(values: list[Any]) -> str:
    is_literal = all(value is None or isinstance(value, str | int) for value in values)
    if not (is_literal and 0 < len(values) <= _MAX_LITERALS):
        return "Any"
    return f"Literal[{', '.join(map(repr, values))}]"


def _camel(text: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", text))


def _typed_dict(name: str, fields: dict[str, str]) -> str:
    if all(key.isidentifier() and not (keyword.iskeyword(key) or key.startswith("__")) for key in fields):
        return "\n".join([f"class {name}(TypedDict):", *[f"    {key}: {text}" for key, text in fields.items()]])
    members = ", ".join(f"{key!r}: {text}" for key, text in fields.items())
    return f"{name} = TypedDict({name!r}, {{{members}}})"
