"""Resets in a forked child process, which has none of its parent's threads, event loops and connections."""

from __future__ import annotations

import functools
import itertools
import os
import weakref
from collections.abc import Callable
from types import MethodType

CAN_FORK = hasattr(os, "register_at_fork")
"""Whether this platform forks processes; Windows does not."""

_numbers = itertools.count()
_callbacks: dict[int, Callable[[], Callable[[], None] | None]] = {}
"""What finds each callback, in the order of registration."""


def reset_after_fork(callback: Callable[[], None]) -> Callable[[], None]:
    """Call `callback` in each child process after a fork, and return it, so that it also works as a decorator.

    A bound method does not keep its object alive, and is forgotten with it.
    """
    number = next(_numbers)
    _callbacks[number] = _find_method(callback, number) if isinstance(callback, MethodType) else lambda: callback
    return callback


def _find_method(method: MethodType, number: int) -> Callable[[], Callable[[], None] | None]:
    forget = functools.partial(_callbacks.pop, number, None)  # not by a global name: it also runs at the end of Python
    owner, function = weakref.ref(method.__self__, lambda _: forget()), method.__func__

    def find() -> Callable[[], None] | None:
        alive = owner()
        return None if alive is None else functools.partial(function, alive)

    return find


def _reset() -> None:  # pragma: no cover  # runs in child processes, which report no coverage
    errors = []
    for find_callback in list(_callbacks.values()):
        try:
            if (callback := find_callback()) is not None:
                callback()
        except Exception as error:  # noqa: BLE001  # the others still run
            errors.append(error)
    if errors:
        raise errors[0]  # Python reports it, and goes on


if CAN_FORK:  # pragma: no branch
    os.register_at_fork(after_in_child=_reset)
