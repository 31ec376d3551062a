"""The check of a caller's arguments by pydantic in lax mode, with repairs and with messages that repeat no input."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pydantic_core import ErrorDetails, PydanticKnownError, SchemaValidator, ValidationError, core_schema

from ahvn_tools.errors import InvalidParametersError, ToolCallError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.redaction import clip
from ahvn_tools.schema.problems import MAX_ERRORS, format_location, join_problems, unknown_argument
from ahvn_tools.schema.repair import (
    MAX_ROUNDS,
    UNLIMITED_TYPES,
    RepairCandidate,
    contains_non_finite,
    enforce_limits,
    repair,
    to_input_path,
)
from ahvn_tools.schema.subschemas import InstancePath, SubschemaFinder

MAX_DETAIL_CHARS = 300
"""The description of one problem is cut to this many characters."""

MIN_ECHO_CHARS = 4
"""A part of the input of at least this many characters counts anywhere in a text, a shorter one only as a word."""

MAX_INPUT_VALUES = 1_000
"""A validator's own text about an input with more values than this is omitted."""

_CONTAINER_ERRORS = frozenset({
    "list_type", "tuple_type", "set_type", "frozen_set_type", "deque_type", "iterable_type", "sequence_str",
    "dict_type", "frozen_dict_type", "ordered_dict_type", "counter_type", "mapping_type",
    "model_type", "model_attributes_type", "dataclass_type", "dataclass_exact_type", "arguments_type",
    "named_tuple_type", "is_instance_of",
})  # fmt: skip
_UNEXPECTED_ARGUMENT = "unexpected_keyword_argument"
_INTEGER_ERRORS = frozenset({"int_type", "int_parsing_size", "literal_error", "enum"})
_PYDANTIC_ERROR_TYPES = frozenset(get_args(core_schema.ErrorType))
_INPUT_CONTEXT_KEYS = frozenset({"error", "tag", "tz_actual", "encoding_error"})
"""Keys of an error's context whose values come from the input."""

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
"""Texts for the errors whose pydantic text quotes characters of the input."""

_WORD_PATTERN = re.compile(rf"\w{{{MIN_ECHO_CHARS},}}")
_THOUSANDS_SEPARATOR = re.compile(r"(?<=\d)[,_'’\s](?=\d)")


class ArgumentValidator:
    """The check of one set of visible parameters."""

    def __init__(
        self,
        validator: SchemaValidator,
        *,
        get_schema: Callable[[], JsonObject],
        get_names: Callable[[], frozenset[str]],
    ) -> None:
        """`get_schema` and `get_names` are called only for arguments that do not match.

        They return the JSON Schema of the parameters, and all names in it, which messages may contain.
        """
        self._validate_python = validator.validate_python
        self._get_schema = get_schema
        self._get_names = get_names

    def validate(self, arguments: JsonObject) -> JsonObject:
        """Return the keyword arguments of the body. Raises InvalidParametersError, or a validator's ToolError."""
        is_limited = not UNLIMITED_TYPES.issuperset(map(type, arguments.values()))
        has_non_finite = is_limited and enforce_limits(arguments)
        accepted = self._try_validate(arguments)
        if isinstance(accepted, ValidationError):
            accepted = self._repair_and_validate(arguments, accepted)
        if has_non_finite and contains_non_finite(accepted):
            raise InvalidParametersError("Invalid arguments: NaN and Infinity are not JSON numbers.")
        return accepted

    def _try_validate(self, arguments: JsonObject) -> JsonObject | ValidationError:
        """Return pydantic's error: to raise in its `except` block would chain it, and it contains the input."""
        try:
            accepted: JsonObject = self._validate_python(arguments)[1]
        except ValidationError as error:
            return error
        except ToolCallError:
            raise
        except Exception as error:  # a type's own validator may raise anything
            message = f"Invalid arguments: validation raised {type(error).__name__}."
            raise InvalidParametersError(message) from error
        return accepted

    def _repair_and_validate(self, arguments: JsonObject, failure: ValidationError) -> JsonObject:
        removed: set[InstancePath] = set()
        for _ in range(MAX_ROUNDS):
            candidates = map(_to_repair_candidate, failure.errors(include_url=False, include_input=False))
            repaired = repair(arguments, candidates, lambda: self._finder, removed)
            if repaired is None:
                break
            arguments = repaired
            enforce_limits(arguments)
            accepted = self._try_validate(arguments)
            if not isinstance(accepted, ValidationError):
                return accepted
            failure = accepted
        raise InvalidParametersError(self._describe(failure, arguments, removed))

    @functools.cached_property
    def _finder(self) -> SubschemaFinder:
        return SubschemaFinder(self._get_schema())

    def _describe(self, failure: ValidationError, arguments: JsonObject, removed: set[InstancePath]) -> str:
        formatter = _ErrorFormatter(arguments, self._get_names(), self._get_schema().get("properties", {}), removed)
        errors = sorted(failure.errors(include_url=False), key=lambda error: error["type"] != _UNEXPECTED_ARGUMENT)
        problems = list(dict.fromkeys(map(formatter.format_error, errors[:MAX_ERRORS])))
        return join_problems(problems, max(len(errors) - MAX_ERRORS, 0))


def _to_repair_candidate(error: ErrorDetails) -> RepairCandidate:
    return RepairCandidate(
        location=error["loc"],
        wants_container=error["type"] in _CONTAINER_ERRORS,
        wants_integer=error["type"] in _INTEGER_ERRORS,
    )


@dataclass(frozen=True, slots=True)
class _ErrorFormatter:
    """Puts pydantic's errors into words that repeat nothing of the input."""

    arguments: JsonObject
    names: frozenset[str]
    parameters: Mapping[str, Any]
    removed: set[InstancePath]

    def format_error(self, error: ErrorDetails) -> str:
        kind, location = error["type"], error["loc"]
        if kind == _UNEXPECTED_ARGUMENT and len(location) == 1:
            return unknown_argument(str(location[0]), self.parameters)
        if kind in ("extra_forbidden", _UNEXPECTED_ARGUMENT):
            return f"{self._format_location(location[:-1])} has an unknown property"
        if kind.startswith("missing"):
            path = (*to_input_path(self.arguments, location[:-1]), location[-1])
            return f"{self._format_location(location)} {'must not be null' if path in self.removed else 'is missing'}"
        return f"{self._format_location(location)} {clip(self._format_reason(error), MAX_DETAIL_CHARS)}"

    def _format_location(self, location: InstancePath) -> str:
        return format_location(location, self.arguments, self.names)

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
        """Whether a validator's own text repeats a part of its input."""
        plain = _THOUSANDS_SEPARATOR.sub("", text.casefold())
        words = set(_WORD_PATTERN.findall(plain)) - {name.casefold() for name in self.names}
        pending, seen = [value], 0
        while pending and seen < MAX_INPUT_VALUES:
            node = pending.pop()
            seen += 1
            if isinstance(node, Mapping):
                pending.extend(key for key in node if key not in self.names)
                pending.extend(node.values())
            elif isinstance(node, list | tuple | set | frozenset):
                pending.extend(node)
            elif _repeats_part_of(plain, words, str(node).casefold()):
                return True
        return bool(pending)


def _repeats_part_of(plain: str, words: set[str], leaf: str) -> bool:
    """Whether a text contains the leaf, a word of it or a cut piece of it."""
    if not leaf:
        return False
    if len(leaf) < MIN_ECHO_CHARS:
        return re.search(rf"(?<!\w){re.escape(leaf)}(?!\w)", plain) is not None
    return any(word in plain for word in (leaf, *_WORD_PATTERN.findall(leaf))) or any(word in leaf for word in words)


def _is_schema_message(error: ErrorDetails) -> bool:
    """Whether pydantic made the text from the schema alone; a type's own validators may use any error type."""
    kind, context = error["type"], error.get("ctx") or {}
    if kind not in _PYDANTIC_ERROR_TYPES or not _INPUT_CONTEXT_KEYS.isdisjoint(context):
        return False
    try:
        return PydanticKnownError(kind, context or None).message() == error["msg"]  # type: ignore[arg-type]  # tested
    except (KeyError, TypeError):
        return False


def _to_clause(message: str) -> str:
    return message.removeprefix("Input ") if message.startswith("Input ") else f"is not valid: {message}"
