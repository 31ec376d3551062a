"""The tools with which a model uses its toolkit: it finds and calls other tools, and switches groups of tools.

Each acts on the toolkit as its caller sees it: with the caller's session, selection, audience and middleware.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from time import perf_counter
from typing import Annotated, Any, Final, NoReturn

from pydantic import Field

from ahvn_tools.context import ToolContext
from ahvn_tools.errors import PickleError, ToolCallError, ToolError, ToolLookupError
from ahvn_tools.execution.compiled_tool import CompiledTool
from ahvn_tools.execution.convert import call_error_detail, error_result
from ahvn_tools.results import DIRECT, ToolCall, ToolResult, as_readable, media_blocks, text_block, to_text, whole_value
from ahvn_tools.settings import ToolOptions, validate_options
from ahvn_tools.sources import function as function_source
from ahvn_tools.spec import ToolSpec
from ahvn_tools.toolkit import calls
from ahvn_tools.toolkit.background_calls import BackgroundCall
from ahvn_tools.toolkit.entry import DELEGATES, NEEDS_SESSION, SWITCHES_GROUPS
from ahvn_tools.toolkit.entry_options import BASIC_GROUP
from ahvn_tools.toolkit.selection import Group
from ahvn_tools.toolkit.store import ToolStore
from ahvn_tools.toolkit.visibility import StoreView


def search_tools(
    query: str, context: ToolContext, limit: Annotated[int, Field(ge=1, le=20)] = 5
) -> list[dict[str, Any]]:
    """Find tools that are not listed to you. Call a tool that you find with `call_tool`.

    Args:
        query: What the tool should do, in a few words.
        limit: The maximum number of tools to return.

    Returns:
        The best matching tools, each with its name, description and the JSON Schema of its arguments. If the list is
        empty, try other words.
    """
    view = require_toolkit(context)._view  # noqa: SLF001  # of this package
    found = view.search(query, limit + len(SEARCH_TOOLS), context.caller)
    matches = [view.definition(entry) for entry in found if entry.spec.function not in SEARCH_TOOLS][:limit]
    return [{"name": tool.name, "description": tool.description, "input_schema": tool.input_schema} for tool in matches]


async def call_tool(name: str, context: ToolContext, arguments: dict[str, Any] | None = None) -> ToolResult:
    """Call a tool that `search_tools` has found.

    Args:
        name: The name of the tool.
        arguments: The tool's arguments; they must match its input schema.
    """
    if name == context.tool:
        raise ToolError(f"{name!r} does not call itself: pass the name of the tool that you want.")
    from ahvn_tools.execution.call import CallScope

    view = require_toolkit(context)._view  # noqa: SLF001  # of this package
    _refuse_app_tool(view, name)
    questions: Any = context._links.asker  # noqa: SLF001  # of this package
    # the same id: an approval of this call answers the one that the model made
    scope = CallScope(pause_outer=context._links.pause)  # noqa: SLF001  # of this package
    options = calls.CallOptions(
        id=context.call_id,
        run_id=context.run_id,
        caller=context.caller,
        scope=scope,
        is_served=context.is_served,
        masks_errors=context._masks_errors,  # noqa: SLF001  # of this package
        report=context.report_progress,
        question_approver=None if questions is None else questions.approver,
        answer_by=None if questions is None else questions.answer_by,
        approved_questions=() if questions is None else questions.approved,
    )
    try:
        return await calls.aexecute(view, name, arguments, options)
    finally:
        context._hide(calls.inner_values(view, name, arguments, scope))  # noqa: SLF001  # of this package


def _refuse_app_tool(view: StoreView, name: str) -> None:
    """Raise ToolError for a tool that no model may call; a server does not know that its caller is a model."""
    entry = view.store.entries.get(name)
    if entry is not None and entry.is_for_apps and view.is_selected(entry):
        raise ToolError(entry.refuse_caller(DIRECT) or "")


setattr(call_tool, DELEGATES, True)

SEARCH_TOOLS: Final = (search_tools, call_tool)
"""The functions with which a model finds and calls tools."""


def inner_call(call: ToolCall) -> ToolCall | None:
    """Return the call that a call of `call_tool` asks for, with the same id; None when its arguments are invalid."""
    name, arguments = call.arguments.get("name"), call.arguments.get("arguments") or {}
    try:
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return None
    if not (isinstance(name, str) and isinstance(arguments, dict)):
        return None
    return replace(call, name=name, arguments=arguments)


class GroupsTool(ToolSpec):
    """Switches the groups of a toolkit. Its parameters are the groups that exist when it is listed.

    A session or a selection leaves out those that are not in it: see `StoreView.compiled_tool`.
    """

    def __init__(self, store: ToolStore, options: ToolOptions) -> None:
        self._store, self._options = store, validate_options(options)
        self._cache: tuple[Mapping[str, Group], CompiledTool] | None = None
        super().__init__(*_to_template(store.groups, self._options))

    @property
    def compiled(self) -> CompiledTool:
        """The tool for the groups that exist now."""
        groups, cache = self._store.groups, self._cache
        if cache is None or cache[0] is not groups:  # the store replaces the mapping whenever groups change
            template, _ = _to_template(groups, self._options)
            cache = self._cache = groups, CompiledTool(template, template.bindings)
        return cache[1]

    @compiled.setter
    def compiled(self, compiled: CompiledTool) -> None:
        """Ignore the value: the tool is compiled from the groups."""

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuse to be pickled: it belongs to its toolkit."""
        raise PickleError(f"{self.name!r} switches the groups of its toolkit and cannot be pickled.")


def _to_template(groups: Mapping[str, Group], options: Mapping[str, Any]) -> Any:
    """Return the template of the tool for these groups, and its body, which works for any groups."""

    def set_groups(group_: ToolContext, **switches: bool) -> str:
        """Choose the groups of tools that you need now. Groups that you leave out are switched off."""
        toolkit = require_toolkit(group_)
        active = {_group_name(parameter): True for parameter, is_active in switches.items() if is_active}
        toolkit.set_groups({name: False for name in toolkit.groups if name != BASIC_GROUP} | active)
        return _active_groups_text(toolkit)

    setattr(set_groups, SWITCHES_GROUPS, True)
    setattr(set_groups, NEEDS_SESSION, True)
    kind = inspect.Parameter.KEYWORD_ONLY
    context = inspect.Parameter("group_", kind, annotation=ToolContext)  # no group is called so: names are not empty
    set_groups.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what inspect.signature reads first
        [context, *[_group_parameter(group, kind) for group in groups.values() if group.name != BASIC_GROUP]],
        return_annotation=str,
    )
    return function_source.build_template(set_groups, options)


def _group_parameter(group: Group, kind: Any) -> inspect.Parameter:
    """Return the parameter that switches a group. Its name contains the group's in hex, which may be any text."""
    field = Field(alias=group.name, description=group.description or None, strict=True)
    name = f"group_{group.name.encode('utf-8', 'surrogatepass').hex()}"
    return inspect.Parameter(name, kind, default=False, annotation=Annotated[bool, field])


def _group_name(parameter: str) -> str:
    return bytes.fromhex(parameter.removeprefix("group_")).decode("utf-8", "surrogatepass")


def _active_groups_text(toolkit: Any) -> str:
    active = [name for name, is_active in toolkit.groups.items() if is_active and name != BASIC_GROUP]
    summary = f"Active groups: {', '.join(active)}." if active else "No group is active."
    return f"{summary}\n\n{toolkit.notes}" if toolkit.notes else summary


def require_toolkit(context: ToolContext) -> Any:
    """Return the toolkit of a call. Raises ToolError for a tool that is called outside a toolkit."""
    if context.toolkit is None:
        raise ToolError(f"{context.tool or 'This tool'!r} works in a toolkit only.")
    return context.toolkit


CANCEL_SECONDS: Final = 2.0
"""Seconds to wait for the end of a call that was cancelled."""

_SHARE_OF_TIMEOUT: Final = 0.8
"""The share of the timeout of `wait_for_call` that it waits at most: a wait is not to end with an error."""


def start_call(name: str, context: ToolContext, arguments: dict[str, Any] | None = None) -> ToolResult:
    """Start a call of a tool in the background, for a tool that takes long. You can do other things meanwhile.

    Args:
        name: The name of the tool to call.
        arguments: The tool's arguments; they must match its input schema.

    Returns:
        The `id` of the call. Pass it to `wait_for_call` or `call_status` to get the result.
    """
    view = require_toolkit(context)._view  # noqa: SLF001  # of this package
    entry = view.store.entries.get(name)
    _refuse_app_tool(view, name)
    if entry is not None and entry.spec.function in BACKGROUND_TOOLS:
        raise ToolError(f"{name!r} cannot run in the background. Call it directly.")
    options = calls.CallOptions(
        run_id=context.run_id,
        caller=context.caller,
        is_served=context.is_served,
        masks_errors=context._masks_errors,  # noqa: SLF001  # of this package
        roots=() if context.forbids_files else context.roots or None,
    )
    try:
        call_id = calls.start(view, name, arguments, options)
    except ToolCallError as error:
        return error_result(call_error_detail(error), perf_counter())
    return _to_result(context, view.background_calls.get(call_id))


setattr(start_call, DELEGATES, True)


def call_status(id: str, context: ToolContext) -> ToolResult:  # noqa: A002  # the id of the call
    """Read how far a background call is, and its result when it has ended. This does not wait.

    Args:
        id: The id that `start_call` has returned.
    """
    return _to_result(context, _find(context, id))


async def wait_for_call(
    id: str,  # noqa: A002  # as above
    context: ToolContext,
    seconds: Annotated[float, Field(ge=0, le=300)] = 30,
) -> ToolResult:
    """Wait until a background call has ended, and read its result. If it still runs then, wait again.

    Args:
        id: The id that `start_call` has returned.
        seconds: How long to wait at most.
    """
    call = _find(context, id)
    await require_toolkit(context).await_(id, min(seconds, _max_seconds(context)))
    return _to_result(context, call)


async def cancel_call(id: str, context: ToolContext) -> ToolResult:  # noqa: A002  # as above
    """Cancel a background call whose result is not needed any more.

    Args:
        id: The id that `start_call` has returned.
    """
    call, toolkit = _find(context, id), require_toolkit(context)
    toolkit._view.background_calls.cancel(id)  # noqa: SLF001  # of this package
    await toolkit.await_(id, min(CANCEL_SECONDS, _max_seconds(context)))
    return _to_result(context, call)


BACKGROUND_TOOLS: Final[tuple[Callable[..., Any], ...]] = (start_call, call_status, wait_for_call, cancel_call)
"""The functions with which a model runs calls in the background."""

for _function in BACKGROUND_TOOLS:
    setattr(_function, NEEDS_SESSION, True)


def _find(context: ToolContext, id: str) -> BackgroundCall:  # noqa: A002  # as above
    """Return a call. Raises ToolError for an id that the session does not know."""
    try:
        call: BackgroundCall = require_toolkit(context)._view.background_calls.get(id)  # noqa: SLF001  # of this package
    except ToolLookupError as error:
        raise ToolError(error.args[0]) from None
    return call


def _max_seconds(context: ToolContext) -> float:
    """Return how many seconds this tool may wait, so that its own timeout does not end it."""
    view = require_toolkit(context)._view  # noqa: SLF001  # as above
    entry = view.store.entries.get(context.tool)
    timeout = None if entry is None else view.compiled_tool(entry).plan.timeout
    return float("inf") if timeout is None else timeout * _SHARE_OF_TIMEOUT


def _to_result(context: ToolContext, call: BackgroundCall) -> ToolResult:
    """Return the status of a call as a model reads it; content of the result, such as images, follows it."""
    status = call.status()
    context._hide(call.find_hidden())  # noqa: SLF001  # of this package
    fields: dict[str, Any] = {"id": status.id, "tool": status.tool, "state": status.state}
    fields["elapsed_seconds"] = round(status.elapsed, 1)
    if status.items:
        fields["items"] = status.items
    if status.progress is not None:
        fields["progress"] = status.progress
    if status.result is None:
        return ToolResult(fields)
    result = as_readable(status.result)
    if result.error is not None:
        fields["error"] = result.error.message
        media = media_blocks(result.blocks)
        return ToolResult(fields, blocks=(text_block(to_text(fields)), *media) if media else None)
    if result.blocks is None:
        return ToolResult({**fields, "result": whole_value(result)})
    return ToolResult(fields, blocks=(text_block(to_text(fields)), *result.blocks))
