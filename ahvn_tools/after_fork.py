"""Resets the few process-wide pools and loops in a forked child, which has none of its parent's threads.

Everything else belongs to the process that made it: create it after the fork.
"""

from __future__ import annotations

import os
from collections.abc import Callable

CAN_FORK = hasattr(os, "register_at_fork")
"""Whether this platform forks processes; Windows does not."""


def reset_after_fork(callback: Callable[[], None]) -> Callable[[], None]:
    """Call a function of a module in each child process after a fork, and return it: it works as a decorator."""
    if CAN_FORK:  # pragma: no branch
        os.register_at_fork(after_in_child=callback)
    return callback
