"""A time limit that ends this process, also while C code runs that holds the interpreter's lock."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """End this process if the block takes longer. An outer limit goes on after the block."""
    set_timer = getattr(signal, "setitimer", None)
    if set_timer is None:  # pragma: no cover  # on Windows the host ends this process
        yield
        return
    outer_seconds, _ = set_timer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        set_timer(signal.ITIMER_REAL, outer_seconds)
