"""Garbage collection in a process of the command, which starts faster without looking through what it imports."""

from __future__ import annotations

import gc

_STARTING_THRESHOLD = 150_000
"""How many objects a process makes before it looks for garbage: more than its imports make."""

_normal_threshold: tuple[int, int, int] | None = None


def begin_start() -> None:
    """Collect no garbage while this process of the command starts."""
    global _normal_threshold  # noqa: PLW0603  # of the process, as the collector is
    _normal_threshold = gc.get_threshold()
    gc.set_threshold(_STARTING_THRESHOLD)


def end_start() -> None:
    """Collect garbage as usual from now on, apart from what there is: imports last as long as the process.

    Code of sources runs after this. In a process that is not the command's, this has no effect.
    """
    global _normal_threshold  # noqa: PLW0603  # as above
    if _normal_threshold is not None:
        gc.freeze()
        gc.set_threshold(*_normal_threshold)
        _normal_threshold = None
