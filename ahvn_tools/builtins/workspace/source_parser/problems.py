"""SyntaxProblem: a place where a file does not follow the syntax of its language."""

from __future__ import annotations

from typing import NamedTuple

MAX_PROBLEMS = 20
"""The most syntax errors of one file: those after the first few are often consequences."""


class SyntaxProblem(NamedTuple):
    """A place where a file does not follow the syntax of its language."""

    line: int
    """From 1."""
    column: int
    """From 1."""
    message: str
