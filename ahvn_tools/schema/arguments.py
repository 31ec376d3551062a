"""Arguments of a caller: validated by pydantic in lax mode, repaired where models slip, refused without an echo."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, get_args

from pydantic_core import ErrorDetails, PydanticKnownError, SchemaValidator, ValidationError, core_schema

from ahvn_tools.errors import InvalidParametersError, ToolCallError
from ahvn_tools.redaction import clip
from ahvn_tools.schema.inputs import JsonObject, unknown_argument_message
from ahvn_tools.schema.places import InstancePath, SubschemaFinder
from ahvn_tools.schema.repair import (
    MAX_ROUNDS,
    RepairCandidate,
    contains_non_finite,
    enforce_limits,
    repair,
    to_input_path,
)

MAX_PROBLEMS = 5
"""A message lists this many problems at most."""

MAX_ERRORS = 50
"""A message is made from this many of pydantic's errors at most; the others are counted."""

MAX_DETAIL_CHARS = 300
"""What is wrong with one value is told in this many characters at most."""

MIN_ECHO_CHARS = 4
"""A part of the input of this many characters is found anywhere in a text, a shorter one only as a word."""

MAX_INPUT_VALUES = 1_000
"""A validator's own text about a larger input than this is not shown."""

_UNGUARDED_TYPES = frozenset({str, bool, type(None)})
_CONTAINER_ERRORS = frozenset({
    "list_type", "tuple_type", "set_type", "frozen_set_type", "deque_type", "iterable_type", "sequence_str",
    "dict_type", "frozen_dict_type", "ordered_dict_type", "counter_type", "mapping_type",
    "model_type", "model_attributes_type", "dataclass_type", "dataclass_exact_type", "arguments_type",
    "named_tuple_type", "is_instance_of",
})  # fmt: skip
_UNEXPECTED_ARGUMENT = "unexpected_keyword_argument"
_INTEGER_ERRORS = frozenset({"int_type", "int_parsing_size", "literal_error", "enum"})


class ArgumentValidator:
    """The check of one set of visible parameters."""

    def __init__(
        self,
        validator: SchemaValidator,
        *,
        get_schema: Callable[[], JsonObject],
        get_names: Callable[[], frozenset[str]],
    ) -> None:
        """`schema` and `names` are asked when something does not fit.

        `schema` gives the JSON Schema of the parameters, `names` all names in it, which may appear in messages.
        """
        self._validate_python = validator.validate_python
        self._get_schema = get_schema
        self._get_names = get_names

    def validate(self, arguments: JsonObject) -> JsonObject:
        """Return the keyword arguments of the body. Raises InvalidParametersError, or a ToolError of a validator."""
        is_finite = True
        for value in arguments.values():
            if type(value) not in _UNGUARDED_TYPES:
                is_finite = not enforce_limits(arguments)
                break
        try:
            accepted: JsonObject = self._validate_python(arguments)[1]
        except Exception as error:  # noqa: BLE001  # a type's own validator may raise anything
            failure = _to_validation_error(error)
        else:
            return accepted if is_finite else _require_finite(accepted)
        accepted = self._repair_and_validate(arguments, failure)
        return accepted if is_finite else _require_finite(accepted)

    def _repair_and_validate(self, arguments: JsonObject, failure: ValidationError) -> JsonObject:
        removed: set[InstancePath] = set()
        for _ in range(MAX_ROUNDS):
            faults = map(_to_repair_candidate, failure.errors(include_url=False, include_input=False))
            repaired = repair(arguments, faults, self._get_finder, removed)
            if repaired is None:
                break
            arguments = repaired
            enforce_limits(arguments)
            try:
                accepted: JsonObject = self._validate_python(arguments)[1]
            except Exception as error:  # noqa: BLE001  # as in `validate`
                failure = _to_validation_error(error)
            else:
                return accepted
        raise InvalidParametersError(self._describe(failure, arguments, removed))

    @functools.cached_property
    def _finder(self) -> SubschemaFinder:
        return SubschemaFinder(self._get_schema())

    def _get_finder(self) -> SubschemaFinder:
        return self._finder

    def _describe(self, failure: ValidationError, arguments: JsonObject, removed: set[InstancePath]) -> str:
        telling = _ErrorFormatter(arguments, self._get_names(), self._get_schema().get("properties", {}), removed)
        errors = sorted(failure.errors(include_url=False), key=lambda error: error["type"] != _UNEXPECTED_ARGUMENT)
        problems = list(dict.fromkeys(map(telling.format_error, errors[:MAX_ERRORS])))
        untold = max(len(problems) - MAX_PROBLEMS, 0) + max(len(errors) - MAX_ERRORS, 0)
        more = f"; and {untold} more" if untold else ""
        return f"Invalid arguments: {'; '.join(problems[:MAX_PROBLEMS])}{more}."


def _require_finite(accepted: JsonObject) -> JsonObject:
    if contains_non_finite(accepted):
        raise InvalidParametersError("Invalid arguments: NaN and Infinity are no JSON numbers.")
    return accepted


def _to_validation_error(error: Exception) -> ValidationError:
    """Return pydantic's refusal. Raises for what a validator raised that is no ValueError: a ToolError as it is."""
    if isinstance(error, ValidationError):
        return error
    if isinstance(error, ToolCallError):
        raise error
    raise InvalidParametersError(f"Invalid arguments: checking them raised {type(error).__name__}.") from error


def _to_repair_candidate(error: ErrorDetails) -> RepairCandidate:
    return RepairCandidate(
        location=error["loc"],
        wants_container=error["type"] in _CONTAINER_ERRORS,
        wants_integer=error["type"] in _INTEGER_ERRORS,
    )


class _ErrorFormatter:
    """Puts pydantic's errors into words that repeat nothing of the input."""

    def __init__(
        self, arguments: JsonObject, names: frozenset[str], parameters: Mapping[str, Any], removed: set[InstancePath]
    ) -> None:
        self._arguments = arguments
        self._names = names
        self._parameters = parameters
        self._removed = removed

    def format_error(self, error: ErrorDetails) -> str:
        kind, location = error["type"], error["loc"]
        if kind == _UNEXPECTED_ARGUMENT and len(location) == 1:
            return unknown_argument_message(str(location[0]), self._parameters)
        if kind in ("extra_forbidden", _UNEXPECTED_ARGUMENT):
            return f"{self._format_location(location[:-1])} has a member that is not known"
        if kind.startswith("missing"):
            path = (*to_input_path(self._arguments, location[:-1]), location[-1])
            return f"{self._format_location(location)} {'must not be null' if path in self._removed else 'is missing'}"
        return f"{self._format_location(location)} {clip(self._format_reason(error), MAX_DETAIL_CHARS)}"

    def _format_location(self, location: InstancePath) -> str:
        """Return the place in words; keys of free objects are the input's own and not shown."""
        here: Any = self._arguments
        text, is_inside = "", False
        for step in location:
            is_name = isinstance(step, str) and step in self._names
            if isinstance(here, dict) and step in here:
                here, is_inside = here[step], not is_name
            elif isinstance(here, list | tuple) and isinstance(step, int) and step < len(here):
                here, is_inside = here[step], False
                text += f"[{step}]"
                continue
            if is_name:
                text += f".{step}" if text else str(step)
        shown = repr(text) if text else "the whole"
        return f"a value in {shown}" if is_inside else shown

    def _format_reason(self, error: ErrorDetails) -> str:
        kind = error["type"]
        context: Mapping[str, Any] = error.get("ctx", {})
        if kind == "union_tag_invalid":
            return f"has an unknown tag; expected one of {context.get('expected_tags')}"
        if kind in _EXPECTED_TEXTS:
            return f"is not {_EXPECTED_TEXTS[kind]}"
        if _is_schema_message(error):
            return _to_clause(error["msg"])
        text = str(context.get("error", "")) if kind in ("value_error", "assertion_error") else error["msg"]
        return _to_clause(text) if text and not self._echoes_input(text, error["input"]) else "is not valid"

    def _echoes_input(self, text: str, value: Any) -> bool:
        """Tell whether a validator's own text repeats a part of what it was given."""
        plain = _THOUSANDS_SEPARATOR.sub("", text.casefold())
        words = set(_WORD_PATTERN.findall(plain)) - {name.casefold() for name in self._names}
        pending, seen = [value], 0
        while pending and seen < MAX_INPUT_VALUES:
            here = pending.pop()
            seen += 1
            if isinstance(here, Mapping):
                pending.extend(key for key in here if key not in self._names)
                pending.extend(here.values())
            elif isinstance(here, list | tuple | set | frozenset):
                pending.extend(here)
            elif _has_part_of(plain, words, str(here).casefold()):
                return True
        return bool(pending)


def _has_part_of(plain: str, words: set[str], leaf: str) -> bool:
    """Tell whether a text has a part of the leaf in it, whole or cut."""
    if not leaf:
        return False
    if len(leaf) < MIN_ECHO_CHARS:
        return re.search(rf"(?<!\w){re.escape(leaf)}(?!\w)", plain) is not None
    return any(word in plain for word in (leaf, *_WORD_PATTERN.findall(leaf))) or any(word in leaf for word in words)


_WORD_PATTERN = re.compile(rf"\w{{{MIN_ECHO_CHARS},}}")
_THOUSANDS_SEPARATOR = re.compile(r"(?<=\d)[,_'’\s](?=\d)")


def _is_schema_message(error: ErrorDetails) -> bool:
    """Tell whether a text is pydantic's own and made from the schema alone; validators may choose any type."""
    kind, context = error["type"], error.get("ctx") or {}
    if kind not in _PYDANTIC_ERROR_TYPES or not _INPUT_CONTEXT_KEYS.isdisjoint(context):
        return False
    try:
        return PydanticKnownError(kind, context or None).message() == error["msg"]  # type: ignore[arg-type]  # tested
    except (KeyError, TypeError):
        return False


def _to_clause(message: str) -> str:
    return message.removeprefix("Input ") if message.startswith("Input ") else f"is not valid: {message}"


_PYDANTIC_ERROR_TYPES = frozenset(get_args(core_schema.ErrorType))
_INPUT_CONTEXT_KEYS = frozenset({"error", "tag", "tz_actual", "encoding_error"})
"""What of an error's context comes from the input."""

_EXPECTED_TEXTS = {
    "date_parsing": "a valid date (YYYY-MM-DD)",
    "date_from_datetime_parsing": "a valid date (YYYY-MM-DD)",
    "datetime_parsing": "a valid datetime (ISO 8601)",
    "datetime_from_date_parsing": "a valid datetime (ISO 8601)",
    "datetime_object_invalid": "a valid datetime (ISO 8601)",
    "time_parsing": "a valid time (HH:MM:SS)",
    "time_delta_parsing": "a valid duration (ISO 8601)",
    "uuid_parsing": "a valid UUID",
    "url_parsing": "a valid URL",
    "url_syntax_violation": "a valid URL",
    "json_invalid": "valid JSON text",
    "bytes_invalid_encoding": "validly encoded bytes",
}
"""Errors whose text tells which characters were found: told in words of our own."""
