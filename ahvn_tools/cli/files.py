"""Files that a command writes: whole, or not at all."""

from __future__ import annotations

from pathlib import Path

from ahvn_tools import atomic_file
from ahvn_tools.cli.errors import CommandError


def write_text(path: Path, text: str, *, new_mode: int | None = None) -> None:
    """Write a file as `atomic_file.write_text` does. Raises CommandError."""
    try:
        atomic_file.write_text(path, text, new_mode=new_mode)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror or error}.") from error
