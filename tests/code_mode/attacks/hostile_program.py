"""HostileProgram: what a program tries, and what must happen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from ahvn_tools import ToolResult

Claim = Callable[[ToolResult], bool]


@dataclass(frozen=True)
class HostileProgram:
    """A program, and the claim about its result."""

    name: str
    code: str
    holds: Claim
    limits: dict[str, Any] = field(default_factory=dict)
    """Limits that differ from those of the tests."""
    is_slow: bool = False
    """Whether it runs only with the exhaustive tests."""


def parameters(programs: Iterable[HostileProgram]) -> list[Any]:
    """Return the parameters of a test that runs each program; by default, it runs one of six."""
    return [
        pytest.param(program, id=program.name, marks=pytest.mark.exhaustive if program.is_slow or number % 6 else ())
        for number, program in enumerate(programs)
    ]


def fails(text: str) -> Claim:
    """The program ends with an error whose text contains `text`."""
    return lambda result: result.is_error and text in result.text


def returns(value: Any) -> Claim:
    """The program returns exactly this."""
    return lambda result: not result.is_error and result.value == value


def prints(text: str) -> Claim:
    """The program returns, and has printed what contains `text`."""
    return lambda result: not result.is_error and text in (result.structured_content or {})["printed"]
