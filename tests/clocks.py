"""Time limits that hold on a busy machine."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


@contextlib.contextmanager
def cpu_limit(seconds: float = 10.0) -> Iterator[None]:
    """Check that the block needs at most so much processor time in this thread, however busy the machine is."""
    start = time.thread_time()
    yield
    used = time.thread_time() - start
    assert used < seconds, f"{used:.1f} s of processor time, at most {seconds:g} s expected"
