"""Kills a process with all that it started, also what its parent has left (on Linux)."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # it takes some milliseconds to import
    import psutil

_MAX_ROUNDS = 10
"""How often to look for new children: a fork bomb may start them faster than they are suspended."""


def adopt_orphans() -> None:
    """On Linux, become the parent of descendants whose own parent has ended. Process 1 of a container may reap none."""
    if sys.platform == "linux":
        import ctypes

        set_child_subreaper = 36
        ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def kill_tree(root: psutil.Process) -> None:
    """Kill a process that leads a process group, and all processes that it started.

    On Linux a worker adopts the orphans among its descendants, so that none escapes by `setsid` or a double fork. On
    other platforms a double fork with `setsid` escapes. On all platforms, a process that left the group escapes when
    the root process has already died.
    """
    import psutil

    with contextlib.suppress(psutil.Error):
        root.suspend()  # a suspended process starts no new ones
    kill_descendants(root)
    with contextlib.suppress(psutil.Error, OSError):
        if root.is_running() and hasattr(os, "killpg"):  # also true of a zombie, whose id is not reused yet
            os.killpg(root.pid, signal.SIGKILL)
        else:  # pragma: no cover  # it was reaped elsewhere, or this is Windows
            root.kill()


def kill_own_tree() -> None:  # pragma: no cover  # a killed process reports no coverage
    """Kill this process, which leads a process group, and all processes that it started."""
    with contextlib.suppress(Exception):
        kill_descendants()
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def kill_descendants(root: psutil.Process | None = None) -> None:
    """Suspend all processes that `root`, by default this process, started, until there are no new ones; kill them."""
    import psutil

    root = root or psutil.Process()
    descendants: set[psutil.Process] = set()
    for _ in range(_MAX_ROUNDS):
        with contextlib.suppress(psutil.Error):
            fresh = set(root.children(recursive=True)) - descendants
            if not fresh:
                break
            descendants |= fresh
            for child in fresh:
                with contextlib.suppress(psutil.Error):
                    child.suspend()
    for child in descendants:
        with contextlib.suppress(psutil.Error):
            child.kill()
