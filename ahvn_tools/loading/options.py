"""ReadOptions: what the reader of a source may do, and relative to which folder."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ahvn_tools.errors import SourceError
from ahvn_tools.sources.budget import Budget
from ahvn_tools.trust import Trust

if TYPE_CHECKING:  # slow, and few sources need it
    from concurrent.futures import Executor


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ReadOptions:
    """What all readers of sources need."""

    folder: Path = field(default_factory=Path.cwd)
    """The folder that relative paths refer to: the current one, or that of the manifest."""
    trust: Trust = field(default_factory=Trust)
    env: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    """The environment that credentials are read from."""
    inputs: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The values of `${input:…}` in an mcp.json."""
    executor: Executor | None = None
    """Where the bodies of tools with `isolation="executor"` run."""
    allow_missing: bool = False
    """Whether a folder may have no file with tools."""
    budget: Budget = field(default_factory=lambda: Budget("the source"), repr=False)
    """What is left for the source that the host has named, and for all that this one includes."""

    def resolve(self, location: str) -> Path:
        """Return the path of a location, which is relative to the folder."""
        return to_path(location, self.folder)


def exists(location: str, folder: Path) -> bool:
    """Return whether a location is an existing file or folder; a text that cannot be a path is none."""
    try:
        return to_path(location, folder).exists()
    except SourceError:
        return False


def to_path(location: str, folder: Path) -> Path:
    """Return the path of a location that is relative to a folder, or begins with `~`. Raises SourceError."""
    try:
        path = folder / _expand_user(location)
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return path
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        shown = reprlib.repr(location)
        raise SourceError(f"{shown} is no path: {reason}. Code is a text with more than one line.") from None
    return path


def _expand_user(location: str) -> Path:
    try:
        return Path(location).expanduser()
    except RuntimeError:  # there is no such user
        return Path(location)
