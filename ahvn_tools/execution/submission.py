"""Submit a call of a spec to an executor, and get a Future of its result."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from time import perf_counter
from typing import Any

from ahvn_tools.binding import StateScopes
from ahvn_tools.errors import ToolCallError
from ahvn_tools.execution import background_loop, direct_call
from ahvn_tools.execution.convert import body_error_detail, call_error_detail, error_result, to_result
from ahvn_tools.execution.plan import Arguments, Body, Plan
from ahvn_tools.execution.runner import capture_outcome, run_body
from ahvn_tools.results import ToolResult
from ahvn_tools.state import copy_state


def submit(
    plan: Plan, body: Body, positional: tuple[Any, ...], arguments: Arguments, scopes: StateScopes
) -> Future[ToolResult]:
    """Start a call of a plan with an executor, and return a Future of its result; cancelling that cancels the call.

    The arguments are validated and the state is read before this returns.
    """
    started = perf_counter()
    if plan.ship:
        scopes = [copy_state(scope) for scope in scopes]
    try:
        values, seconds = direct_call.prepare(plan, positional, arguments, scopes)
    except ToolCallError as error:
        refused: Future[ToolResult] = Future()
        refused.set_result(error_result(call_error_detail(error), started))
        return refused

    async def run() -> ToolResult:
        outcome = await run_body(plan, body, values, seconds=seconds)
        return to_result(plan, body, outcome, values, started)

    async def run_and_capture() -> ToolResult:
        outcome = await capture_outcome(run)
        if outcome.error is not None:  # a SystemExit of another process does not end this one
            return error_result(body_error_detail(outcome.error, plan.hidden_values(values), tool=plan.name), started)
        result: ToolResult = outcome.value
        return result

    return asyncio.run_coroutine_threadsafe(run_and_capture(), background_loop.get_loop())
