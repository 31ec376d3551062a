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
from ahvn_tools.context import Report
from ahvn_tools.errors import InvalidParametersError, ToolCallError
from ahvn_tools.execution import direct, failure
from ahvn_tools.execution.call import Call, Emit, Middleware
from ahvn_tools.execution.fate import Fate
from ahvn_tools.execution.plan import Plan
from ahvn_tools.execution.settle import failed
from ahvn_tools.results import ToolResult
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.view import View

Arguments = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
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
    fate: Fate | None = None
    """What the call is cancelled by where somebody else sees to that: a batch, or the call that this one is part of."""
    report: Report | None = None
    """Takes progress."""
    emit: Emit | None = None
    """Takes what the tool gives before its result, in a call that is served."""

    @classmethod
    def of(cls, timeout: float | None, id: str | None) -> Terms:  # noqa: A002  # the id of the call
        """Return the terms that the doors of a toolkit take."""
        return PLAIN if timeout is None and id is None else cls(timeout=timeout, id=id)


PLAIN: Final = Terms()
"""The terms of a call of which no more is said."""


def call(view: View, name: str, arguments: Arguments | None, terms: Terms = PLAIN) -> Any:
    """Return the value, or raise."""
    entry, plan, given = _ready(view, name, arguments, terms)
    if (middleware := _middleware(view, entry, plan, terms)) is not None:
        made = _call(view, entry, plan, given, terms)
        with _running(view, made, terms):
            return execution.chain.value(made, execution.chain.execute(middleware, made))
    return direct.call(plan, entry.spec.body, (), given, view.layers(entry))


async def acall(view: View, name: str, arguments: Arguments | None, terms: Terms = PLAIN) -> Any:
    """Return the value, or raise."""
    entry, plan, given = _ready(view, name, arguments, terms)
    if (middleware := _middleware(view, entry, plan, terms)) is not None:
        made = _call(view, entry, plan, given, terms)
        with _running(view, made, terms):
            return execution.chain.value(made, await execution.chain.aexecute(middleware, made))
    return await execution.awaited.acall(plan, entry.spec.body, (), given, view.layers(entry))


def execute(view: View, name: str, arguments: Arguments | None, terms: Terms = PLAIN) -> ToolResult:
    """Return a result, whatever the tool does."""
    try:
        entry, plan, given = _ready(view, name, arguments, terms)
    except ToolCallError as error:
        return failed(failure.of_call(error), perf_counter())
    if (middleware := _middleware(view, entry, plan, terms)) is not None:
        made = _call(view, entry, plan, given, terms)
        with _running(view, made, terms):
            return execution.chain.execute(middleware, made)
    return direct.execute(plan, entry.spec.body, (), given, view.layers(entry))


async def aexecute(view: View, name: str, arguments: Arguments | None, terms: Terms = PLAIN) -> ToolResult:
    """Return a result, whatever the tool does."""
    try:
        entry, plan, given = _ready(view, name, arguments, terms)
    except ToolCallError as error:
        return failed(failure.of_call(error), perf_counter())
    if (middleware := _middleware(view, entry, plan, terms)) is not None:
        made = _call(view, entry, plan, given, terms)
        with _running(view, made, terms):
            return await execution.chain.aexecute(middleware, made)
    body, layers = entry.spec.body, view.layers(entry)
    return await execution.awaited.aexecute(
        plan, body, (), given, layers, is_served=terms.is_served, shows_errors=terms.shows_errors, emit=terms.emit
    )


def stream(
    view: View, name: str, arguments: Arguments | None, terms: Terms = PLAIN
) -> Generator[ToolResult, None, None]:
    """Yield the chunks, then the result."""
    try:
        entry, plan, given = _ready(view, name, arguments, terms)
    except ToolCallError as error:
        yield failed(failure.of_call(error), perf_counter())
        return
    if (middleware := _middleware(view, entry, plan, terms)) is not None:
        made = _call(view, entry, plan, given, terms)
        with _running(view, made, terms):
            yield from execution.chain.stream(middleware, made)
    else:
        yield from execution.stream.stream(plan, entry.spec.body, (), given, view.layers(entry))


async def astream(
    view: View, name: str, arguments: Arguments | None, terms: Terms = PLAIN
) -> AsyncGenerator[ToolResult, None]:
    """Yield the chunks, then the result."""
    try:
        entry, plan, given = _ready(view, name, arguments, terms)
    except ToolCallError as error:
        yield failed(failure.of_call(error), perf_counter())
        return
    running: AbstractContextManager[None] = contextlib.nullcontext()
    if (middleware := _middleware(view, entry, plan, terms)) is not None:
        made = _call(view, entry, plan, given, terms)
        running, results = _running(view, made, terms), execution.chain.astream(middleware, made)
    else:
        results = execution.stream.astream(plan, entry.spec.body, (), given, view.layers(entry))
    with running:
        try:
            async for result in results:
                yield result
        finally:
            await results.aclose()


def _ready(view: View, name: str, arguments: Arguments | None, terms: Terms) -> tuple[Entry, Plan, Arguments]:
    """Return the tool, its plan and the arguments by name.

    Raises ToolNotFoundError, ToolNotAvailableError, InvalidParametersError; ToolkitError where no timeout can hold.
    """
    entry = view.find(name, hides=terms.is_served)
    plan = view.sealed(entry).plan
    if terms is not PLAIN and terms.timeout is not None:
        entry.refuse_endless(terms.timeout)
        plan = plan.within(terms.timeout)
    if arguments is None:
        arguments = {}
    elif not isinstance(arguments, dict):
        raise InvalidParametersError("Invalid arguments: they are not an object. Pass a dict by parameter.", tool=name)
    return entry, plan, plan.named(terms.positional, arguments) if terms.positional else arguments


def _middleware(view: View, entry: Entry, plan: Plan, terms: Terms) -> tuple[Middleware, ...] | None:
    """Return what stands around a call; None for one that nothing does, and that nobody can cancel by its id."""
    middleware = view.middleware(entry, plan)
    return () if middleware is None and terms.id is not None else middleware


def _running(view: View, call: Call, terms: Terms) -> AbstractContextManager[None]:
    """Return what lets a call be cancelled by its id, while it is open."""
    if terms.fate is not None:
        return contextlib.nullcontext()
    return view.catalog.running.under(call.id, view.holders, call.fate)


def _call(view: View, entry: Entry, plan: Plan, arguments: Arguments, terms: Terms) -> Call:
    """Return the call for the middleware."""
    return Call(
        id=terms.id if terms.id is not None else f"call_{os.urandom(16).hex()}",
        name=entry.name,
        arguments=arguments,
        session_id=view.holder.session_id if view.is_session else None,
        run_id=terms.run_id,
        is_approved=terms.is_approved,
        is_served=terms.is_served,
        shows_errors=terms.shows_errors,
        report=terms.report,
        emit=terms.emit,
        roots=view.catalog.roots,
        open_toolkit=lambda: view.catalog.open(view),
        plan=plan,
        body=entry.spec.body,
        layers=view.layers(entry),
        describe=lambda: view.definition(entry),
        fate=terms.fate or Fate(),
    )
