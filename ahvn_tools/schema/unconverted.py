"""Pydantic core schemas that validate a value, and return it as it came."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pydantic_core import PydanticKnownError, core_schema

from ahvn_tools.schema.core_limits import is_no_schema
from ahvn_tools.state import copy_containers

_SCALAR_TYPES: Final = frozenset({"int", "float", "str", "bool"})
_CHOICE_TYPES: Final = frozenset({"literal", "enum"})
_CHANGING_TYPES: Final = frozenset({"json", "function-before", "function-wrap", "chain"})
"""Types whose inner schema may validate another value than the one that came."""


def without_conversion(field: Any) -> Any:
    """Return the core schema of a parameter whose value is validated and not converted. Its default stays as it is."""
    schema = field["schema"]
    if schema["type"] == "default":
        return {**field, "schema": {**schema, "schema": _keep_input(schema["schema"])}}
    return {**field, "schema": _keep_input(schema)}


def with_strict_scalars(node: Any) -> Any:
    """Return core schemas in which numbers, texts and booleans have their own JSON type, because none is converted."""
    if isinstance(node, list | tuple):
        return type(node)(map(with_strict_scalars, node))
    if not isinstance(node, dict):
        return node
    kind = node.get("type")
    kind = kind if isinstance(kind, str) else None  # else a field of the name "type"
    if kind in _CHOICE_TYPES:
        return _with_strict_choices(node)
    if kind in _CHANGING_TYPES and not _passes_input_on(node):
        return node
    changed = {key: item if _is_kept(node, key) else with_strict_scalars(item) for key, item in node.items()}
    return {**changed, "strict": True} if kind in _SCALAR_TYPES else changed


def _is_kept(node: Any, key: str) -> bool:
    """Return whether a part stays as it is, as the schema of keys does: all names in a JSON object are texts."""
    return is_no_schema(node, key) or (key == "keys_schema" and node.get("type") == "dict")


def _keep_input(schema: Any) -> Any:
    return core_schema.no_info_wrap_validator_function(_validate_only, with_strict_scalars(schema))


def _validate_only(value: Any, validate: Callable[[Any], Any]) -> Any:
    """Return a copy of the value, so that the function cannot change the caller's containers."""
    validate(value)
    return copy_containers(value)


def _with_strict_choices(node: Any) -> Any:
    """Return the schema of a Literal or an Enum that takes no other JSON type for an integer."""
    choices = [getattr(choice, "value", choice) for choice in (*node.get("expected", ()), *node.get("members", ()))]
    if any(isinstance(choice, float) for choice in choices):
        return node

    def refuse(value: Any) -> Any:
        _refuse_equal_choice(choices, value)
        return _refuse_integral_text(value) if node.get("sub_type") == "int" else _refuse_integral_float(value)

    inner: Any = {key: item for key, item in node.items() if key != "ref"}
    return core_schema.no_info_before_validator_function(refuse, inner, ref=node.get("ref"))


def _refuse_equal_choice(choices: list[Any], value: Any) -> None:
    """Refuse a boolean that pydantic would take for an equal integer among the choices, and the reverse."""
    if isinstance(value, int) and value in choices and type(value) not in {type(c) for c in choices if c == value}:
        raise PydanticKnownError("int_type" if isinstance(value, bool) else "bool_type")


def _refuse_integral_float(value: Any) -> Any:
    """Refuse a float that pydantic would take for an integer among choices: it is repaired then."""
    if isinstance(value, float) and value.is_integer():
        raise PydanticKnownError("int_type")
    return value


def _refuse_integral_text(value: Any) -> Any:
    """Refuse a text, too, that pydantic would take for the value of an IntEnum."""
    if isinstance(value, str) and value.isascii() and value.removeprefix("-").isdecimal():
        raise PydanticKnownError("int_type")
    return _refuse_integral_float(value)


def _passes_input_on(node: Any) -> bool:
    """Whether the inner schema validates the value itself, as in pydantic's schema of `Sequence`."""
    if node["type"] == "chain":
        return bool(node["steps"][0]["type"] == "is-instance")
    validator = node.get("function", {}).get("function")
    return (getattr(validator, "__module__", None) or "").partition(".")[0] == "pydantic"
