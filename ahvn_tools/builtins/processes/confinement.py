"""What a process may read, write, reach and use, whether bubblewrap enforces it, and which programs are trusted."""

from __future__ import annotations

import functools
import logging
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ahvn_tools.builtins.processes.system_call_filter import open_system_call_filter
from ahvn_tools.errors import DefinitionError
from ahvn_tools.roots import shown_path

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


_ISOLATION: Final = ("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
"""No other process, user, network or terminal is visible; and the sandbox ends with its supervisor."""
TEMPORARY_SIZE = ("--size", "1000000000")
"""Bytes of the next folder that is in memory."""

_OF_SYSTEM: Final = ("/usr/bin/bwrap", "/bin/bwrap")
_working: set[str] = set()
"""The programs that have worked."""


def find_bubblewrap(*, untrusted: Sequence[Path] = ()) -> str | None:
    """Return a bwrap on PATH that works; None if there is none.

    That of the system comes first, then one that has worked before: a model may have written another one since, in a
    folder that this call does not know. One in an untrusted folder is not run.
    """
    folders = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder.startswith("/")]
    programs = [os.path.join(folder, "bwrap") for folder in folders]  # noqa: PTH118  # a hundred times faster than Path
    for program in sorted(programs, key=lambda program: (program not in _OF_SYSTEM, program not in _working)):
        if not os.access(program, os.X_OK) or is_in_untrusted(program, tuple(untrusted)):
            continue
        if program in _working or _works(program):
            _working.add(program)
            return program
    return None


def isolation_arguments(stack: ExitStack) -> tuple[list[str], list[int]]:
    """Return the arguments that isolate a program, and the descriptors in them, which `stack` closes."""
    descriptor = open_system_call_filter()
    if descriptor is None:
        return [*_ISOLATION], []
    stack.callback(os.close, descriptor)
    return [*_ISOLATION, "--seccomp", str(descriptor)], [descriptor]


@functools.cache
def _works(program: str) -> bool:
    """Start a sandbox that shows an open folder, which versions without the fix of CVE-2024-42472 cannot."""
    mounts = [*TEMPORARY_SIZE, "--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev"]  # noqa: S108
    with ExitStack() as stack:
        root = os.open("/", os.O_RDONLY)
        stack.callback(os.close, root)
        isolation, descriptors = isolation_arguments(stack)
        command = [program, *isolation, "--ro-bind-fd", str(root), "/", *mounts, "--", "true"]
        try:
            done = subprocess.run(  # noqa: S603
                command, capture_output=True, check=False, timeout=20, pass_fds=[root, *descriptors]
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
    return done.returncode == 0


@dataclass(frozen=True, kw_only=True)
class ProcessLimits:
    """What one process, with its children, may use. None: no limit."""

    timeout: float = 120.0
    """Seconds until the process and all its children are killed."""
    memory_bytes: int | None = None
    """Address space of each process (RLIMIT_AS)."""
    cpu_seconds: int | None = None
    """Processor time of each process (RLIMIT_CPU)."""
    file_bytes: int | None = 1_000_000_000
    """Size of each file that is written (RLIMIT_FSIZE)."""
    kept_bytes: int = 64_000
    """How much of stdout, and of stderr, is returned: the beginning and the end of a longer output."""
    spooled_bytes: int = 50_000_000
    """How much of each is kept on disk to be read back; a process that writes more runs on, the rest is counted only.
    0: nothing."""

    def __post_init__(self) -> None:
        """Raise DefinitionError for a timeout that is no positive number: nothing could run or be ended."""
        timeout: object = self.timeout
        if not (isinstance(timeout, int | float) and timeout > 0):
            raise DefinitionError(f"`timeout` is a number of seconds above 0, not {timeout!r}.")

    def for_kernel(self) -> list[tuple[str, int]]:
        """Return the limits that the kernel enforces, by their names in the module `resource`."""
        limits = {
            "RLIMIT_CORE": 0,
            "RLIMIT_AS": self.memory_bytes,
            "RLIMIT_CPU": self.cpu_seconds,
            "RLIMIT_FSIZE": self.file_bytes,
        }
        return [(name, value) for name, value in limits.items() if value is not None]


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
