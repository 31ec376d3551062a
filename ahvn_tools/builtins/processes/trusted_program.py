"""Finds programs that no model could have written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_SYSTEM_FOLDERS: Final = (Path("/usr/bin"), Path("/bin"))


def find_trusted_program(name: str, untrusted: Iterable[Path]) -> str | None:
    """Return the first program of this name on PATH that is in no untrusted folder, and no link into one.

    That of the system is found also if the untrusted folder is / itself.
    """
    folders = tuple(untrusted)
    for path in os.environ.get("PATH", os.defpath).split(os.pathsep):
        program = shutil.which(name, path=path) if path.startswith("/") else None
        if program is not None and not is_in_untrusted(program, folders):
            return program
    return None


def is_in_untrusted(program: str, untrusted: tuple[Path, ...]) -> bool:
    """Return whether a program, or what it is a link to, lies in an untrusted folder, and is not that of the system."""
    places = [place for place in places_of(program) if place.parent not in _SYSTEM_FOLDERS]
    return any(place.is_relative_to(folder) for place in places for folder in untrusted)


def places_of(program: str) -> tuple[Path, ...]:
    """Return where a program is: as it was named, without links to its folder and `..`, and without any links."""
    folder, name = os.path.split(program)
    return Path(program), Path(os.path.realpath(folder), name), Path(os.path.realpath(program))
