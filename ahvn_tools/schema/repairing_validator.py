"""RepairingValidator: validates arguments, repairs what failed, and validates again until nothing is left to repair."""

from __future__ import annotations

import functools
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from ahvn_tools.errors import InvalidParametersError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.limits import Size, enforce_limits
from ahvn_tools.schema.repair import RepairCandidate, repair
from ahvn_tools.schema.subschemas import InstancePath, SubschemaFinder

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
    def _describe(
        self, errors: list[Error], arguments: JsonObject, removed: set[InstancePath], *, is_complete: bool
    ) -> str:
        """Return the message about the errors, after the nulls at the paths in `removed` were removed."""

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
        raise InvalidParametersError(self._describe(errors, arguments, removed, is_complete=is_complete))


def _collects_errors(rounds: int, value_count: int) -> bool:
    """Return whether to collect all errors after so many rounds."""
    if value_count <= MAX_COLLECTED_VALUES:
        return True
    return value_count <= MAX_REPAIRED_VALUES and rounds >= FIRST_ROUNDS and rounds % 2 == 0
