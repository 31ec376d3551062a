"""How a call runs: from validated arguments to a value or a ToolResult.

`compiled_tool` makes the `plan` of a tool, prepared once. `direct_call` runs a body to its value or its result;
`pipeline` runs it behind middleware, and streams what it makes. `runner` runs a body in a loop, in one of the `threads`
or, by `isolation`, in a worker process, within its `deadline`; `consume` iterates what it returned. `convert` makes
results of outcomes. Sync callers run async bodies on the `background_loop`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["abandoned", "set_max_processes", "to_async", "to_sync"]


def abandoned() -> int:
    """Return how many bodies still run in this process although no caller waits for them.

    They exceeded their timeout or their callers left: sync bodies, whose threads Python cannot end, and async bodies
    that ignored their cancellation. Each counts until it ends.

    >>> from ahvn_tools import execution
    >>> still_running = execution.abandoned()
    """
    from ahvn_tools.execution import deadline, threads

    return threads.count_abandoned_threads() + deadline.count_abandoned_tasks()


def set_max_processes(max_processes: int | None = None) -> None:
    """Set how many calls with `isolation="process"` may run at once in this process; None: as many as there are cores.

    Further calls wait for their turn, within their timeouts. Calls that run are not affected. Raises DefinitionError
    for a value that is not a whole number of at least 1.

    >>> from ahvn_tools import execution
    >>> execution.set_max_processes(4)
    """
    from ahvn_tools.errors import DefinitionError
    from ahvn_tools.execution.workers import slots
    from ahvn_tools.settings import is_count

    if max_processes is not None and not is_count(max_processes):
        raise DefinitionError(f"max_processes must be a whole number of at least 1, or None, not {max_processes!r}.")
    slots.process_slots.count = max_processes or slots.count_cores()


def to_sync(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function for sync callers; one that is not async is returned as it is.

    The async function runs on the background loop, with the context variables of its caller, also inside a running
    event loop, which is blocked meanwhile. Ctrl-C cancels it. On the background loop itself, where async bodies of sync
    calls run, it raises SyncCallError.

    >>> from ahvn_tools import execution
    >>> async def double(number):
    ...     return 2 * number
    >>> execution.to_sync(double)(2)
    4
    """
    from ahvn_tools.execution import async_to_sync

    return async_to_sync.to_sync(function)


def to_async(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a coroutine function; one that is async is returned as it is.

    Another one runs in a worker thread, with the context variables of its caller.

    >>> from ahvn_tools import execution
    >>> execution.to_sync(execution.to_async(len))("tea")
    3
    """
    from ahvn_tools.execution import async_to_sync

    return async_to_sync.to_async(function)
