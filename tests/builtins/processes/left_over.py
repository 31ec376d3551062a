"""What is left of programs: processes with a mark, and open file descriptors of this process."""

from __future__ import annotations

import time
from pathlib import Path


def open_descriptors() -> set[str]:
    """Return the file descriptors of this process."""
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


def survivors(mark: str) -> list[str]:
    """Return the command lines of the processes that have the mark among their arguments or variables."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            arguments, variables = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
        except OSError:
            continue  # it has ended
        if mark.encode() in arguments + variables:
            found.append(arguments.decode(errors="replace").replace("\0", " "))
    return found


def wait_until_none_survives(mark: str, seconds: float = 30) -> list[str]:
    """Return what is left of the marked processes after some seconds; earlier if nothing is."""
    deadline = time.monotonic() + seconds
    while (left := survivors(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left
