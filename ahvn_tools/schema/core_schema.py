"""Pydantic's core schema of a function's parameters, and the validators that are compiled from parts of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic_core import CoreConfig, SchemaValidator

from ahvn_tools.schema.keywords import iter_objects

_CONFIG = CoreConfig(allow_inf_nan=False, hide_input_in_errors=True)
_UNCERTAIN_TYPES = frozenset({"is-instance", "is-subclass", "callable", "function-plain"})
_SCALAR_TYPES = frozenset({"int", "float", "str", "bool"})
_MACHINE_WORD_LIMIT = 2**62
_NON_SCHEMA_KEYS = frozenset({"metadata", "serialization", "config", "default"})


class ArgumentsCoreSchema:
    """The core schemas of all parameters of one function, by name."""

    def __init__(self, schema: Any) -> None:
        self._definitions: list[Any] | None = None
        if schema["type"] == "definitions":
            self._definitions, schema = _replace_generators(schema["definitions"]), schema["schema"]
        self._fields: dict[str, Any] = {
            field["name"]: field for field in schema["arguments_schema"]["arguments_schema"]
        }

    def validator(self, hidden: frozenset[str]) -> SchemaValidator:
        """Compile the validator of all parameters but `hidden`."""
        return self._compile_arguments([_replace_generators(field) for field in self._visible_fields(hidden)])

    def fast_validator(self, hidden: frozenset[str]) -> SchemaValidator | None:
        """Compile a validator that also refuses extreme integers, or None unless all parameters are scalars."""
        fields = self._visible_fields(hidden)
        if not all(_without_default(field["schema"])["type"] in _SCALAR_TYPES for field in fields):
            return None
        return self._compile_arguments([{**field, "schema": _limit_integer(field["schema"])} for field in fields])

    def parameter_validator(self, name: str) -> SchemaValidator:
        """Compile the validator of one parameter's value."""
        return self._compile(_without_default(self._fields[name]["schema"]))

    def is_generator(self, name: str) -> bool:
        """Whether pydantic would check the items only while the body reads them."""
        return bool(_without_default(self._fields[name]["schema"])["type"] == "generator")

    def has_default(self, name: str) -> bool | None:
        """Whether a parameter has a default; None for a parameter without a core schema."""
        return self._fields[name]["schema"]["type"] == "default" if name in self._fields else None

    def property_name(self, name: str) -> str:
        """Return a parameter's name in the schema: its alias if it has one."""
        alias = self._fields.get(name, {}).get("alias", name)
        while isinstance(alias, list):
            alias = alias[0]
        return str(alias)

    def iter_named_tuple_fields(self, hidden: frozenset[str]) -> Iterator[str]:
        """Yield the field names of named tuples, which their JSON Schema does not contain."""
        for node in iter_objects(self._visible_fields(hidden), _NON_SCHEMA_KEYS):
            if node.get("type") == "named-tuple-field":
                yield node["name"]

    def _visible_fields(self, hidden: frozenset[str]) -> list[Any]:
        return [field for name, field in self._fields.items() if name not in hidden]

    def _compile_arguments(self, fields: list[Any]) -> SchemaValidator:
        return self._compile({"type": "arguments", "arguments_schema": fields})

    def _compile(self, schema: Any) -> SchemaValidator:
        if self._definitions is not None:
            schema = {"type": "definitions", "schema": schema, "definitions": self._definitions}
        return SchemaValidator(schema, _CONFIG)


def has_uncertain_types(schema: Any) -> bool:
    """Whether a core schema has types for which pydantic finds no JSON form before it generates a JSON Schema."""
    return any(node.get("type") in _UNCERTAIN_TYPES for node in iter_objects(schema, _NON_SCHEMA_KEYS))


def _without_default(schema: Any) -> Any:
    return schema["schema"] if schema["type"] == "default" else schema


def _limit_integer(schema: Any) -> Any:
    """Limit a plain integer to a machine word; the full validator decides on larger ones."""
    if schema["type"] == "default":
        return {**schema, "schema": _limit_integer(schema["schema"])}
    if schema["type"] != "int":
        return schema
    low = {} if "ge" in schema or "gt" in schema else {"gt": -_MACHINE_WORD_LIMIT}
    high = {} if "le" in schema or "lt" in schema else {"lt": _MACHINE_WORD_LIMIT}
    return {**schema, **low, **high}


def _replace_generators(node: Any) -> Any:
    """Check an Iterable as a list: pydantic would check its items only while the body reads them."""
    if isinstance(node, list):
        return [_replace_generators(child) for child in node]
    if not isinstance(node, dict):
        return node
    replaced = {key: value if key in _NON_SCHEMA_KEYS else _replace_generators(value) for key, value in node.items()}
    return {**replaced, "type": "list"} if replaced.get("type") == "generator" else replaced
