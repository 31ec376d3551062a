"""A call whose output goes to a function of the host, and which a condition of the host cancels."""

from __future__ import annotations

import asyncio
import inspect
import secrets
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, Protocol

from ahvn_tools.errors import ToolkitError
from ahvn_tools.execution.call import CallScope
from ahvn_tools.execution.deadline import cancel_and_wait
from ahvn_tools.results import ToolResult
from ahvn_tools.toolkit import calls
from ahvn_tools.toolkit.entry_options import validate_callable
from ahvn_tools.toolkit.visibility import StoreView

POLL_SECONDS: Final = 0.05
"""How often a condition is asked."""
CANCEL_GRACE_SECONDS: Final = 5.0
"""How long a cancelled call may take to end, with a function of its host that takes output."""

OnOutput = Callable[[Any], Any]
"""Takes what a tool has passed to `append_output`; sync or async."""


class SettableEvent(Protocol):
    """An Event of asyncio, threading or multiprocessing."""

    def is_set(self) -> bool:
        """Return whether it has happened."""


class AbortSignal(Protocol):
    """An AbortSignal as in JavaScript, such as Pyodide passes it."""

    @property
    def aborted(self) -> bool:
        """Whether it has happened."""


CancelWhen = Callable[[], bool] | SettableEvent | AbortSignal
"""Says whether a call is to be cancelled."""


async def aexecute(
    view: StoreView,
    name: str,
    arguments: calls.Arguments | None,
    options: calls.CallOptions,
    *,
    on_output: OnOutput | None,
    cancel_when: CancelWhen | None,
) -> ToolResult:
    """Return a result, an error result for any Exception of the tool. What the two functions raise is raised.

    Raises ToolkitError for what is no such function or Event.
    """
    if on_output is not None:
        validate_callable("`on_output`", "a function of the output", on_output)
    if cancel_when is None:
        return await _read(view, name, arguments, options, on_output)
    is_cancelled, scope = _to_function(cancel_when), CallScope()
    id = options.id or f"call_{secrets.token_hex(16)}"  # noqa: A001  # the id of the call
    if is_cancelled():
        return replace(scope.interrupted_result(name), id=id)
    with view.store.active_calls.track(id, view.session_states, scope):
        reading = asyncio.create_task(_read(view, name, arguments, replace(options, id=id, scope=scope), on_output))
        try:
            while not (reading.done() or is_cancelled()):
                await asyncio.wait([reading], timeout=POLL_SECONDS)
            if not reading.done():
                scope.cancel()
                await asyncio.wait([reading], timeout=CANCEL_GRACE_SECONDS)
            return reading.result() if reading.done() else replace(scope.interrupted_result(name), id=id)
        finally:
            reading.add_done_callback(_ignore_error)
            await cancel_and_wait(reading)


def _ignore_error(task: asyncio.Task[ToolResult]) -> None:
    """Read the exception of a task that has ended, which asyncio would log otherwise."""
    if not task.cancelled():
        task.exception()


def _to_function(cancel_when: Any) -> Callable[[], bool]:
    """Return a function that says whether a call is to be cancelled. Raises ToolkitError for anything else."""
    if hasattr(cancel_when, "is_set"):
        return cancel_when.is_set  # type: ignore[no-any-return]  # of an event
    if hasattr(cancel_when, "aborted"):
        return lambda: cancel_when.aborted
    if not callable(cancel_when) or inspect.iscoroutinefunction(cancel_when):
        kind = "an async function" if callable(cancel_when) else f"a {type(cancel_when).__name__}"
        raise ToolkitError(f"`cancel_when` is an Event or a sync function without parameters, not {kind}.")
    return cancel_when  # type: ignore[no-any-return]  # checked above


async def _read(
    view: StoreView,
    name: str,
    arguments: calls.Arguments | None,
    options: calls.CallOptions,
    on_output: OnOutput | None,
) -> ToolResult:
    """Read the stream of a call to its end, and return the result."""
    async with aclosing(calls.astream(view, name, arguments, options)) as results:
        async for result in results:
            if result.is_last:
                return result
            if on_output is not None and result.meta.get("output"):
                outcome = on_output(result.value)
                if inspect.isawaitable(outcome):
                    await outcome
    raise AssertionError("A stream ends with its result.")  # pragma: no cover
