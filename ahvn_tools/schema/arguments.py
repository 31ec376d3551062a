"""Arguments of a caller: validated by pydantic in lax mode, repaired where models slip, refused without an echo."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import ErrorDetails, SchemaValidator, ValidationError

from ahvn_tools.errors import InvalidParametersError, near_misses
from ahvn_tools.schema.parameters import SAFE_NAME, JsonObject
from ahvn_tools.schema.repair import MOST_DIGITS, ROUNDS, TOO_LARGE, Fault, Path, guard, non_finite, repair

MOST_PROBLEMS = 5
"""A message lists this many problems at most."""

_ENDS = frozenset({str, bool, type(None)})
_CONTAINERS = frozenset({
    "list_type", "tuple_type", "set_type", "frozen_set_type", "dict_type", "mapping_type", "sequence_str",
    "model_type", "model_attributes_type", "dataclass_type", "dataclass_exact_type", "arguments_type",
    "named_tuple_type", "iterable_type", "is_instance_of",
})  # fmt: skip
_INTEGERS = frozenset({"int_type", "literal_error", "enum"})


class Arguments:
    """The check of one set of visible parameters."""

    __slots__ = ("_accept", "_known")

    def __init__(self, validator: SchemaValidator, *, known: Callable[[], frozenset[str]]) -> None:
        """`known` gives the property names that may appear in messages; it is asked only when there is one."""
        self._accept = validator.validate_python
        self._known = known

    def validate_scalars(self, arguments: JsonObject) -> JsonObject:
        """Do what `validate` does for parameters that are all bounded scalars: their types refuse all extremes."""
        try:
            accepted: JsonObject = self._accept(arguments)[1]
        except ValidationError as failure:
            return self._repaired(arguments, failure)
        return accepted

    def validate(self, arguments: JsonObject) -> JsonObject:
        """Return the keyword arguments of the body. Raises InvalidParametersError."""
        is_finite = True
        for value in arguments.values():
            if type(value) not in _ENDS:
                is_finite = not guard(arguments)
                break
        try:
            accepted: JsonObject = self._accept(arguments)[1]
        except ValidationError as failure:
            accepted = self._repaired(arguments, failure)
        if not is_finite and non_finite(accepted):
            raise InvalidParametersError("Invalid arguments: NaN and Infinity are no JSON numbers.")
        return accepted

    def _repaired(self, arguments: JsonObject, failure: ValidationError) -> JsonObject:
        removed: set[Path] = set()
        for _ in range(ROUNDS):
            repaired = repair(arguments, map(_fault, failure.errors(include_url=False)), removed)
            if repaired is None:
                break
            arguments = repaired
            guard(arguments)
            try:
                accepted: JsonObject = self._accept(arguments)[1]
            except ValidationError as again:
                failure = again
            else:
                return accepted
        raise InvalidParametersError(self._describe(failure, removed)) from None

    def _describe(self, failure: ValidationError, removed: set[Path]) -> str:
        known = self._known()
        errors = failure.errors(include_url=False)
        problems = list(dict.fromkeys(_problem(error, known, removed) for error in errors))
        listed = "; ".join(problems[:MOST_PROBLEMS])
        more = f"; and {len(problems) - MOST_PROBLEMS} more" if len(problems) > MOST_PROBLEMS else ""
        return f"Invalid arguments: {listed}{more}."


def _fault(error: ErrorDetails) -> Fault:
    return Fault(
        location=error["loc"],
        wants_container=error["type"] in _CONTAINERS,
        wants_integer=error["type"] in _INTEGERS,
    )


def _problem(error: ErrorDetails, known: frozenset[str], removed: set[Path]) -> str:
    kind, location = error["type"], error["loc"]
    if kind == "unexpected_keyword_argument":
        name = str(location[0])
        shown = repr(name) if SAFE_NAME.match(name) else "with a name that is no parameter"
        return f"unknown argument {shown}. {near_misses(name, sorted(known))}".rstrip(".")
    where = _where(location, known)
    if kind.startswith("missing"):
        return f"{where} must not be null" if location in removed else f"{where} is missing"
    return f"{where} {_text(error)}"


def _where(location: Path, known: frozenset[str]) -> str:
    text = ""
    for step in location:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step in known:
            text += f".{step}" if text else step
    return repr(text) if text else "a value"


def _text(error: ErrorDetails) -> str:
    kind = error["type"]
    context: Mapping[str, Any] = error.get("ctx", {})
    if kind == "union_tag_invalid":
        return f"has an unknown tag; expected one of {context.get('expected_tags')}"
    if kind in ("value_error", "assertion_error"):
        text = str(context.get("error", "")) or "is not valid"
        return "is not valid" if _echoes(text, error["input"]) else f"is not valid: {text}"
    if TOO_LARGE in (context.get("lt"), -context["gt"] if "gt" in context else None):
        return f"has more than {MOST_DIGITS} digits"
    if "error" in context:
        return _lower(error["msg"].partition(",")[0])
    text = error["msg"]
    is_template = kind in _TEMPLATES
    return _lower(text) if is_template or not _echoes(text, error["input"]) else "is not valid"


def _lower(message: str) -> str:
    return message.removeprefix("Input ") if message.startswith("Input ") else f"is not valid: {message}"


def _echoes(text: str, value: Any) -> bool:
    """Tell whether a validator's own text repeats a part of what it was given."""
    plain = text.casefold()
    pending, seen = [value], 0
    while pending and seen < MOST_LEAVES:
        here = pending.pop()
        seen += 1
        if isinstance(here, Mapping):
            pending.extend(here.keys())
            pending.extend(here.values())
        elif isinstance(here, list | tuple | set | frozenset):
            pending.extend(here)
        else:
            leaf = str(here).casefold()
            if leaf and (
                leaf in plain if len(leaf) >= LONG_ENOUGH else re.search(rf"(?<!\w){re.escape(leaf)}(?!\w)", plain)
            ):
                return True
    return bool(pending)


def _is_word_of(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


LONG_ENOUGH = 4
"""A part of the input of this many characters is found anywhere in a text, a shorter one only as a word."""

MOST_LEAVES = 1_000
"""A validator's own text about a larger input than this is not shown."""

_TEMPLATES = frozenset({
    "literal_error", "enum", "greater_than", "greater_than_equal", "less_than", "less_than_equal", "multiple_of",
    "too_short", "too_long", "string_too_short", "string_too_long", "string_pattern_mismatch", "finite_number",
    "int_type", "int_parsing", "int_from_float", "int_parsing_size", "float_type", "float_parsing", "bool_type",
    "bool_parsing", "string_type", "bytes_type", "list_type", "dict_type", "tuple_type", "set_type", "model_type",
    "model_attributes_type", "dataclass_type", "none_required", "extra_forbidden", "recursion_loop",
})  # fmt: skip
"""Errors whose text comes from the schema alone."""
