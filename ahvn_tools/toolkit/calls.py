"""Calls: how a view runs its tools. The names mean what they mean on a spec."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

from ahvn_tools import execution
from ahvn_tools.context import ProgressCallback
from ahvn_tools.errors import InvalidParametersError, ToolCallError
from ahvn_tools.execution import failure, sync_call
from ahvn_tools.execution.call import Call, EmitChunk, Middleware
from ahvn_tools.execution.convert import error_result
from ahvn_tools.execution.plan import Plan
from ahvn_tools.execution.scope import CallScope
from ahvn_tools.results import ToolResult
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.visibility import StoreView

Arguments = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class CallOptions:
    """How a call is asked for, beside its tool and its arguments."""

    timeout: float | None = None
    """Seconds that it may take, if the tool allows more."""
    positional: tuple[Any, ...] = ()
    """Arguments by position."""
    id: str | None = None
    run_id: str | None = None
    is_approved: bool = False
    """Whether somebody has allowed it."""
    is_served: bool = False
    """Whether it came over a wire."""
    shows_errors: bool = False
    """Whether what its tool raises is told over a wire, too."""
    scope: CallScope | None = None
    """What the call is cancelled by where somebody else sees to that: a batch, or the call that this one is part of."""
    report: ProgressCallback | None = None
    """Takes progress."""
    emit: EmitChunk | None = None
    """Takes what the tool gives before its result, in a call that is served."""

    @classmethod
    def create(cls, timeout: float | None, id: str | None) -> CallOptions:  # noqa: A002  # the id of the call
        """Return the terms that the doors of a toolkit take."""
        return DEFAULT_OPTIONS if timeout is None and id is None else cls(timeout=timeout, id=id)


DEFAULT_OPTIONS: Final = CallOptions()
"""The terms of a call of which no more is said."""


def call(view: StoreView, name: str, arguments: Arguments | None, options: CallOptions = DEFAULT_OPTIONS) -> Any:
    """Return the value, or raise."""
    entry, plan, given = _prepare(view, name, arguments, options)
    if (middleware := _middleware(view, entry, plan, options)) is not None:
        made = _new_call(view, entry, plan, given, options)
        with _track(view, made, options):
            return execution.pipeline.unwrap_result(made, execution.pipeline.execute(middleware, made))
    return sync_call.call(plan, entry.spec.body, (), given, view.state_scopes(entry))


async def acall(view: StoreView, name: str, arguments: Arguments | None, options: CallOptions = DEFAULT_OPTIONS) -> Any:
    """Return the value, or raise."""
    entry, plan, given = _prepare(view, name, arguments, options)
    if (middleware := _middleware(view, entry, plan, options)) is not None:
        made = _new_call(view, entry, plan, given, options)
        with _track(view, made, options):
            return execution.pipeline.unwrap_result(made, await execution.pipeline.aexecute(middleware, made))
    return await execution.async_call.acall(plan, entry.spec.body, (), given, view.state_scopes(entry))


def execute(
    view: StoreView, name: str, arguments: Arguments | None, options: CallOptions = DEFAULT_OPTIONS
) -> ToolResult:
    """Return a result, whatever the tool does."""
    try:
        entry, plan, given = _prepare(view, name, arguments, options)
    except ToolCallError as error:
        return error_result(failure.call_error_detail(error), perf_counter())
    if (middleware := _middleware(view, entry, plan, options)) is not None:
        made = _new_call(view, entry, plan, given, options)
        with _track(view, made, options):
            return execution.pipeline.execute(middleware, made)
    return sync_call.execute(plan, entry.spec.body, (), given, view.state_scopes(entry))


async def aexecute(
    view: StoreView, name: str, arguments: Arguments | None, options: CallOptions = DEFAULT_OPTIONS
) -> ToolResult:
    """Return a result, whatever the tool does."""
    try:
        entry, plan, given = _prepare(view, name, arguments, options)
    except ToolCallError as error:
        return error_result(failure.call_error_detail(error), perf_counter())
    if (middleware := _middleware(view, entry, plan, options)) is not None:
        made = _new_call(view, entry, plan, given, options)
        with _track(view, made, options):
            return await execution.pipeline.aexecute(middleware, made)
    body, layers = entry.spec.body, view.state_scopes(entry)
    return await execution.async_call.aexecute(
        plan, body, (), given, layers, is_served=options.is_served, shows_errors=options.shows_errors, emit=options.emit
    )


def stream(
    view: StoreView, name: str, arguments: Arguments | None, options: CallOptions = DEFAULT_OPTIONS
) -> Generator[ToolResult, None, None]:
    """Yield the chunks, then the result."""
    try:
        entry, plan, given = _prepare(view, name, arguments, options)
    except ToolCallError as error:
        yield error_result(failure.call_error_detail(error), perf_counter())
        return
    if (middleware := _middleware(view, entry, plan, options)) is not None:
        made = _new_call(view, entry, plan, given, options)
        with _track(view, made, options):
            yield from execution.pipeline.stream(middleware, made)
    else:
        yield from execution.stream_call.stream(plan, entry.spec.body, (), given, view.state_scopes(entry))


async def astream(
    view: StoreView, name: str, arguments: Arguments | None, options: CallOptions = DEFAULT_OPTIONS
) -> AsyncGenerator[ToolResult, None]:
    """Yield the chunks, then the result."""
    try:
        entry, plan, given = _prepare(view, name, arguments, options)
    except ToolCallError as error:
        yield error_result(failure.call_error_detail(error), perf_counter())
        return
    running: AbstractContextManager[None] = contextlib.nullcontext()
    if (middleware := _middleware(view, entry, plan, options)) is not None:
        made = _new_call(view, entry, plan, given, options)
        running, results = _track(view, made, options), execution.pipeline.astream(middleware, made)
    else:
        results = execution.stream_call.astream(plan, entry.spec.body, (), given, view.state_scopes(entry))
    with running:
        try:
            async for result in results:
                yield result
        finally:
            await results.aclose()


def _prepare(
    view: StoreView, name: str, arguments: Arguments | None, options: CallOptions
) -> tuple[Entry, Plan, Arguments]:
    """Return the tool, its plan and the arguments by name.

    Raises ToolNotFoundError, ToolNotAvailableError, InvalidParametersError; ToolkitError where no timeout can hold.
    """
    entry = view.find(name, hides_unselected=options.is_served)
    plan = view.compiled_tool(entry).plan
    if options is not DEFAULT_OPTIONS and options.timeout is not None:
        entry.refuse_uninterruptible(options.timeout)
        plan = plan.with_timeout(options.timeout)
    if arguments is None:
        arguments = {}
    elif not isinstance(arguments, dict):
        raise InvalidParametersError("Invalid arguments: they are not an object. Pass a dict by parameter.", tool=name)
    return entry, plan, plan.to_named_arguments(options.positional, arguments) if options.positional else arguments


def _middleware(view: StoreView, entry: Entry, plan: Plan, options: CallOptions) -> tuple[Middleware, ...] | None:
    """Return what stands around a call; None for one that nothing does, and that nobody can cancel by its id."""
    middleware = view.middleware(entry, plan)
    return () if middleware is None and options.id is not None else middleware


def _track(view: StoreView, call: Call, options: CallOptions) -> AbstractContextManager[None]:
    """Return what lets a call be cancelled by its id, while it is open."""
    if options.scope is not None:
        return contextlib.nullcontext()
    return view.store.active_calls.track(call.id, view.session_states, call.scope)


def _new_call(view: StoreView, entry: Entry, plan: Plan, arguments: Arguments, options: CallOptions) -> Call:
    """Return the call for the middleware."""
    return Call(
        id=options.id if options.id is not None else f"call_{os.urandom(16).hex()}",
        name=entry.name,
        arguments=arguments,
        session_id=view.session_state.session_id if view.is_session else None,
        run_id=options.run_id,
        is_approved=options.is_approved,
        is_served=options.is_served,
        shows_errors=options.shows_errors,
        report=options.report,
        emit=options.emit,
        roots=view.store.roots,
        open_toolkit=lambda: view.store.make_toolkit(view),
        plan=plan,
        body=entry.spec.body,
        state_scopes=view.state_scopes(entry),
        describe=lambda: view.definition(entry),
        scope=options.scope or CallScope(),
    )
