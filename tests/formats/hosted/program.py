"""A program of a model, in the sandbox of its provider: it makes calls, waits for their results, and ends with a text.

It is written as a generator. Each `yield` makes calls in parallel; its value are the texts of their results.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator
from typing import Any

Call = tuple[str, dict[str, Any]]
Program = Callable[[], Generator[list[Call], list[Any], str]]


class HostedProgram:
    """One run of a program."""

    def __init__(self, program: Program) -> None:
        self._generator = program()
        self._numbers = itertools.count(1)
        self.waiting: dict[str, Call] = {}
        """The calls without a result, by their ids."""
        self.output: str | None = None
        """What the program has ended with."""

    def advance(self, results: list[Any] | None = None) -> None:
        """Run to the next calls, or to the end."""
        try:
            calls = next(self._generator) if results is None else self._generator.send(results)
        except StopIteration as stop:
            self.waiting, self.output = {}, stop.value
            return
        self.waiting = {f"call_{next(self._numbers)}": call for call in calls}


def without_nulls(value: Any) -> Any:
    """Return JSON data without the null fields that SDKs add."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value
