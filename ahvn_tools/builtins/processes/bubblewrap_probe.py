"""Whether bubblewrap works here: it may be missing, too old, or forbidden in a container."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from ahvn_tools.builtins.processes.system_call_filter import open_system_call_filter
from ahvn_tools.builtins.processes.trusted_program import is_in_untrusted

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
