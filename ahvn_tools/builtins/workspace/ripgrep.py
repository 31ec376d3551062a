"""Asks ripgrep, where it is installed, which files may contain a keyword; what they contain is read elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from ahvn_tools.builtins.processes.confinement import Confinement, ProcessLimits, find_trusted_program
from ahvn_tools.builtins.processes.process import run_process
from ahvn_tools.errors import ToolError

_OPTIONS: Final = (
    "--no-config", "--no-messages", "--color=never", "--files-with-matches", "--null", "--text", "--no-ignore",
    "--hidden", "--regexp",
)  # fmt: skip
_NOTHING_FOUND: Final = 1
_TIMEOUT: Final = 60.0
_KEPT_BYTES: Final = 10_000_000
"""More than the names of all files of one call."""


def find_ripgrep(roots: Sequence[Path]) -> str | None:
    """Return the program; None if it is not installed, or lies in a folder that a model may write."""
    program = find_trusted_program("rg", roots)
    return None if program is None else str(Path(program).resolve())


def files_with_matches(
    program: str, pattern: str, folder: Path, files: Sequence[str], *, is_cancelled: Callable[[], bool]
) -> set[str]:
    """Return the files that match a regular expression of bytes; all of them if ripgrep could not read each."""
    names = [file for file in files if _is_plain(file)]
    try:
        result = run_process(
            [program, *_OPTIONS, f"(?-u:{pattern})", "--", *(f"./{name}" for name in names)],
            folder=folder,
            confinement=Confinement(),
            limits=ProcessLimits(timeout=_TIMEOUT, kept_bytes=_KEPT_BYTES),
            is_cancelled=is_cancelled,
        )
    except ToolError:
        return set(files)
    if result.ended_by != "exit" or result.exit_code not in (0, _NOTHING_FOUND) or result.stdout.tail:
        return set(files)
    found = {name.removeprefix("./") for name in result.stdout.head.split("\0")}
    return found & set(names) | set(files) - set(names)


def _is_plain(name: str) -> bool:
    """Return whether a file name can be compared with one in the output of a program."""
    try:
        return os.fsencode(name).decode() == name
    except UnicodeDecodeError:
        return False
