"""Problem: an error or a warning that a checker found in a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["Error", "Warning"]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """An error or a warning that a checker found in a file."""

    path: str
    """Relative to the folder that is checked, with /."""
    line: int
    """From 1."""
    column: int
    """From 1."""
    severity: Severity
    message: str
    source: str
    """The checker, and its rule."""
    is_syntax_error: bool = False
    """Whether the file cannot be parsed, so that the type checker leaves it out."""
