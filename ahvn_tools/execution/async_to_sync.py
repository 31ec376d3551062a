"""What a sync caller runs on the background loop and waits for; and functions for callers of the other kind."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import queue
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from time import monotonic
from typing import Any

from ahvn_tools.binding import StateScopes
from ahvn_tools.errors import DefinitionError, SyncCallError
from ahvn_tools.execution import background_loop
from ahvn_tools.execution.consume import aconsume
from ahvn_tools.execution.deadline import seconds_left
from ahvn_tools.execution.outcome import Outcome
from ahvn_tools.execution.plan import Arguments, Body, ItemLimits, Plan
from ahvn_tools.execution.runner import capture_outcome, run_body, with_resolved_values
from ahvn_tools.execution.threads import EmitItem, call_in_thread


def run_body_on_loop(plan: Plan, body: Body, values: Arguments, seconds: float | None = None) -> Outcome:
    """Run the body to its end and return its outcome; `seconds` are left of its timeout."""
    return background_loop.run(functools.partial(run_body, plan, body, values, seconds=seconds))


def prepare_in_caller(
    plan: Plan, positional: tuple[Any, ...], arguments: Arguments, scopes: StateScopes
) -> tuple[Arguments, float | None]:
    """Return what `runner.prepare` returns. Async resolvers run on the background loop, all else in this thread."""
    started = monotonic()
    if plan.has_async_resolvers:
        plan = background_loop.run(capture_outcome, with_resolved_values, plan, scopes).get(tool=plan.name)
    return plan.prepare(positional, arguments, scopes), seconds_left(plan, started)


def consume_on_loop(returned: Any, limits: ItemLimits, items: list[Any]) -> Any:
    """Await or iterate what a body returned, to its end; `items` is filled with the values of its items."""
    try:
        return background_loop.run(capture_outcome, aconsume, returned, limits, None, items).get()
    except SyncCallError:
        if hasattr(returned, "close"):
            returned.close()  # a coroutine that cannot be awaited here
        raise


def read_emitted(run: Callable[[EmitItem], Coroutine[Any, Any, Outcome]]) -> Generator[Any, None, Outcome]:
    """Run `run(emit)` on the background loop, and yield to a sync reader what it emits; return its outcome.

    `emit` returns when the reader wants the next, and raises CancelledError when the reader has left.
    """
    made: queue.SimpleQueue[Any] = queue.SimpleQueue()
    next_requested, has_left, end = asyncio.Semaphore(0), False, object()

    async def emit(chunk: Any) -> None:
        if has_left:
            raise asyncio.CancelledError
        made.put(chunk)
        await next_requested.acquire()

    loop_call = background_loop.LoopCall(run, emit, on_end=lambda: made.put(end))
    with loop_call, loop_call:
        loop_call.start()
        try:
            while (chunk := made.get()) is not end:
                yield chunk
                background_loop.call_soon(next_requested.release)
        finally:
            has_left = True
        return loop_call.outcome()


def read_on_loop(chunks: AsyncGenerator[Any, None]) -> Generator[Any, None, Outcome]:
    """Iterate on the background loop when a sync reader wants the next chunk; return what has ended the iteration."""

    async def read(emit: EmitItem) -> None:
        async with contextlib.aclosing(chunks):
            async for chunk in chunks:
                await emit(chunk)

    return (yield from read_emitted(functools.partial(capture_outcome, read)))


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
        return await call_in_thread(functools.partial(function, *args, **kwargs))

    return run


def _is_async(function: Any) -> bool:
    """Return whether calls must be awaited. Raises DefinitionError for what cannot be called."""
    if not callable(function):
        raise DefinitionError(f"{function!r} is no function: pass one, or another object that can be called.")
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
