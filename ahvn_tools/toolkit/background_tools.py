"""The tools with which a model runs calls in the background. Each acts for the session of its caller."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Annotated, Any, Final

from pydantic import Field

from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolCallError, ToolError, ToolLookupError
from ahvn_tools.execution.convert import call_error_detail, error_result
from ahvn_tools.results import ToolResult, as_readable, media_blocks, text_block, to_text, whole_value
from ahvn_tools.toolkit import calls
from ahvn_tools.toolkit.call_status import CallStatus
from ahvn_tools.toolkit.entry import DELEGATES
from ahvn_tools.toolkit.model_tools import require_toolkit

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
    if entry is not None and entry.spec.function in BACKGROUND_TOOLS:
        raise ToolError(f"{name!r} cannot run in the background. Call it directly.")
    options = calls.CallOptions(
        run_id=context.run_id,
        caller=context.caller,
        is_served=context.is_served,
        masks_errors=context.masks_errors,
        roots=() if context.forbids_files else context.roots or None,
    )
    try:
        call_id = calls.start(view, name, arguments, options)
    except ToolCallError as error:
        return error_result(call_error_detail(error), perf_counter())
    return _to_result(view.background_calls.get(call_id).status())


setattr(start_call, DELEGATES, True)


def call_status(id: str, context: ToolContext) -> ToolResult:  # noqa: A002  # the id of the call
    """Read how far a background call is, and its result when it has ended. This does not wait.

    Args:
        id: The id that `start_call` has returned.
    """
    return _to_result(_status(context, id))


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
    _status(context, id)
    return _to_result(await require_toolkit(context).await_(id, min(seconds, _max_seconds(context))))


async def cancel_call(id: str, context: ToolContext) -> ToolResult:  # noqa: A002  # as above
    """Cancel a background call whose result is not needed any more.

    Args:
        id: The id that `start_call` has returned.
    """
    _status(context, id)
    toolkit = require_toolkit(context)
    toolkit._view.background_calls.cancel(id)  # noqa: SLF001  # of this package
    return _to_result(await toolkit.await_(id, min(CANCEL_SECONDS, _max_seconds(context))))


BACKGROUND_TOOLS: Final[tuple[Callable[..., Any], ...]] = (start_call, call_status, wait_for_call, cancel_call)
"""The functions with which a model runs calls in the background."""


def _status(context: ToolContext, id: str) -> CallStatus:  # noqa: A002  # as above
    """Return the status of a call. Raises ToolError for an id that the session does not know."""
    try:
        status: CallStatus = require_toolkit(context).status(id)
    except ToolLookupError as error:
        raise ToolError(error.args[0]) from None
    return status


def _max_seconds(context: ToolContext) -> float:
    """Return how many seconds this tool may wait, so that its own timeout does not end it."""
    view = require_toolkit(context)._view  # noqa: SLF001  # as above
    entry = view.store.entries.get(context.tool)
    timeout = None if entry is None else view.compiled_tool(entry).plan.timeout
    return float("inf") if timeout is None else timeout * _SHARE_OF_TIMEOUT


def _to_result(status: CallStatus) -> ToolResult:
    """Return a status as a model reads it; content of the result, such as images, follows it."""
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
