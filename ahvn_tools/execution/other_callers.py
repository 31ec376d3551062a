"""Functions for callers of the other kind: async functions for sync code, and sync functions for async code."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ahvn_tools.errors import DefinitionError
from ahvn_tools.execution import background_loop
from ahvn_tools.execution.runner import capture_outcome
from ahvn_tools.execution.threads import run_in_thread

Function = Callable[..., Any]


def to_sync(function: Function) -> Function:
    """Return a function that runs an async one on the background loop, and waits for it."""
    if not _is_async(function):
        return function

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        return background_loop.run(capture_outcome, functools.partial(function, *args, **kwargs)).get()

    return run


def to_async(function: Function) -> Function:
    """Return a coroutine function that runs a sync one in a worker thread."""
    if _is_async(function):
        return function

    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        return (await run_in_thread(lambda _: function(*args, **kwargs))).get()

    return run


def _is_async(function: Any) -> bool:
    """Return whether calls must be awaited. Raises DefinitionError for what cannot be called."""
    if not callable(function):
        raise DefinitionError(f"{function!r} is no function: pass one, or another object that can be called.")
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
