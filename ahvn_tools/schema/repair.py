"""Repairs of what models send: JSON text for a list or object, null for "absent", integral floats, numbers as text.

They are tried only after plain validation failed, only where it failed, and never change the caller's objects. A null
is removed only when no other repair applies, and only from a declared property, never from a free object. Nulls that
some branch of a union accepts are removed only when there are no others.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from pydantic_core import SchemaValidator, ValidationError, core_schema

from ahvn_tools.errors import InvalidParametersError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.limits import Size, enforce_limits
from ahvn_tools.schema.subschemas import InstancePath, SubschemaFinder

_SCALARS: Final = {
    "integer": SchemaValidator(core_schema.int_schema()),
    "number": SchemaValidator(core_schema.float_schema(allow_inf_nan=False)),
    "boolean": SchemaValidator(core_schema.bool_schema()),
}


MAX_ROUNDS = 16
"""How often repair and validation alternate; a parsed JSON text may contain further values to repair."""

MAX_REPAIRED_VALUES = 5_000
"""In arguments with more values than this only the first errors are repaired."""

FIRST_ROUNDS = 2
"""How often repair and validation alternate for such arguments, and for others before all errors are collected."""

MAX_COLLECTED_VALUES = 200
"""In arguments with at most this many values, all errors are collected each time."""

Failure = TypeVar("Failure")
Error = TypeVar("Error")


class RepairCandidate(NamedTuple):
    """A location where validation failed, and the repairs to try there."""

    location: InstancePath
    wants_container: bool = False
    wants_integer: bool = False
    wants_text: bool = False
    scalar_types: Collection[str] = ()
    """The types of JSON Schema to which a value is converted as pydantic does."""


class Repaired(NamedTuple):
    """A repaired copy of arguments."""

    arguments: dict[str, Any]
    has_new_values: bool
    """Whether it contains values that were a text before."""


def repair(
    arguments: dict[str, Any],
    candidates: Iterable[RepairCandidate],
    get_finder: Callable[[], SubschemaFinder],
    removed: set[InstancePath],
) -> Repaired | None:
    """Return a repaired copy of the arguments, or None when no repair applies.

    `get_finder` is called only to decide on nulls. The paths of removed nulls are added to `removed`.
    """
    repaired = _CopyOnWrite(arguments)
    nulls: dict[InstancePath, None] = {}
    repaired_paths: set[InstancePath] = set()
    has_new_values = False
    for candidate in sorted(candidates, key=lambda each: each.wants_text):  # a text is the last resort
        path, container, value = _locate(repaired.root, candidate.location)
        if not path or path in repaired_paths:
            continue
        if value is None:
            if isinstance(container, dict):
                nulls[path] = None
        elif (new := _repair_value(value, candidate)) is not None:
            repaired.put(path, new)
            repaired_paths.add(path)
            has_new_values = has_new_values or isinstance(new, dict | list)
    if nulls and repaired.root is arguments:
        for path in _removable(nulls, get_finder()):
            repaired.remove(path)
            removed.add(path)
    return None if repaired.root is arguments else Repaired(repaired.root, has_new_values)


def _repair_value(value: Any, candidate: RepairCandidate) -> Any:
    """Return what replaces a value, or None when no repair applies."""
    if candidate.scalar_types and (scalar := _to_scalar(value, candidate.scalar_types)) is not None:
        return scalar
    if isinstance(value, str):
        return _parse_container(value) if candidate.wants_container else None
    if candidate.wants_integer and isinstance(value, float) and value.is_integer():
        return int(value)
    return _number_text(value) if candidate.wants_text else None


def _removable(nulls: Iterable[InstancePath], finder: SubschemaFinder) -> list[InstancePath]:
    """Return the nulls of declared members that no branch accepts; without any, those that some branch accepts."""
    refused: list[InstancePath] = []
    accepted: list[InstancePath] = []
    for path in nulls:
        is_declared, allows_null = finder.find_nullability(path)
        if is_declared:
            (accepted if allows_null else refused).append(path)
    return refused or accepted


def to_input_path(arguments: Any, location: InstancePath) -> InstancePath:
    """Return the steps of `location` that are in the input; pydantic mixes in the names of union branches."""
    return _locate(arguments, location)[0]


def _locate(value: Any, location: InstancePath) -> tuple[InstancePath, Any, Any]:
    """Return the steps of `location` that are in the input, the value there, and before it the container of it."""
    container = None
    path: list[str | int] = []
    for step in location:
        if isinstance(value, dict):
            is_inside = step in value
        else:
            is_sequence = isinstance(value, list | tuple) and isinstance(step, int)
            is_inside = is_sequence and -len(value) <= step < len(value)  # type: ignore[operator]  # it is an int here
        if is_inside:
            container, value = value, value[step]
            path.append(step)
    return tuple(path), container, value


class _CopyOnWrite:
    """A copy of nested containers that copies each container once, before its first change; until then the original."""

    def __init__(self, original: dict[str, Any]) -> None:
        self.root = original
        self._copies: dict[int, Any] = {}

    def put(self, path: InstancePath, value: Any) -> None:
        self._writable_container(path)[path[-1]] = value

    def remove(self, path: InstancePath) -> None:
        del self._writable_container(path)[path[-1]]

    def _writable_container(self, path: InstancePath) -> Any:
        """Return the copied container of the last step."""
        self.root = here = self._copy_once(self.root)
        for step in path[:-1]:
            here[step] = self._copy_once(here[step])
            here = here[step]
        return here

    def _copy_once(self, container: Any) -> Any:
        if id(container) in self._copies:
            return container
        copy = dict(container) if isinstance(container, dict) else list(container)
        self._copies[id(copy)] = copy
        return copy


def _number_text(value: Any) -> str | None:
    """Return a finite number as JSON text; None for another value, and for a number with too many digits."""
    if type(value) not in (int, float) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    try:
        return repr(value)
    except ValueError:
        return None


def _to_scalar(value: Any, types: Collection[str]) -> int | float | bool | None:
    """Return a value as a number or a boolean, such as of "1" or "True"; None where pydantic does not convert it."""
    for name, validator in _SCALARS.items():
        if name in types:
            with contextlib.suppress(ValidationError):
                scalar: int | float | bool = validator.validate_python(value)
                return scalar
    return None


def _parse_container(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) and not enforce_limits({"": value}).has_non_finite else None


class RepairingValidator(ABC, Generic[Failure, Error]):
    """The check of one set of visible parameters.

    To refuse arguments costs about what it costs to accept them, but to collect all errors takes much longer. So in
    larger arguments the first errors are repaired first: if these cannot be repaired, the others need not be known.
    """

    def __init__(self, get_schema: Callable[[], JsonObject], *, coerce_numbers_to_str: bool) -> None:
        """`get_schema` returns the schema of the parameters; it is called when it is first needed.

        `coerce_numbers_to_str`: a number is repaired where a text is wanted.
        """
        self._get_schema = get_schema
        self._coerce_numbers_to_str = coerce_numbers_to_str

    @abstractmethod
    def _check(self, arguments: JsonObject, value_count: int) -> tuple[JsonObject | None, Failure]:
        """Return the accepted arguments, or None and the failure."""

    @abstractmethod
    def _list_errors(
        self, arguments: JsonObject, failure: Failure, value_count: int, *, collects: bool
    ) -> tuple[list[Error], bool]:
        """Return the first errors, or all of them if it `collects`, and whether these are all."""

    @abstractmethod
    def _repair_candidates(self, errors: Iterable[Error]) -> Iterable[RepairCandidate]:
        """Return the locations of errors, and which repairs to try there."""

    @abstractmethod
    def _to_error(
        self, errors: list[Error], arguments: JsonObject, removed: set[InstancePath], *, is_complete: bool
    ) -> InvalidParametersError:
        """Return what to raise for the errors, after the nulls at the paths in `removed` were removed."""

    @functools.cached_property
    def _finder(self) -> SubschemaFinder:
        return SubschemaFinder(self._get_schema())

    def _repair_and_check(self, arguments: JsonObject, failure: Failure, size: Size) -> tuple[JsonObject, Size]:
        """Return the accepted arguments and their size. Raises InvalidParametersError."""
        removed: set[InstancePath] = set()
        for rounds in itertools.count():
            collects = _collects_errors(rounds, size.value_count)
            errors, is_complete = self._list_errors(arguments, failure, size.value_count, collects=collects)
            has_rounds = rounds < (MAX_ROUNDS if size.value_count <= MAX_REPAIRED_VALUES else FIRST_ROUNDS)
            candidates = self._repair_candidates(errors)
            repaired = repair(arguments, candidates, lambda: self._finder, removed) if has_rounds else None
            if repaired is None:
                break
            arguments = repaired.arguments
            size = enforce_limits(arguments) if repaired.has_new_values else size
            accepted, failure = self._check(arguments, size.value_count)
            if accepted is not None:
                return accepted, size
        raise self._to_error(errors, arguments, removed, is_complete=is_complete)


def _collects_errors(rounds: int, value_count: int) -> bool:
    """Return whether to collect all errors after so many rounds."""
    if value_count <= MAX_COLLECTED_VALUES:
        return True
    return value_count <= MAX_REPAIRED_VALUES and rounds >= FIRST_ROUNDS and rounds % 2 == 0
