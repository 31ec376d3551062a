"""Checker: a program that finds problems in files without executing anything of the project."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ahvn_tools.builtins.processes.result import ProcessResult
from ahvn_tools.builtins.workspace.diagnostics.problem import Problem
from ahvn_tools.builtins.workspace.diagnostics.project_copy import ProjectCopy

MAX_SINGLE_FILES: Final = 50
"""The most files of checkers that run once for each file."""


class UnreadableOutputError(Exception):
    """A checker failed, or wrote something other than its problems. The message says why, for a model."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """One run of a checker."""

    arguments: Sequence[str]
    paths: Sequence[str]
    """The files that this run checks, relative to the folder."""
    stdin: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Checker:
    """A program that finds problems in files without executing anything of the project."""

    name: str
    extensions: tuple[str, ...]
    programs: tuple[str, ...]
    """Names of the program; the first that is installed is run."""
    commands: Callable[[ProjectCopy, Sequence[str]], Iterable[Command]]
    """Return the runs for some files of the copy."""
    problems: Callable[[ProjectCopy, Command, ProcessResult], Iterable[Problem]]
    """Read what the program wrote. Raises UnreadableOutputError."""
    is_type_checker: bool = False
    """Whether it runs after the others, and not for files with syntax errors."""
    unless: str = ""
    """The checker that is run instead where it is installed, unless the model names this one."""
    needs_sandbox: bool = False
    """Whether its source files can make the program read files of other folders."""
    seconds: float = 20.0
    """After which one run is ended."""
    memory_bytes: int | None = 2_000_000_000
    """None for programs that reserve more addresses than memory: Node and Java."""
