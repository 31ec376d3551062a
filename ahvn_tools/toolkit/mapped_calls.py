"""Many calls of a toolkit whose bodies run in an executor, with results in their order."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncGenerator, Generator, Iterator
from concurrent.futures import Executor, Future
from dataclasses import replace
from time import perf_counter

from ahvn_tools.errors import ToolkitError
from ahvn_tools.execution import background_loop
from ahvn_tools.execution.convert import body_error_detail, error_result
from ahvn_tools.execution.plan import validate_executor
from ahvn_tools.execution.runner import capture_outcome
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.toolkit import calls
from ahvn_tools.toolkit.entry_options import COUNT, TIMEOUT, checked
from ahvn_tools.toolkit.visibility import StoreView

MappedCall = ToolCall | tuple[str, calls.Arguments | None]


def map_calls(
    view: StoreView, iterator: Iterator[MappedCall], options: calls.CallOptions, buffersize: int
) -> Generator[ToolResult, None, None]:
    """Yield the results in the order of the calls; leaving the loop cancels those that have no result yet.

    Raises SyncCallError on the background loop.
    """
    running: deque[background_loop.LoopCall] = deque()
    try:
        while True:
            for item in itertools.islice(iterator, buffersize - len(running)):
                running.append(background_loop.LoopCall(capture_outcome, _run, view, *_parse(item, options)))
                running[-1].start()
            if not running:
                return
            yield running[0].outcome().get()
            running.popleft()
    finally:
        for loop_call in running:
            loop_call.cancel(0)


async def amap_calls(
    view: StoreView, iterator: Iterator[MappedCall], options: calls.CallOptions, buffersize: int
) -> AsyncGenerator[ToolResult, None]:
    """Yield the results of calls that run in the event loop of the caller; see `map_calls`."""
    running: deque[asyncio.Task[ToolResult]] = deque()
    try:
        while True:
            for item in itertools.islice(iterator, buffersize - len(running)):
                running.append(asyncio.create_task(_run(view, *_parse(item, options))))
            if not running:
                return
            yield await running[0]
            running.popleft()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def submit(
    view: StoreView, executor: Executor, name: str, positional: tuple[object, ...], arguments: calls.Arguments
) -> Future[ToolResult]:
    """Start one call, and return a Future of its result. Raises DefinitionError for what is no executor."""
    options = replace(to_options(executor, None, 1), positional=positional)
    return asyncio.run_coroutine_threadsafe(_run(view, name, arguments, options), background_loop.get_loop())


def to_options(executor: Executor, timeout: float | None, buffersize: int) -> calls.CallOptions:
    """Return the options of each call. Raises DefinitionError for what is no executor, ToolkitError."""
    checked("buffersize", buffersize, COUNT)
    return calls.CallOptions(timeout=checked("timeout", timeout, TIMEOUT), executor=validate_executor(executor))


def _parse(item: MappedCall, options: calls.CallOptions) -> tuple[str, calls.Arguments | None, calls.CallOptions]:
    """Return the name, the arguments and the options of a call. Raises ToolkitError for what is none."""
    if isinstance(item, ToolCall):
        return item.name, item.arguments, replace(options, id=item.id)
    match item:
        case (str(name), arguments):
            return name, arguments, options
    raise ToolkitError(f'A call is a ToolCall, or a pair such as ("add", {{"a": 1}}), not a {type(item).__name__}.')


async def _run(view: StoreView, name: str, arguments: calls.Arguments | None, options: calls.CallOptions) -> ToolResult:
    started = perf_counter()
    outcome = await capture_outcome(calls.aexecute, view, name, arguments, options)
    if outcome.error is None:
        result: ToolResult = outcome.value
        return result
    if isinstance(outcome.error, Exception):
        raise outcome.error
    return error_result(body_error_detail(outcome.error, {}, tool=name, is_masked=True), started)  # a SystemExit
