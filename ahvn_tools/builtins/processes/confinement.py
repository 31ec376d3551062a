"""Confinement: what a process may read, write and reach, and whether bubblewrap enforces it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ahvn_tools.builtins.processes.bubblewrap_probe import find_bubblewrap
from ahvn_tools.errors import DefinitionError
from ahvn_tools.roots import shown_path

Sandbox = Literal["auto", "bubblewrap", "none"]
"""`auto`: bubblewrap where it works, else none. `bubblewrap`: DefinitionError where it does not work."""


@dataclass(frozen=True, kw_only=True)
class Confinement:
    """What a process may read, write and reach. Without bubblewrap nothing of it is enforced."""

    writable: tuple[Path, ...] = ()
    """Folders that it may write, by paths without links; everything else is read-only, and /tmp its own and empty.

    Roots that the host named by a link, here and in `readable`, are also visible under that name.
    """
    readable: tuple[Path, ...] = ()
    """Folders and files that it may read, in addition to the system's, Python's own and the one in which it runs."""
    network: bool = False
    writes_git_settings: bool = False
    """Whether it may write .git/config and .git/hooks of the writable folders, which name programs that Git runs."""
    sandbox: Literal["bubblewrap", "none"] = "none"

    def shown(self, path: Path) -> Path:
        """Return an absolute path without links as the host named it."""
        return shown_path(path, (*self.writable, *self.readable))

    @property
    def statement(self) -> str | None:
        """One sentence for a result when nothing is enforced; None with bubblewrap."""
        if self.sandbox == "bubblewrap":
            return None
        return "No sandbox: the command could use every file of this user and the network."


def choose_sandbox(sandbox: Sandbox, *, untrusted: Sequence[Path] = ()) -> Literal["bubblewrap", "none"]:
    """Return what to use. Raises DefinitionError if bubblewrap is required and does not work here.

    The first call starts a sandbox to see whether it works. A bwrap in an `untrusted` folder is never run: pass the
    folders that a model can write to.
    """
    if os.name != "posix":
        raise DefinitionError("The built-in tools that run programs need Linux or macOS.")
    if sandbox not in ("auto", "bubblewrap", "none"):
        raise DefinitionError(f"`sandbox` is 'auto', 'bubblewrap' or 'none', not {sandbox!r}.")
    if sandbox == "none":
        return "none"
    if find_bubblewrap(untrusted=untrusted) is not None:
        return "bubblewrap"
    if sandbox == "bubblewrap":
        raise DefinitionError(
            "bubblewrap does not work here. Install a version with the option --bind-fd and allow user namespaces, "
            "or pass sandbox='none'."
        )
    return "none"
