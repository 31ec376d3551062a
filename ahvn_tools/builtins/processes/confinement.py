"""Confinement: what a process may read, write and reach, and whether bubblewrap enforces it."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ahvn_tools.builtins.processes.bubblewrap_probe import find_bubblewrap
from ahvn_tools.errors import DefinitionError
from ahvn_tools.roots import shown_path

_log = logging.getLogger(__name__)

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
        """One sentence for a result when nothing is enforced, or when the sandbox of root cannot use a folder."""
        if self.sandbox == "none":
            return "No sandbox: the command could use every file of this user and the network."
        refusal = self._refusal()
        return None if refusal is None else f"{refusal[0]} Tell the user."

    def warn_of_owners(self) -> None:
        """Log once if root starts the sandbox and another user owns a folder, so that it cannot be used."""
        if self.sandbox == "bubblewrap" and (refusal := self._refusal()) is not None:
            _warn_once(f"{refusal[0]} Run this Python as its owner, user {refusal[1]}, or pass sandbox='none'.")

    def _refusal(self) -> tuple[str, int] | None:
        """Return a sentence about the first folder that root may not use without privileges, and who owns it."""
        if os.geteuid() != 0:
            return None
        for folders, verb, needed in ((self.writable, "write to", 0o7), (self.readable, "read", 0o5)):
            for folder in folders:
                owner = _refusing_owner(folder, needed)
                if owner is not None:
                    path = str(self.shown(folder))
                    reason = "it belongs to another user, and they have no privileges of root"
                    return f"Programs in this sandbox cannot {verb} {path!r}: {reason}.", owner
        return None


def _refusing_owner(folder: Path, needed: int) -> int | None:
    """Return another user who owns a folder, and does not give everybody or a group of this process what is needed."""
    try:
        status = folder.stat()
    except OSError:  # it is missing, which the start of a program reports
        return None
    is_in_group = status.st_gid in (os.getegid(), *os.getgroups())
    granted = status.st_mode >> 3 if is_in_group else status.st_mode
    return None if status.st_uid == os.geteuid() or granted & needed == needed else status.st_uid


@functools.lru_cache(maxsize=64)
def _warn_once(message: str) -> None:
    _log.warning("%s", message)


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
