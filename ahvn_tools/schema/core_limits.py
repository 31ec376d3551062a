"""Limits in pydantic's core schemas: containers that stop at their first error, and unions that count their attempts.

Pydantic collects all errors, and a union tries all its alternatives. Where the alternatives contain unions again, the
attempts multiply with each level of the input: a hundred characters can take minutes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import SchemaValidator

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.json_rules import accept_json
from ahvn_tools.schema.keywords import iter_objects

MAX_ATTEMPTS: Final = 100_000
"""How often alternatives of nested unions may be tried for one set of arguments, in addition to twice for each
alternative and value: at most about half a second of work."""

MAX_COLLECTING_ATTEMPTS: Final = 2_000
"""The same while all errors are collected: each failed attempt adds errors."""

NO_ALTERNATIVE: Final = "no_alternative"
"""The error type of a nested union that nothing matches; it replaces the errors of all alternatives."""

# before pydantic 2.13 models always use the validators that pydantic has compiled for them, without limits inside
_OWN_VALIDATORS: Final[dict[str, Any]] = (
    {"_use_prebuilt": False} if "_use_prebuilt" in (SchemaValidator.__text_signature__ or "") else {}
)

NON_SCHEMA_KEYS: Final = frozenset({"metadata", "serialization", "config", "default"})

_SEQUENCE_TYPES = frozenset({"list", "tuple", "set", "frozenset", "deque", "generator"})
_MAPPING_TYPES = frozenset({"dict", "frozendict", "ordered-dict", "counter"})
_FAIL_FAST_TYPES = _SEQUENCE_TYPES | _MAPPING_TYPES
_OBJECT_TYPES = _MAPPING_TYPES | {"model", "dataclass", "typed-dict", "named-tuple", "call"}
_COMPOSITE_TYPES = _SEQUENCE_TYPES | _OBJECT_TYPES

_remaining_attempts: ContextVar[list[int] | None] = ContextVar("remaining_attempts", default=None)


class TooManyAttemptsError(Exception):
    """The alternatives of unions were tried too often. It ends the whole validation."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CountingValidator:
    """A compiled core schema whose nested unions count their attempts."""

    validate_python: Callable[[JsonObject], Any]
    max_alternatives: int
    """Of the unions that count; 0 if none counts."""
    stops_early: bool
    """Whether there may be more errors than a ValidationError contains."""

    def validate(self, arguments: JsonObject, max_attempts: int, value_count: int) -> Any:
        """Validate as pydantic does, and count the attempts. Raises TooManyAttemptsError, too."""
        token = _remaining_attempts.set([max_attempts + 2 * self.max_alternatives * value_count])
        try:
            return self.validate_python(arguments)
        finally:
            _remaining_attempts.reset(token)


def is_no_schema(node: Any, key: str) -> bool:
    """Return whether a part of a core schema contains none that validates; a field may have any name."""
    return key in NON_SCHEMA_KEYS and isinstance(node.get("type"), str)


class CoreSchemaLimiter:
    """Rewrites core schemas that share definitions. It changes copies."""

    def __init__(self, definitions: list[Any], *, collects_errors: bool) -> None:
        """`collects_errors`: containers and unions report all errors, and every union of containers counts."""
        self._collects_errors = collects_errors
        self._nested = _NestedUnions(definitions)
        self._max_alternatives = 0
        self._stops_early = False
        self._definitions = [self._rewrite(definition) for definition in definitions]

    def compile(self, schema: Any, config: Any) -> CountingValidator:
        """Compile a schema with limits."""
        schema = self._rewrite(schema)
        if self._definitions:
            schema = {"type": "definitions", "schema": schema, "definitions": self._definitions}
        validator = SchemaValidator(schema, config, **_OWN_VALIDATORS)
        return CountingValidator(validator.validate_python, self._max_alternatives, self._stops_early)

    def _rewrite(self, node: Any, *, is_in_text: bool = False, is_strict: bool = False) -> Any:
        """Return a schema with limits, which accepts JSON. `is_strict`: as the config around it says.

        Inside of JSON text, errors are never collected: its size is not known.
        """
        is_in_text = is_in_text or (isinstance(node, dict) and node.get("type") == "json")
        if isinstance(node, list | tuple):
            return type(node)(self._rewrite(child, is_in_text=is_in_text, is_strict=is_strict) for child in node)
        if not isinstance(node, dict):
            return node
        kind = node.get("type")
        if isinstance(kind, str) and isinstance(node.get("config"), dict):
            is_strict = node["config"].get("strict") is True
        made = {
            key: value if is_no_schema(node, key) else self._rewrite(value, is_in_text=is_in_text, is_strict=is_strict)
            for key, value in node.items()
        }
        if not isinstance(kind, str):  # a field of the name "type"
            return made
        made = accept_json(made, is_strict=is_strict)
        if kind == "generator":  # pydantic would check the items only while the body reads them
            made["type"] = "list"
        if kind in _FAIL_FAST_TYPES and (is_in_text or not self._collects_errors):
            made["fail_fast"] = self._stops_early = True
        if kind == "union" and (_is_composite(node) if self._collects_errors else self._nested.multiplies(node)):
            return self._count_attempts(made)
        return made

    def _count_attempts(self, union: Any) -> Any:
        alternatives = len(union["choices"])
        self._max_alternatives = max(self._max_alternatives, alternatives)
        reference = {"ref": union.pop("ref")} if "ref" in union else {}
        if not self._collects_errors and "custom_error_type" not in union:
            union["custom_error_type"] = NO_ALTERNATIVE
            union["custom_error_message"] = "Input should match an alternative of the union"
            self._stops_early = True
        count = functools.partial(_count_attempts, alternatives)
        return {
            "type": "function-before", "function": {"type": "no-info", "function": count}, "schema": union, **reference
        }  # fmt: skip


class _NestedUnions:
    """Finds the unions for which the number of attempts may multiply with each level of the input."""

    def __init__(self, definitions: list[Any]) -> None:
        self._reaching: set[str] = set()
        """The definitions that contain a union of containers, at any depth."""
        pending = {definition["ref"]: definition for definition in definitions}
        while found := [ref for ref, definition in pending.items() if self._reaches_union(definition)]:
            self._reaching.update(found)
            pending = {ref: definition for ref, definition in pending.items() if ref not in self._reaching}

    def multiplies(self, union: Any) -> bool:
        """Whether two alternatives may accept the same value and contain a union of containers again."""
        reaching = [choice for choice in _iter_choices(union) if self._reaches_union(choice)]
        sequences = sum(_leaf_type(choice) in _SEQUENCE_TYPES for choice in reaching)
        return sequences > 1 or len(reaching) - sequences > 1

    def _reaches_union(self, schema: Any) -> bool:
        return any(
            _is_composite(node) if node.get("type") == "union" else node.get("schema_ref") in self._reaching
            for node in iter_objects(schema, NON_SCHEMA_KEYS)
        )


def _count_attempts(alternatives: int, value: Any) -> Any:
    """Count the attempts of one union at one value. Raises TooManyAttemptsError."""
    remaining = _remaining_attempts.get()
    if remaining is not None:
        remaining[0] -= alternatives
        if remaining[0] < 0:
            raise TooManyAttemptsError
    return value


def _iter_choices(union: Any) -> Iterator[Any]:
    for choice in union["choices"]:
        yield choice[0] if isinstance(choice, tuple) else choice


def _is_composite(union: Any) -> bool:
    """Whether an alternative of a union is a container, a model or a reference."""
    kinds = map(_leaf_type, _iter_choices(union))
    return any(kind in _COMPOSITE_TYPES or kind == "definition-ref" for kind in kinds)


def _leaf_type(schema: Any) -> str:
    """Return the type of a schema behind validator functions, defaults and the like."""
    while schema["type"] not in _COMPOSITE_TYPES and isinstance(inner := schema.get("schema"), dict):
        schema = inner
    return str(schema["type"])
