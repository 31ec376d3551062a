"""How a call runs. Nothing here knows what a ToolSpec is.

`plan` says what a call needs; `direct` and `awaited` are the sync and async doors, `stream` both doors of a stream,
with a `relay` to its reader; `drive` runs a body to its end, by `threads`, `deadline` and `hand`; `bridge` and
`crossing` lead from sync to async; `outcome`, `settle` and `failure` say what came of it. `errand` runs a body in one
of the worker `processes`, where `worker` waits; `frames` and `pickles` are what goes between, `tree` is what ends with
one. `call` is a call as middleware sees it, `chain` leads it through.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ahvn_tools.execution import async_call, async_to_sync, pipeline, stream_call

__all__ = ["async_call", "async_to_sync", "pipeline", "stream_call"]


def __getattr__(name: str) -> ModuleType:
    """Import a module of the room when it is first used: a local sync call needs no asyncio (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def abandoned() -> int:
    """Return how many bodies still run in this process although nobody waits for them any more.

    They took too long, or their callers have gone: sync ones, whose threads Python has no way to end, and async ones
    that refused to be cancelled. Each counts until it ends.

    >>> from ahvn_tools import execution
    >>> still_running = execution.abandoned()
    """
    from ahvn_tools.execution import deadline, threads

    return threads.count_abandoned_threads() + deadline.count_abandoned_tasks()
