"""Deletes a folder whatever is in it: folders nested ten thousand deep, links, folders without rights."""

from __future__ import annotations

import os
import stat
import uuid
from contextlib import suppress
from pathlib import Path


def delete_folder(path: Path) -> None:
    """Delete a folder in which no process writes any more. What this user cannot delete stays."""
    with suppress(OSError):  # code that runs as root without a sandbox can make a file that nobody can delete
        while folders := _delete_files(path):
            for folder in folders:
                _dissolve(folder, path)
        path.rmdir()


def _dissolve(folder: str, target: Path) -> None:
    """Delete a folder; its own folders become members of `target`, so that no path gets long."""
    for inner in _delete_files(folder):
        os.rename(inner, target / uuid.uuid4().hex)  # noqa: PTH104  # the name may be no text
    os.rmdir(folder)  # noqa: PTH106


def _delete_files(folder: str | Path) -> list[str]:
    """Delete all but the folders in a folder, and return those, made writable so that they can be moved."""
    with os.scandir(folder) as entries:
        members = [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for path, is_folder in members:
        if is_folder:
            os.chmod(path, stat.S_IRWXU)  # noqa: PTH101
        else:
            os.unlink(path)  # noqa: PTH108
    return [path for path, is_folder in members if is_folder]
