"""Attack: one row of a table, with what an attacker does and what must hold; and the claims that rows are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from ahvn_tools import Run, ToolResult

CANARY = "canary-7f3a9c"
"""A bound value that nothing may show."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What an attack has brought."""

    value: Any = None
    """What the attack returned."""
    error: BaseException | None = None
    """What it raised."""
    printed: str = ""
    """The log at DEBUG, standard output and standard error, and warnings."""


Claim = Callable[[Outcome], bool]


@dataclass(frozen=True)
class Attack:
    """One row."""

    name: str
    act: Callable[[], Any]
    """What the attacker does. A coroutine is awaited."""
    holds: Claim
    flaw: str = ""
    """Why it does not hold yet."""
    is_slow: bool = False
    """Whether it runs only with the exhaustive tests."""


def rows(attacks: Iterable[Attack]) -> list[Any]:
    """Return the parameters of the one test of a family."""
    return [pytest.param(attack, id=attack.name, marks=_marks(attack)) for attack in attacks]


def _marks(attack: Attack) -> list[pytest.MarkDecorator]:
    marks = [pytest.mark.xfail(reason=attack.flaw)] if attack.flaw else []
    return [*marks, pytest.mark.exhaustive] if attack.is_slow else marks


def equals(expected: Any) -> Claim:
    """The attack returned exactly this."""
    return lambda outcome: outcome.error is None and outcome.value == expected


def raises(kind: type[BaseException], text: str = "") -> Claim:
    """The attack raised this, with a text that contains `text`."""
    return lambda outcome: isinstance(outcome.error, kind) and text in str(outcome.error)


def ends_with(code: str) -> Claim:
    """Every result that the attack returned is an error with this code."""

    def holds(outcome: Outcome) -> bool:
        results = list(iter_results(outcome.value))
        return bool(results) and all(result.error is not None and result.error.code == code for result in results)

    return holds


def shows_nothing(outcome: Outcome) -> bool:
    """The attack returned, and the canary is in no result, log, warning or output."""
    results = "".join(f"{result!r}{result.text}{result.content}" for result in iter_results(outcome.value))
    return outcome.error is None and CANARY not in f"{outcome.value!r}{results}{outcome.printed}"


def fails_silently(outcome: Outcome) -> bool:
    """Every last result is an error, and the canary is nowhere."""
    results = [result for result in iter_results(outcome.value) if result.is_last]
    return bool(results) and all(result.is_error for result in results) and shows_nothing(outcome)


def all_of(*claims: Claim) -> Claim:
    """All of these hold."""
    return lambda outcome: all(claim(outcome) for claim in claims)


def iter_results(value: Any) -> Iterable[ToolResult]:
    """Yield the results in what an attack returned."""
    if isinstance(value, ToolResult):
        yield value
    elif isinstance(value, Run):
        yield from (result for _, result in value.results)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for part in value:
            yield from iter_results(part)
