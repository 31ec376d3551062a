"""Resets in a forked child process, which has none of its parent's threads, event loops and connections."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from types import MethodType

CAN_FORK = hasattr(os, "register_at_fork")
"""Whether this platform forks processes; Windows does not."""


def reset_after_fork(callback: Callable[[], None]) -> Callable[[], None]:
    """Call `callback` in each child process after a fork, and return it, so that it also works as a decorator.

    A bound method does not keep its object alive: once the object is gone, the callback does nothing.
    """
    find_callback = weakref.WeakMethod(callback) if isinstance(callback, MethodType) else lambda: callback

    def reset() -> None:
        if (alive := find_callback()) is not None:
            alive()

    if CAN_FORK:  # pragma: no branch
        os.register_at_fork(after_in_child=reset)
    return callback
