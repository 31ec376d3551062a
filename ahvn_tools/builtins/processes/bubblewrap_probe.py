"""Whether bubblewrap works here: it may be missing, too old, or forbidden in a container."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

ISOLATION = ("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
"""No other process, user, network or terminal is visible; and the sandbox ends with its supervisor."""
TEMPORARY_SIZE = ("--size", "1000000000")
"""Bytes of the next folder that is in memory."""

_OF_SYSTEM = (Path("/usr/bin/bwrap"), Path("/bin/bwrap"))
_working: set[str] = set()
"""The programs that have worked."""


def find_bubblewrap(*, untrusted: Sequence[Path] = (), is_probed: bool = False) -> str | None:
    """Return the first bwrap on PATH that works; None if there is none.

    One in an untrusted folder is not run: a model may have written it. That of the system is run also if the untrusted
    folder is / itself. `is_probed`: only one that has worked before.
    """
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        program = os.path.join(folder, "bwrap")  # noqa: PTH118  # a hundred times faster than Path
        if not (folder.startswith("/") and os.access(program, os.X_OK)):
            continue
        places = [Path(program), Path(os.path.realpath(program))]
        if any(_is_in(place, untrusted) for place in places if place not in _OF_SYSTEM):
            continue
        if program in _working or (not is_probed and _works(program)):
            _working.add(program)
            return program
    return None


def _is_in(path: Path, folders: Sequence[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


@functools.cache
def _works(program: str) -> bool:
    """Start a sandbox that shows an open folder, which versions without the fix of CVE-2024-42472 cannot."""
    mounts = [*TEMPORARY_SIZE, "--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev"]  # noqa: S108
    root = os.open("/", os.O_RDONLY)
    command = [program, *ISOLATION, "--ro-bind-fd", str(root), "/", *mounts, "--", "true"]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=20, pass_fds=[root])  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return False
    finally:
        os.close(root)
    return done.returncode == 0
