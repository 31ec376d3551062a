"""Where checkers are found: never in the folders of the project, which may bring its own `ruff`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from ahvn_tools.roots import without_dots


def program_folders(roots: Sequence[Path]) -> list[str]:
    """Return the folder of Python's programs and those of PATH that are absolute and outside of the roots."""
    return [folder for folder in _all_folders() if not _is_inside(folder, roots)]


def find_program(names: Sequence[str], roots: Sequence[Path]) -> str | None:
    """Return the path of the first program that is installed outside of the roots."""
    path = os.pathsep.join(program_folders(roots))
    found = (shutil.which(name, path=path) for name in names)
    return next((program for program in found if program and not _is_inside(program, roots)), None)


def is_in_roots(names: Sequence[str], roots: Sequence[Path]) -> bool:
    """Return whether a program is installed, but inside of the roots, where a model may have written it."""
    found = (shutil.which(name, path=os.pathsep.join(_all_folders())) for name in names)
    return any(program and _is_inside(program, roots) for program in found)


def _all_folders() -> list[str]:
    folders = [str(without_dots(sys.executable).parent), *os.environ.get("PATH", os.defpath).split(os.pathsep)]
    return [folder for folder in dict.fromkeys(folders) if Path(folder).is_absolute()]


def _is_inside(path: str, roots: Sequence[Path]) -> bool:
    return any(place.is_relative_to(root) for root in roots for place in (Path(path), Path(os.path.realpath(path))))
