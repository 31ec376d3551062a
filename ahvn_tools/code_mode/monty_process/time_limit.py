"""A time limit that ends this process, also while C code runs that holds the interpreter's lock."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """End this process if the block takes longer. An outer limit goes on after the block."""
    outer_seconds, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, outer_seconds)
