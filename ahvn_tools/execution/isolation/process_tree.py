"""Tree: a process with all that it has started, ended at once."""

from __future__ import annotations

import contextlib
import os
import signal

try:
    import psutil
except ModuleNotFoundError as error:  # pragma: no cover  # the option is refused before
    raise ModuleNotFoundError('isolation="process" needs psutil: pip install "ahvn-tools[process]"') from error

_MAX_ROUNDS = 10
"""How often to look for children of processes that were not yet stopped; a fork bomb must not keep us for ever."""


def kill_tree(root: psutil.Process) -> None:
    """Kill a process that leads a group of its own, and all that it has started.

    On Linux a worker adopts what its children leave behind, so that nothing escapes by `setsid` or a double fork.
    Elsewhere there is no such adoption: a double fork with `setsid` escapes. So does, everywhere, what left the group
    of a process that has died by itself.
    """
    with contextlib.suppress(psutil.Error):
        root.suspend()  # what is stopped starts nothing while we look
    _kill_all(_suspend_descendants(root))
    with contextlib.suppress(psutil.Error, OSError):
        if root.is_running() and hasattr(os, "killpg"):  # it may be dead, but not reaped: its id is not another's yet
            os.killpg(root.pid, signal.SIGKILL)
        else:  # pragma: no cover  # somebody else has reaped it, or this is Windows
            root.kill()


def kill_own_tree() -> None:  # pragma: no cover  # nobody is left to report to
    """Kill this process, which leads a group of its own, and all that it has started."""
    with contextlib.suppress(Exception):
        _kill_all(_suspend_descendants(psutil.Process()))
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _suspend_descendants(root: psutil.Process) -> list[psutil.Process]:
    """Stop all that a process has started, and return it."""
    found: dict[int, psutil.Process] = {}
    for _ in range(_MAX_ROUNDS):
        with contextlib.suppress(psutil.Error):
            fresh = {child.pid: child for child in root.children(recursive=True) if child.pid not in found}
            if not fresh:
                break
            found.update(fresh)
            for child in fresh.values():
                with contextlib.suppress(psutil.Error):
                    child.suspend()
    return list(found.values())


def _kill_all(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
