"""Calls: how a view runs its tools. The names mean what they mean on a spec."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Generator
from time import perf_counter
from typing import Any

from ahvn_tools import execution
from ahvn_tools.errors import InvalidParametersError, ToolCallError
from ahvn_tools.execution import direct, failure
from ahvn_tools.execution.call import Call
from ahvn_tools.execution.plan import Plan
from ahvn_tools.execution.settle import failed
from ahvn_tools.results import ToolResult
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.view import View

Arguments = dict[str, Any]


def call(
    view: View, name: str, arguments: Arguments | None, timeout: float | None = None, positional: tuple[Any, ...] = ()
) -> Any:
    """Return the value, or raise."""
    entry, plan, given = _ready(view, name, arguments, timeout, positional)
    if (middleware := view.middleware(entry, plan)) is not None:
        made = _call(view, entry, plan, given)
        return execution.chain.value(made, execution.chain.execute(middleware, made))
    return direct.call(plan, entry.spec.body, (), given, view.layers(entry))


async def acall(
    view: View, name: str, arguments: Arguments | None, timeout: float | None = None, positional: tuple[Any, ...] = ()
) -> Any:
    """Return the value, or raise."""
    entry, plan, given = _ready(view, name, arguments, timeout, positional)
    if (middleware := view.middleware(entry, plan)) is not None:
        made = _call(view, entry, plan, given)
        return execution.chain.value(made, await execution.chain.aexecute(middleware, made))
    return await execution.awaited.acall(plan, entry.spec.body, (), given, view.layers(entry))


def execute(
    view: View,
    name: str,
    arguments: Arguments | None,
    timeout: float | None = None,
    positional: tuple[Any, ...] = (),
    *,
    id: str | None = None,  # noqa: A002  # the id of the call
    is_approved: bool = False,
) -> ToolResult:
    """Return a result, whatever the tool does."""
    try:
        entry, plan, given = _ready(view, name, arguments, timeout, positional)
    except ToolCallError as error:
        return failed(failure.of_call(error), perf_counter())
    if (middleware := view.middleware(entry, plan)) is not None:
        return execution.chain.execute(middleware, _call(view, entry, plan, given, id, is_approved=is_approved))
    return direct.execute(plan, entry.spec.body, (), given, view.layers(entry))


async def aexecute(
    view: View,
    name: str,
    arguments: Arguments | None,
    timeout: float | None = None,
    positional: tuple[Any, ...] = (),
    *,
    id: str | None = None,  # noqa: A002  # the id of the call
    is_approved: bool = False,
    is_served: bool = False,
) -> ToolResult:
    """Return a result, whatever the tool does."""
    try:
        entry, plan, given = _ready(view, name, arguments, timeout, positional)
    except ToolCallError as error:
        return failed(failure.of_call(error), perf_counter())
    if (middleware := view.middleware(entry, plan)) is not None:
        return await execution.chain.aexecute(
            middleware, _call(view, entry, plan, given, id, is_approved=is_approved, is_served=is_served)
        )
    layers = view.layers(entry)
    return await execution.awaited.aexecute(plan, entry.spec.body, (), given, layers, is_served=is_served)


def stream(
    view: View, name: str, arguments: Arguments | None, timeout: float | None = None, positional: tuple[Any, ...] = ()
) -> Generator[ToolResult, None, None]:
    """Yield the chunks, then the result."""
    try:
        entry, plan, given = _ready(view, name, arguments, timeout, positional)
    except ToolCallError as error:
        yield failed(failure.of_call(error), perf_counter())
        return
    if (middleware := view.middleware(entry, plan)) is not None:
        yield from execution.chain.stream(middleware, _call(view, entry, plan, given))
    else:
        layers = view.layers(entry)
        yield from execution.stream.stream(plan, entry.spec.body, (), given, layers)


async def astream(
    view: View, name: str, arguments: Arguments | None, timeout: float | None = None, positional: tuple[Any, ...] = ()
) -> AsyncGenerator[ToolResult, None]:
    """Yield the chunks, then the result."""
    try:
        entry, plan, given = _ready(view, name, arguments, timeout, positional)
    except ToolCallError as error:
        yield failed(failure.of_call(error), perf_counter())
        return
    if (middleware := view.middleware(entry, plan)) is not None:
        results = execution.chain.astream(middleware, _call(view, entry, plan, given))
    else:
        layers = view.layers(entry)
        results = execution.stream.astream(plan, entry.spec.body, (), given, layers)
    try:
        async for result in results:
            yield result
    finally:
        await results.aclose()


def _ready(
    view: View, name: str, arguments: Arguments | None, timeout: float | None, positional: tuple[Any, ...]
) -> tuple[Entry, Plan, Arguments]:
    """Return the tool, its plan and the arguments by name.

    Raises ToolNotFoundError, ToolNotAvailableError, InvalidParametersError; ToolkitError where no timeout can hold.
    """
    entry = view.find(name)
    plan = view.sealed(entry).plan
    if timeout is not None:
        entry.refuse_endless(timeout)
        plan = plan.within(timeout)
    if arguments is None:
        arguments = {}
    elif not isinstance(arguments, dict):
        raise InvalidParametersError("Invalid arguments: they are not an object. Pass a dict by parameter.", tool=name)
    return entry, plan, plan.named(positional, arguments) if positional else arguments


def _call(
    view: View,
    entry: Entry,
    plan: Plan,
    arguments: Arguments,
    id: str | None = None,  # noqa: A002  # as above
    *,
    is_approved: bool = False,
    is_served: bool = False,
) -> Call:
    """Return the call for the middleware."""
    return Call(
        id=id or f"call_{uuid.uuid4().hex}",
        name=entry.name,
        arguments=arguments,
        session_id=view.holder.session_id if view.is_session else None,
        is_approved=is_approved,
        is_served=is_served,
        roots=view.catalog.roots,
        open_toolkit=lambda: view.catalog.open(view),
        plan=plan,
        body=entry.spec.body,
        layers=view.layers(entry),
        describe=lambda: view.definition(entry),
    )
