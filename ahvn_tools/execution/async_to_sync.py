"""What a sync caller runs on the background loop and waits for; and functions for callers of the other kind."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from time import monotonic
from typing import Any, TypeVar

from ahvn_tools.binding import StateScopes
from ahvn_tools.errors import DefinitionError, SyncCallError, ToolTimeoutError
from ahvn_tools.execution import background_loop
from ahvn_tools.execution.call import CallScope
from ahvn_tools.execution.channel import ChunkReader
from ahvn_tools.execution.consume import aconsume
from ahvn_tools.execution.deadline import CANCEL_GRACE_SECONDS, max_wait_seconds, seconds_left, timeout_error
from ahvn_tools.execution.item_limits import ItemLimits
from ahvn_tools.execution.outcome import Outcome
from ahvn_tools.execution.plan import Arguments, Body, Plan
from ahvn_tools.execution.runner import capture_outcome, run_before_body, run_body, run_resolvers
from ahvn_tools.execution.threads import run_in_thread

T = TypeVar("T")


def run_on_loop(
    plan: Plan, start: background_loop.CoroutineFactory, *arguments: Any, scope: CallScope | None = None
) -> Outcome:
    """Run `start(*arguments)` on the background loop, and wait for it as `wait_for_loop` does."""
    loop_call = background_loop.LoopCall(start, *arguments)
    with loop_call, loop_call:
        loop_call.start()
        try:
            return wait_for_loop(plan, loop_call.outcome, scope)
        except ToolTimeoutError as error:
            loop_call.cancel(0)
            return Outcome(error=error, is_runner_error=True)


def wait_for_loop(plan: Plan, wait: Callable[[float | None], T], scope: CallScope | None = None) -> T:
    """Return what `wait(timeout)` returns. Raises ToolTimeoutError when a body blocks the loop, so that no timer fires.

    With the `scope` of a call the timeout does not limit its middleware: from time to time the clock of its body is
    read, and whether the loop responds.
    """
    seconds = max_wait_seconds(plan)
    while True:
        has_responded = threading.Event()
        if seconds is not None:
            background_loop.call_soon(has_responded.set)
        try:
            return wait(seconds)
        except (TimeoutError, queue.Empty):
            if scope is None or not has_responded.is_set() or _is_late(plan, scope):
                raise timeout_error(plan, "a body blocks the background loop") from None


def _is_late(plan: Plan, scope: CallScope) -> bool:
    """Return whether the body's time passed a while ago, and its timer did not fire."""
    deadline = scope.deadline
    return deadline is not None and deadline.remaining_seconds() + plan.startup_seconds < -CANCEL_GRACE_SECONDS


def run_body_on_loop(plan: Plan, body: Body, values: Arguments, seconds: float | None = None) -> Outcome:
    """Run the body to its end and return its outcome; `seconds` are left of its timeout."""
    return run_on_loop(plan, functools.partial(run_body, plan, body, values, seconds=seconds))


def prepare_in_caller(
    plan: Plan, positional: tuple[Any, ...], arguments: Arguments, scopes: StateScopes
) -> tuple[Arguments, float | None]:
    """Return what `runner.prepare` returns. Async resolvers run on the background loop, all else in this thread."""
    started = monotonic()
    resolved: Arguments | None = None
    if plan.has_async_resolvers:
        run = functools.partial(run_before_body, plan, functools.partial(run_resolvers, plan, scopes))
        resolved, _ = run_on_loop(plan, capture_outcome, run).get(tool=plan.name)
    return plan.prepare(positional, arguments, scopes, resolved), seconds_left(plan, started)


def consume_on_loop(returned: Any, limits: ItemLimits) -> Any:
    """Await or iterate what a body returned, to its end."""
    try:
        return background_loop.run(capture_outcome, aconsume, returned, limits).get()
    except SyncCallError:
        if hasattr(returned, "close"):
            returned.close()  # a coroutine that cannot be awaited here
        raise


def iterate_on_loop(plan: Plan, returned: Any) -> Generator[Any, None, Any]:
    """Await or iterate what a body returned; yield the items as they are made, and return the value."""
    reader = ChunkReader(lambda emit: capture_outcome(aconsume, returned, plan.item_limits, emit))
    yield from read_on_loop(plan, reader.read())
    return reader.outcome.get()


def read_on_loop(
    plan: Plan | None, chunks: AsyncGenerator[Any, None], scope: CallScope | None = None
) -> Generator[Any, None, Outcome]:
    """Iterate on the background loop when a sync reader wants the next chunk; return what has ended the iteration.

    Waits for a chunk as `wait_for_loop` does; without the plan of a call, as long as it takes.
    """
    made: queue.SimpleQueue[Any] = queue.SimpleQueue()
    next_requested, end = asyncio.Semaphore(0), object()

    async def read() -> Outcome:
        async with contextlib.aclosing(chunks):
            async for chunk in chunks:
                made.put(chunk)
                await next_requested.acquire()
        return Outcome()

    def next_chunk() -> Any:
        return made.get() if plan is None else wait_for_loop(plan, lambda timeout: made.get(timeout=timeout), scope)

    loop_call = background_loop.LoopCall(capture_outcome, read, on_end=lambda: made.put(end))
    with loop_call, loop_call:
        loop_call.start()
        while (chunk := next_chunk()) is not end:
            yield chunk
            background_loop.call_soon(next_requested.release)
        return loop_call.outcome()


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
