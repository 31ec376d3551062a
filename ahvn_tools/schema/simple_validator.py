"""A validator for the simple JSON Schemas that most results have: fast, and without importing jsonschema-rs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ahvn_tools.json_types import JsonObject

Check = Callable[[Any], bool]
"""Returns whether JSON data matches a schema."""

_ANNOTATIONS: Final = frozenset({
    "title", "description", "default", "examples", "format", "deprecated", "readOnly", "writeOnly", "$defs",
    "x-fastmcp-wrap-result",
})  # fmt: skip
_OBJECT_KEYWORDS: Final = frozenset({"properties", "required", "additionalProperties"})
_DEFINITIONS: Final = "#/$defs/"


class UnsupportedSchemaError(Exception):
    """The schema has a keyword that only a complete validator knows."""


def compile_simple(schema: JsonObject) -> Check | None:
    """Return the check of a schema; None for one with other keywords than those of plain types and objects."""
    try:
        return _Compiler(schema.get("$defs", {})).compile(schema)
    except UnsupportedSchemaError:
        return None


class _Compiler:
    """Compiles the nodes of one schema."""

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._compiled: dict[str, Check] = {}

    def compile(self, node: Any) -> Check:
        """Return the check of a node. Raises UnsupportedSchemaError."""
        if node is True or node == {}:
            return _always
        if not isinstance(node, dict):
            raise UnsupportedSchemaError
        keywords = node.keys() - _ANNOTATIONS
        checks = [self._compile_object(node)] if keywords & _OBJECT_KEYWORDS else []
        for keyword in keywords - _OBJECT_KEYWORDS:
            if keyword not in self._COMPILERS:
                raise UnsupportedSchemaError
            checks.append(self._COMPILERS[keyword](self, node[keyword]))
        if len(checks) > 1:
            return lambda value: all(check(value) for check in checks)
        return checks[0] if checks else _always

    def _compile_object(self, node: JsonObject) -> Check:
        properties = {name: self.compile(child) for name, child in node.get("properties", {}).items()}
        required = frozenset(node.get("required", ()))
        more = node.get("additionalProperties", True)
        check_more = None if more is False else self.compile(more)

        def check(value: Any) -> bool:
            if not isinstance(value, dict):
                return True
            if not required <= value.keys() or (check_more is None and not value.keys() <= properties.keys()):
                return False
            return all(properties.get(name, check_more or _always)(member) for name, member in value.items())

        return check

    def _compile_type(self, names: Any) -> Check:
        if isinstance(names, str):
            return _TYPE_CHECKS[names]
        checks = [_TYPE_CHECKS[name] for name in names]
        return lambda value: any(check(value) for check in checks)

    def _compile_items(self, node: Any) -> Check:
        check = self.compile(node)
        return lambda value: not isinstance(value, list) or all(map(check, value))

    def _compile_any_of(self, nodes: list[Any]) -> Check:
        checks = [self.compile(node) for node in nodes]
        return lambda value: any(check(value) for check in checks)

    def _compile_enum(self, values: list[Any]) -> Check:
        if not all(isinstance(value, str) for value in values):  # 1, 1.0 and True are equal in Python
            raise UnsupportedSchemaError
        return lambda value: isinstance(value, str) and value in values

    def _compile_reference(self, reference: str) -> Check:
        name = reference.removeprefix(_DEFINITIONS)
        if not reference.startswith(_DEFINITIONS) or name not in self._definitions:
            raise UnsupportedSchemaError

        def check(value: Any) -> bool:
            return self._compiled[name](value)

        if name not in self._compiled:
            self._compiled[name] = check  # the node may refer to itself
            self._compiled[name] = self.compile(self._definitions[name])
        return check

    _COMPILERS: Final[Mapping[str, Callable[[_Compiler, Any], Check]]] = {
        "type": _compile_type,
        "items": _compile_items,
        "anyOf": _compile_any_of,
        "enum": _compile_enum,
        "const": lambda self, value: self._compile_enum([value]),
        "$ref": _compile_reference,
    }


def _always(_: Any) -> bool:
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPE_CHECKS: Final[Mapping[str, Check]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
}
