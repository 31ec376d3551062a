"""The check of a caller's arguments by pydantic in lax mode, with repairs and with messages that repeat no input."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pydantic_core import ErrorDetails, PydanticKnownError, ValidationError, core_schema

from ahvn_tools.error_detail import ArgumentProblem
from ahvn_tools.errors import InvalidParametersError, ToolCallError, clip
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.core_schema import (
    MAX_ATTEMPTS,
    MAX_COLLECTING_ATTEMPTS,
    NO_ALTERNATIVE,
    NO_TAG,
    CountingValidator,
    TooManyAttemptsError,
)
from ahvn_tools.schema.limits import NO_CONTAINERS, UNLIMITED_TYPES, contains_non_finite, enforce_limits
from ahvn_tools.schema.problems import (
    MAX_ERRORS,
    MAX_PROBLEMS,
    format_location,
    join_problems,
    to_problem,
    unknown_argument,
    unknown_arguments_error,
    unknown_property,
)
from ahvn_tools.schema.repair import MAX_REPAIRED_VALUES, RepairCandidate, RepairingValidator, to_input_path
from ahvn_tools.schema.subschemas import InstancePath, SubschemaFinder

MAX_READ_ERRORS = 5_000
"""How many of pydantic's errors are read: each takes some microseconds. Of more, the message names none."""

MAX_DETAIL_CHARS = 300
"""The description of one problem is cut to this many characters."""

MIN_ECHO_CHARS = 4
"""A part of the input of at least this many characters counts anywhere in a text, a shorter one only as a word."""

MAX_INPUT_VALUES = 1_000
"""A validator's own text about an input with more values than this is omitted …"""

MAX_INPUT_CHARS = 10_000
"""… and about one with more characters; of the text itself, only a tenth as many are read."""

_CONTAINER_ERRORS = frozenset({
    "list_type", "tuple_type", "set_type", "frozen_set_type", "deque_type", "iterable_type", "sequence_str",
    "dict_type", "frozen_dict_type", "ordered_dict_type", "counter_type", "mapping_type",
    "model_type", "model_attributes_type", "dataclass_type", "dataclass_exact_type", "arguments_type",
    "named_tuple_type", "is_instance_of", NO_ALTERNATIVE,
})  # fmt: skip
_KEY = "[key]"
"""The step of pydantic's locations after a key that is wrong itself, and not its value."""

_UNEXPECTED_ARGUMENT = "unexpected_keyword_argument"
_INTEGER_ERRORS = frozenset({"int_type", "int_parsing_size", "literal_error", "enum"})
_SCALAR_TYPES = {"int_type": ("integer",), "float_type": ("number",), "bool_type": ("boolean",)}
_CHOICE_TYPES = dict.fromkeys(("literal_error", "enum"), ("integer", "number", "boolean"))
"""The types to which a text is converted after an error."""
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
    "path_type": "a valid path",
    "complex_type": "a valid complex number",
    "complex_str_parsing": "a valid complex number",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dataclass_type": "an object",
    "set_type": "an array",
    "frozen_set_type": "an array",
}
"""Texts for the errors whose pydantic text quotes characters of the input, or names types of Python."""

_TOO_MANY_ATTEMPTS = (
    "Invalid arguments: they match too many combinations of the alternatives that their types allow. "
    "Nest them less deeply."
)

_TOO_MANY_ERRORS = (
    f"Invalid arguments: more than {MAX_READ_ERRORS:,} members are unknown or wrong. Send those that the schema names."
)

_WORD_PATTERN = re.compile(rf"\w{{{MIN_ECHO_CHARS},}}")
_THOUSANDS_SEPARATOR = re.compile(r"(?<=\d)[,_'’\s](?=\d)")


class ArgumentValidator(RepairingValidator[Any, ErrorDetails]):
    """The check by two validators: one stops at the first error in each container, the other collects all errors."""

    def __init__(
        self,
        compile: Callable[..., CountingValidator],  # noqa: A002  # what it does
        *,
        parameter_count: int,
        get_schema: Callable[[], JsonObject],
        get_names: Callable[[], frozenset[str]],
        coerce_numbers_to_str: bool,
        reads_scalar_texts: bool = False,
    ) -> None:
        """`compile(collects_errors=…)`, `get_schema` and `get_names` are called when their result is first needed.

        The schema is that of the parameters, the names are all names in it, which messages may contain.
        `reads_scalar_texts`: a text is repaired where a number or boolean is wanted, as pydantic's conversion does.
        """
        super().__init__(get_schema, coerce_numbers_to_str=coerce_numbers_to_str)
        self._compile = compile
        self._get_names = get_names
        self._text_types = {**_CHOICE_TYPES, **_SCALAR_TYPES} if reads_scalar_texts else _CHOICE_TYPES
        self._max_names = parameter_count + MAX_ERRORS
        self._validator: CountingValidator | None = None

    def validate(self, arguments: JsonObject) -> JsonObject:
        """Return the keyword arguments of the body. Raises InvalidParametersError, or a validator's ToolError."""
        if len(arguments) > self._max_names:
            self._refuse_unknown_names(arguments)
        is_limited = not UNLIMITED_TYPES.issuperset(map(type, arguments.values()))
        size = enforce_limits(arguments) if is_limited else NO_CONTAINERS
        accepted, failure = self._check(arguments, size.value_count)
        if accepted is None:
            accepted, _ = self._repair_and_check(arguments, failure, size)
        if size.has_non_finite and contains_non_finite(accepted):
            raise InvalidParametersError("Invalid arguments: NaN and Infinity are not JSON numbers.")
        return accepted

    def _refuse_unknown_names(self, arguments: JsonObject) -> None:
        """Raise InvalidParametersError for so many unknown names that a message would contain no other problem."""
        unknown = [name for name in arguments if name not in self._names]
        if len(unknown) > MAX_ERRORS:
            raise unknown_arguments_error(unknown, self._parameters)

    def _check(self, arguments: JsonObject, value_count: int) -> tuple[JsonObject | None, Any]:
        accepted = self._validate(arguments, value_count)
        return (None, accepted) if isinstance(accepted, ValidationError) else (accepted, None)

    def _validate(
        self, arguments: JsonObject, value_count: int, collecting: CountingValidator | None = None
    ) -> JsonObject | ValidationError:
        """Return pydantic's error: to raise in its `except` block would chain it, and it contains the input."""
        validator = collecting or self._validator
        if validator is None:
            validator = self._validator = self._compile(collects_errors=False)
        try:
            if validator.max_alternatives:
                max_attempts = MAX_ATTEMPTS if collecting is None else MAX_COLLECTING_ATTEMPTS
                accepted: JsonObject = validator.validate(arguments, max_attempts, value_count)[1]
            else:
                accepted = validator.validator.validate_python(arguments)[1]
        except ValidationError as error:
            return error
        except TooManyAttemptsError:
            if collecting is not None:
                raise
            raise InvalidParametersError(_TOO_MANY_ATTEMPTS) from None
        except ToolCallError:
            raise
        except Exception as error:
            message = f"Invalid arguments: validation raised {type(error).__name__}."
            raise InvalidParametersError(message) from error
        return accepted

    def _list_errors(
        self, arguments: JsonObject, failure: ValidationError, value_count: int, *, collects: bool
    ) -> tuple[list[ErrorDetails], bool]:
        """Return errors, all of them if it `collects` and there are not too many, and whether these are all."""
        stops_early = self._validator is None or self._validator.stops_early
        if stops_early and collects and (collected := self._collect_errors(arguments, value_count)) is not None:
            return collected, True
        if failure.error_count() > MAX_READ_ERRORS:
            raise InvalidParametersError(_TOO_MANY_ERRORS)
        errors = failure.errors(include_url=False)
        has_unlisted = any(error["type"] == NO_ALTERNATIVE for error in errors)  # it replaces those of the alternatives
        if has_unlisted and value_count <= MAX_REPAIRED_VALUES:
            collected = self._collect_errors(arguments, value_count)
            if collected is not None:
                return collected, True
        is_inside_value = any(len(error["loc"]) > 1 for error in errors)
        return errors, not (stops_early and is_inside_value)

    def _collect_errors(self, arguments: JsonObject, value_count: int) -> list[ErrorDetails] | None:
        """Return all errors; None if there are too many errors or attempts."""
        with contextlib.suppress(TooManyAttemptsError):
            collected = self._validate(arguments, value_count, self._collecting_validator)
            if isinstance(collected, ValidationError) and collected.error_count() <= MAX_READ_ERRORS:
                return collected.errors(include_url=False)
        return None

    def _repair_candidates(self, errors: Iterable[ErrorDetails]) -> Iterable[RepairCandidate]:
        for error in errors:
            kind = error["type"]
            if kind == NO_TAG and isinstance(error["input"], dict):  # the tag is read before other members are
                yield from (RepairCandidate((*error["loc"], name)) for name in error["input"])
            wants_text = kind == "string_type" and self._coerce_numbers_to_str
            wants_integer = kind in _INTEGER_ERRORS
            scalar_types = self._text_types.get(kind, ()) if isinstance(error["input"], str) else ()
            yield RepairCandidate(error["loc"], kind in _CONTAINER_ERRORS, wants_integer, wants_text, scalar_types)

    @functools.cached_property
    def _collecting_validator(self) -> CountingValidator:
        return self._compile(collects_errors=True)

    @functools.cached_property
    def _names(self) -> frozenset[str]:
        return self._get_names()

    @functools.cached_property
    def _parameters(self) -> tuple[str, ...]:
        return tuple(self._get_schema().get("properties", ()))

    def _to_error(
        self, errors: list[ErrorDetails], arguments: JsonObject, removed: set[InstancePath], *, is_complete: bool
    ) -> InvalidParametersError:
        formatter = _ErrorFormatter(arguments, self._names, self._parameters, removed, self._finder)
        errors = sorted(errors, key=lambda error: error["type"] != _UNEXPECTED_ARGUMENT)
        errors = _without_other_branches(errors, arguments)
        texts: dict[str, None] = {}
        problems: dict[ArgumentProblem, None] = {}
        for error in errors[:MAX_ERRORS]:
            text = formatter.format_error(error, has_hint=len(texts) < MAX_PROBLEMS)
            texts[text] = None
            problems[to_problem(formatter.find_path(error), text)] = None
        message = join_problems(list(texts), max(len(errors) - MAX_ERRORS, 0), is_complete=is_complete)
        return InvalidParametersError(message, problems=tuple(problems))


@dataclass(eq=False, repr=False)
class _ErrorFormatter:
    """Puts pydantic's errors into words that repeat nothing of the input."""

    arguments: JsonObject
    names: frozenset[str]
    parameters: tuple[str, ...]
    removed: set[InstancePath]
    finder: SubschemaFinder

    def format_error(self, error: ErrorDetails, *, has_hint: bool = True) -> str:
        kind, location = error["type"], error["loc"]
        if kind == _UNEXPECTED_ARGUMENT and len(location) == 1:
            return unknown_argument(str(location[0]), self.parameters, has_hint=has_hint)
        if kind in ("extra_forbidden", _UNEXPECTED_ARGUMENT):
            known = self.finder.find_property_names(to_input_path(self.arguments, location[:-1]))
            place, name = self._format_location(location[:-1]), str(location[-1])
            return unknown_property(place, name, known, has_hint=has_hint)
        if kind.startswith("missing") and isinstance(location[-1], int):
            return f"{self._format_location(location[:-1])} has too few items"
        if kind.startswith("missing"):
            path = (*to_input_path(self.arguments, location[:-1]), location[-1])
            return f"{self._format_location(location)} {'must not be null' if path in self.removed else 'is missing'}"
        return f"{self._format_location(location)} {clip(self._format_reason(error), MAX_DETAIL_CHARS)}"

    def find_path(self, error: ErrorDetails) -> InstancePath:
        """Return where the error is in the arguments; the path of a missing member ends with its name."""
        location = error["loc"]
        if not _is_about_member(error):
            return to_input_path(self.arguments, location)
        path = to_input_path(self.arguments, location[:-1])
        return path if isinstance(location[-1], int) else (*path, location[-1])

    def _format_location(self, location: InstancePath) -> str:
        if _KEY in location and _KEY not in self.names and _KEY not in to_input_path(self.arguments, location):
            return f"a key in {self._format_location(location[: location.index(_KEY) - 1])}"
        return format_location(location, self.arguments, self.names)

    def _format_reason(self, error: ErrorDetails) -> str:
        kind = error["type"]
        context: Mapping[str, Any] = error.get("ctx", {})
        if kind == NO_TAG:
            return _to_clause(error["msg"])
        if kind == NO_ALTERNATIVE:
            return "matches none of the alternatives that its type allows"
        if kind in _EXPECTED_TEXTS:
            return f"is not {_EXPECTED_TEXTS[kind]}"
        if _is_schema_message(error):
            return _to_clause(error["msg"])
        text = str(context.get("error", "")) if kind in ("value_error", "assertion_error") else error["msg"]
        text = text[: MAX_INPUT_CHARS // 10]
        return _to_clause(text) if text and not self._echoes_input(text, error["input"]) else "is not valid"

    def _echoes_input(self, text: str, value: Any) -> bool:
        """Whether a validator's own text repeats a part of its input."""
        plain = _THOUSANDS_SEPARATOR.sub("", text.casefold())
        words = set(_WORD_PATTERN.findall(plain)) - {name.casefold() for name in self.names}
        pending, seen, chars = [value], 0, 0
        while pending and seen < MAX_INPUT_VALUES:
            node = pending.pop()
            seen += 1
            chars += len(node) if isinstance(node, str | bytes) else 0
            if chars > MAX_INPUT_CHARS:
                return True
            if isinstance(node, Mapping):
                pending.extend(key for key in node if key not in self.names)
                pending.extend(node.values())
            elif isinstance(node, list | tuple | set | frozenset):
                pending.extend(node)
            elif _repeats_part_of(plain, words, str(node).casefold()):
                return True
        return bool(pending)


def _is_about_member(error: ErrorDetails) -> bool:
    """Whether the last step of the location is a member that is missing or unknown."""
    return error["type"].startswith("missing") or error["type"] in ("extra_forbidden", _UNEXPECTED_ARGUMENT)


def _without_other_branches(errors: list[ErrorDetails], arguments: JsonObject) -> list[ErrorDetails]:
    """Return the errors without those in branches of unions that are less like the value than another branch.

    The nearest branch takes the value's type and its tag, and of several the fewest members are missing or unknown. A
    union of which no branch takes the value's type has no nearest one.
    """
    if not any(len(error["loc"]) > 1 for error in errors):
        return errors
    unions: dict[InstancePath, dict[InstancePath, list[ErrorDetails]]] = {}
    for error in errors[:MAX_ERRORS]:
        location = error["loc"][:-1] if _is_about_member(error) else error["loc"]
        value: Any = arguments
        for depth, step in enumerate(location, 1):
            is_member = step in value if isinstance(value, dict) else isinstance(step, int)
            if not is_member:
                unions.setdefault(location[: depth - 1], {}).setdefault(location[:depth], []).append(error)
            elif isinstance(value, dict | list | tuple):
                value = value[step]  # type: ignore[index]  # an index of a list is an int
    others: set[InstancePath] = set()
    for branches in unions.values():
        distances = {branch: _distance(branch, branch_errors) for branch, branch_errors in branches.items()}
        nearest = min(distances, key=distances.__getitem__)
        if not distances[nearest][0]:
            others |= branches.keys() - {nearest}
    return [error for error in errors if not any(error["loc"][: len(other)] == other for other in others)]


def _distance(branch: InstancePath, errors: list[ErrorDetails]) -> tuple[bool, bool, int, int]:
    has_other_type = any(len(error["loc"]) == len(branch) for error in errors)
    of_members = [error for error in errors if len(error["loc"]) == len(branch) + 1]
    has_other_tag = any(error["type"] in ("literal_error", "enum") for error in of_members)
    return has_other_type, has_other_tag, sum(map(_is_about_member, of_members)), len(errors)


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
