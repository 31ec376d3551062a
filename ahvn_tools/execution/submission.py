"""Submit a call of a spec to an executor, and get a Future of its result."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Callable
from concurrent.futures import Future
from time import perf_counter
from typing import Any

from ahvn_tools.binding import StateScopes
from ahvn_tools.errors import ToolCallError
from ahvn_tools.execution import background_loop, direct_call
from ahvn_tools.execution.convert import body_error_detail, call_error_detail, error_result, to_result
from ahvn_tools.execution.plan import Arguments, Body, Plan
from ahvn_tools.execution.runner import capture_outcome, run_body
from ahvn_tools.execution.workers.call_executor import CallExecutor, CallObserver, CallTask, RunningCall
from ahvn_tools.execution.workers.plain import start_call
from ahvn_tools.results import ToolResult
from ahvn_tools.state import copy_state


def submit(
    plan: Plan, body: Body, positional: tuple[Any, ...], arguments: Arguments, scopes: StateScopes
) -> Future[ToolResult]:
    """Start a call of a plan with an executor, and return a Future of its result; cancelling that cancels the call.

    The arguments are validated, the state is read, and the executor has the call before this returns; on the background
    loop, it gets the call soon after.
    """
    started = perf_counter()
    if plan.settings.ship:
        scopes = [copy_state(scope) for scope in scopes]
    try:
        values, seconds = direct_call.prepare(plan, positional, arguments, scopes)
    except ToolCallError as error:
        refused: Future[ToolResult] = Future()
        refused.set_result(error_result(call_error_detail(error), started))
        return refused

    acceptance = _Acceptance(plan.executor)
    plan = copy.copy(plan)
    plan.executor = acceptance

    async def run() -> ToolResult:
        outcome = await run_body(plan, body, values, seconds=seconds)
        return to_result(plan, body, outcome, values, started)

    async def run_and_capture() -> ToolResult:
        outcome = await capture_outcome(run)
        if outcome.error is not None:  # a SystemExit of another process does not end this one
            hidden = plan.hidden_values(values, body)
            return error_result(body_error_detail(outcome.error, hidden, tool=plan.name), started)
        result: ToolResult = outcome.value
        return result

    future = asyncio.run_coroutine_threadsafe(run_and_capture(), background_loop.get_loop())
    future.add_done_callback(lambda _: acceptance.event.set())
    if background_loop.running_loop() is not background_loop.get_loop():
        acceptance.event.wait()
    return future


class _Acceptance(CallExecutor):
    """An executor that says when another one has accepted, or refused, a call."""

    def __init__(self, executor: Any) -> None:
        self.event = threading.Event()
        self._executor = executor

    def start_call(self, task: CallTask, observer: CallObserver) -> RunningCall:
        """Start the call in the other executor."""
        try:
            return start_call(self._executor, task, observer)
        finally:
            self.event.set()

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function in the other executor."""
        future: Future[Any] = self._executor.submit(function, *args, **kwargs)
        return future
