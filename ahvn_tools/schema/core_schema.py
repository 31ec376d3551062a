"""Pydantic's core schema of a function's parameters, and the validators that are compiled from parts of it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from enum import Enum
from typing import Any, NoReturn

from pydantic_core import CoreConfig, SchemaValidator, core_schema

from ahvn_tools.schema.core_limits import (
    NON_SCHEMA_KEYS,
    CoreSchemaLimiter,
    CountingValidator,
    is_no_schema,
)
from ahvn_tools.schema.inputs import UnknownNameError
from ahvn_tools.schema.keywords import JSON_TYPES, iter_objects

_CONFIG = CoreConfig(allow_inf_nan=False, hide_input_in_errors=True)
_TRUSTED_MODULES = sys.stdlib_module_names | {"pydantic", "pydantic_core", "ahvn_tools"}
_UNCERTAIN_TYPES = ("is-instance", "is-subclass", "callable", "function-plain")
"""No set, because the core schema of a field with the name "type" is looked up here, too, and has no hash."""
_LISTED_TYPES = ("enum", "literal")
_SCALAR_TYPES = frozenset({"int", "float", "str", "bool"})
_MACHINE_WORD_LIMIT = 2**62


class ArgumentsCoreSchema:
    """The core schemas of all parameters of one function, by name."""

    def __init__(self, schema: Any) -> None:
        self._definitions: list[Any] = []
        if schema["type"] == "definitions":
            self._definitions, schema = schema["definitions"], schema["schema"]
        self._fields: dict[str, Any] = {
            field["name"]: field for field in schema["arguments_schema"]["arguments_schema"]
        }

    def validator(self, hidden: frozenset[str], *, collects_errors: bool, converts: bool = True) -> CountingValidator:
        """Compile the validator of all parameters but `hidden`: one that stops early, or one that collects errors.

        Unless it `converts`, it returns the values as they came.
        """
        fields, definitions = self._visible_fields(hidden), self._definitions
        if not converts:
            from ahvn_tools.schema.unconverted import with_strict_scalars, without_conversion  # few tools need it

            fields, definitions = list(map(without_conversion, fields)), with_strict_scalars(definitions)
        limiter = CoreSchemaLimiter(definitions, collects_errors=collects_errors)
        return limiter.compile(_to_arguments_schema(fields), _CONFIG)

    def fast_validator(self, hidden: frozenset[str]) -> SchemaValidator | None:
        """Compile a validator that also refuses extreme integers, or None unless all parameters are scalars.

        It stops at the first unknown name.
        """
        fields = self._visible_fields(hidden)
        if any("default_factory" in field["schema"] for field in fields):
            return None
        if not all(_without_default(field["schema"])["type"] in _SCALAR_TYPES for field in fields):
            return None
        limited = [{**field, "schema": _limit_integer(field["schema"])} for field in fields]
        refuse = core_schema.no_info_plain_validator_function(_refuse_unknown_name)
        return SchemaValidator({**_to_arguments_schema(limited), "var_kwargs_schema": refuse}, _CONFIG)

    def parameter_validator(self, name: str) -> SchemaValidator:
        """Compile the validator of one parameter's value."""
        schema = _without_default(self._fields[name]["schema"])
        definitions = _replace_generators(self._definitions)
        if definitions:
            schema = {"type": "definitions", "schema": schema, "definitions": definitions}
        return SchemaValidator(schema, _CONFIG)

    def is_generator(self, name: str) -> bool:
        """Whether pydantic would check the items only while the body reads them."""
        return bool(_without_default(self._fields[name]["schema"])["type"] == "generator")

    def has_default(self, name: str) -> bool | None:
        """Whether a parameter has a default; None for a parameter without a core schema."""
        return self._fields[name]["schema"]["type"] == "default" if name in self._fields else None

    def property_name(self, name: str) -> str:
        """Return a parameter's name in the schema: its alias if it has one, and not several or a path."""
        alias = self._fields.get(name, {}).get("alias", name)
        return alias if isinstance(alias, str) else name

    def iter_named_tuple_fields(self, hidden: frozenset[str]) -> Iterator[str]:
        """Yield the field names of named tuples, which their JSON Schema does not contain."""
        for node in iter_objects(self._visible_fields(hidden), NON_SCHEMA_KEYS):
            if node.get("type") == "named-tuple-field":
                yield node["name"]

    def visible_fields(self, hidden: frozenset[str]) -> list[tuple[str, Any]]:
        """Return the core schemas of all parameters but `hidden`, with their names."""
        return [(name, field) for name, field in self._fields.items() if name not in hidden]

    def _visible_fields(self, hidden: frozenset[str]) -> list[Any]:
        return [field for _, field in self.visible_fields(hidden)]


def _to_arguments_schema(fields: list[Any]) -> Any:
    return {"type": "arguments", "arguments_schema": fields}


def _refuse_unknown_name(_value: Any) -> NoReturn:
    raise UnknownNameError


def is_foreign(function: Any) -> bool:
    """Whether a validator or serializer is neither pydantic's nor built in, nor the class of a named tuple."""
    while isinstance(function, functools.partial):
        function = function.func
    if not callable(function) or (isinstance(function, type) and issubclass(function, tuple)):
        return False
    return (getattr(function, "__module__", None) or "builtins").partition(".")[0] not in _TRUSTED_MODULES


def has_uncertain_types(schema: Any) -> bool:
    """Whether a core schema has types that may have no JSON form: pydantic finds out when it makes the JSON Schema."""
    return any(map(_is_uncertain, iter_objects(schema, NON_SCHEMA_KEYS)))


def _is_uncertain(node: Any) -> bool:
    kind = node.get("type")
    if kind in _UNCERTAIN_TYPES:
        return True
    if kind in _LISTED_TYPES:
        return not all(map(_has_plain_value, node["members" if kind == "enum" else "expected"]))
    if kind == "model" and callable(node["cls"].model_config.get("json_schema_extra")):
        return True
    metadata = node.get("metadata")
    return bool(metadata) and isinstance(metadata, dict) and _has_foreign_schema(metadata)


def _has_plain_value(member: Any) -> bool:
    return type(member.value if isinstance(member, Enum) else member) in JSON_TYPES


def _has_foreign_schema(metadata: Any) -> bool:
    """Whether a function that is not pydantic's makes a JSON Schema, or pydantic's makes none."""
    functions = [*metadata.get("pydantic_js_functions", ()), *metadata.get("pydantic_js_annotation_functions", ())]
    extra = metadata.get("pydantic_js_extra")
    return callable(extra) or any(
        is_foreign(function) or type(getattr(function, "__self__", None)).__name__ == "SkipJsonSchema"
        for function in functions
    )


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
    replaced = {key: value if is_no_schema(node, key) else _replace_generators(value) for key, value in node.items()}
    return {**replaced, "type": "list"} if replaced.get("type") == "generator" else replaced
