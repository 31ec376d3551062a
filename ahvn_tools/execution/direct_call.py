"""Direct calls: without middleware, and nothing observes or cancels them.

From sync code a sync body runs in its caller's thread, and any other on the background loop. From async code an async
body runs in its caller's task, and a sync one in a worker thread with the caller's contextvars, unless
`run_in_thread=False`. A timeout runs a body in another task. asyncio is imported only for what needs an event loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any

from ahvn_tools.binding import StateScopes
from ahvn_tools.errors import ToolCallError
from ahvn_tools.execution.consume import aconsume, consume
from ahvn_tools.execution.convert import call_error_detail, error_result, returned_result, to_result, unwrap_value
from ahvn_tools.execution.outcome import (
    Outcome,
    is_cancellation,
    is_consumable,
    is_iterator,
    is_self_cancellation,
    self_cancelled_error,
)
from ahvn_tools.execution.plan import Arguments, Body, Plan
from ahvn_tools.results import ToolResult
from ahvn_tools.schema.problems import find_changes


def call(plan: Plan, body: Body, positional: tuple[Any, ...], arguments: Arguments, scopes: StateScopes) -> Any:
    """Return the value, or raise the body's exception unchanged or a ToolCallError."""
    values, seconds = prepare(plan, positional, arguments, scopes)
    if plan.runs_in_caller_thread:
        return call_body(plan, body, values)
    from ahvn_tools.execution.async_to_sync import run_body_on_loop

    outcome = run_body_on_loop(plan.for_value(), body, values, seconds)
    return unwrap_value(plan, body, outcome.get(tool=plan.name), values)


async def acall(plan: Plan, body: Body, positional: tuple[Any, ...], arguments: Arguments, scopes: StateScopes) -> Any:
    """Return the value, or raise the body's exception unchanged or a ToolCallError."""
    values, seconds = await _aprepare(plan, positional, arguments, scopes)
    if not plan.runs_in_caller_task:
        from ahvn_tools.execution.runner import run_body

        outcome = await run_body(plan.for_value(), body, values, seconds=seconds)
        return unwrap_value(plan, body, outcome.get(tool=plan.name), values)
    try:
        returned = await (body(**values) if plan.is_keyword_callable else plan.invoke(body, values))
    except BaseException as error:
        if is_self_cancellation(error):
            raise self_cancelled_error(plan.name) from None
        raise
    return await aunwrap_value(plan, body, returned, values)


def call_body(plan: Plan, body: Body, values: Arguments) -> Any:
    """Call a sync body in this thread and return the value of what it returned.

    A CancelledError that the body raises becomes a CallCancelledError: a sync call cannot be cancelled by its caller.
    """
    try:
        returned = body(**values) if plan.is_keyword_callable else plan.invoke(body, values)
    except BaseException as error:
        if is_cancellation(error):
            raise self_cancelled_error(plan.name) from error
        raise
    if type(returned) is plan.exact_type:
        return returned
    if is_consumable(returned):
        returned = Outcome.capture(lambda: _consume_returned(plan, returned, [])).get(tool=plan.name)
    return unwrap_value(plan, body, returned, values)


async def aunwrap_value(plan: Plan, body: Body, returned: Any, values: Mapping[str, Any]) -> Any:
    """Return the value of what an async body returned."""
    if type(returned) is plan.exact_type:
        return returned
    if is_consumable(returned):
        returned = (await _aconsume_returned(plan, returned, [])).get(tool=plan.name)
    return unwrap_value(plan, body, returned, values)


def execute(  # noqa: PLR0917  # the parts of a direct call, and one option
    plan: Plan,
    body: Body,
    positional: tuple[Any, ...],
    arguments: Arguments,
    scopes: StateScopes,
    masks_errors: bool = False,
) -> ToolResult:
    """Return a result, an error result for any Exception that the body raises; `masks_errors` hides its text."""
    started = perf_counter()
    try:
        values, seconds = prepare(plan, positional, arguments, scopes)
    except ToolCallError as error:
        return error_result(call_error_detail(error), started)
    if not plan.runs_in_caller_thread:
        from ahvn_tools.execution.async_to_sync import run_body_on_loop

        outcome = run_body_on_loop(plan, body, values, seconds)
        return to_result(plan, body, outcome, values, started, masks_errors=masks_errors)
    items: list[Any] | None = None
    try:
        returned = body(**values) if plan.is_keyword_callable else plan.invoke(body, values)
        if type(returned) is not plan.exact_type and is_consumable(returned):
            returned = _consume_returned(plan, returned, items := [])
    except BaseException as error:  # noqa: BLE001  # a body's own CancelledError is a result; `to_result` raises the others
        return to_result(plan, body, Outcome(error=error, made=items or ()), values, started, masks_errors=masks_errors)
    return returned_result(plan, body, returned, values, started)


def validate(plan: Plan, positional: tuple[Any, ...], arguments: Arguments) -> ToolResult:
    """Return the arguments that the visible parameters would get, or an error result. No body and no resolver runs."""
    started = perf_counter()
    try:
        named = plan.to_named_arguments(positional, arguments) if positional else arguments
        values = plan.check_arguments((), named)
    except ToolCallError as error:
        return error_result(call_error_detail(error), started)
    passed = plan.to_sendable_arguments(values, named)
    meta = {"changed": list(find_changes(named, passed)), "duration": perf_counter() - started}
    return ToolResult(passed, structured_content=passed, meta=meta)


def run_body_here(plan: Plan, body: Body, values: Arguments, items: list[Any]) -> Any:
    """Return what a sync body returns, or its items, in this thread; `items` is filled with their values."""
    returned = body(**values) if plan.is_keyword_callable else plan.invoke(body, values)
    is_plain = type(returned) is plan.exact_type or not is_consumable(returned)
    return returned if is_plain else _consume_returned(plan, returned, items)


async def aexecute(  # noqa: PLR0917  # as `execute`
    plan: Plan,
    body: Body,
    positional: tuple[Any, ...],
    arguments: Arguments,
    scopes: StateScopes,
    masks_errors: bool = False,
) -> ToolResult:
    """Return a result, an error result for any Exception that the body raises; `masks_errors` hides its text."""
    started = perf_counter()
    try:
        values, seconds = await _aprepare(plan, positional, arguments, scopes)
    except ToolCallError as error:
        return error_result(call_error_detail(error), started)
    if not plan.runs_in_caller_task:
        from ahvn_tools.execution.runner import run_body

        outcome = await run_body(plan, body, values, seconds=seconds)
        if outcome.error is None:
            return returned_result(plan, body, outcome.value, values, started)
        return to_result(plan, body, outcome, values, started, masks_errors=masks_errors)
    try:
        returned = await (body(**values) if plan.is_keyword_callable else plan.invoke(body, values))
    except BaseException as error:
        if not (isinstance(error, Exception) or is_self_cancellation(error)):
            raise
        outcome = Outcome(error=error)
    else:
        is_plain = type(returned) is plan.exact_type
        if is_plain or not is_consumable(returned):
            return returned_result(plan, body, returned, values, started)
        items: list[Any] = []
        outcome = await _aconsume_returned(plan, returned, items)
        outcome = outcome if outcome.error is None else replace(outcome, made=items)
    return to_result(plan, body, outcome, values, started, masks_errors=masks_errors)


def prepare(
    plan: Plan, positional: tuple[Any, ...], arguments: Arguments, scopes: StateScopes
) -> tuple[Arguments, float | None]:
    """Return the body's arguments, and how many seconds are left for the body; None without a timeout.

    All but async resolvers runs in this thread.
    """
    if plan.timeout is None and not plan.has_async_resolvers:
        return plan.prepare(positional, arguments, scopes), None
    from ahvn_tools.execution.async_to_sync import prepare_in_caller

    return prepare_in_caller(plan, positional, arguments, scopes)


async def _aprepare(
    plan: Plan, positional: tuple[Any, ...], arguments: Arguments, scopes: StateScopes
) -> tuple[Arguments, float | None]:
    """Return what `prepare` returns; async resolvers run in this loop."""
    if plan.timeout is None and not plan.has_async_resolvers:
        return plan.prepare(positional, arguments, scopes), None
    from ahvn_tools.execution.runner import prepare

    return await prepare(plan, positional, arguments, scopes)


def _consume_returned(plan: Plan, returned: Any, items: list[Any]) -> Any:
    """Iterate what a body returned in this thread; an awaitable or async iterator runs on the background loop."""
    if is_iterator(returned):
        return consume(returned, plan.item_limits, items=items)
    from ahvn_tools.execution.async_to_sync import consume_on_loop

    return consume_on_loop(returned, plan.item_limits, items)


async def _aconsume_returned(plan: Plan, returned: Any, items: list[Any]) -> Outcome:
    """Await and iterate what a body returned."""
    from ahvn_tools.execution.runner import capture_outcome

    return await capture_outcome(aconsume, returned, plan.item_limits, None, items)
