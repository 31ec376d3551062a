"""Postprocess: a function of one's own over every chunk and result of a tool."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace

from ahvn_tools.execution.call import Call, Middleware, Next, inline
from ahvn_tools.results import ToolResult

Postprocess = Callable[[Call, ToolResult], ToolResult | Awaitable[ToolResult | None] | None]
"""Returns what stands in the place of a chunk or result; None keeps it."""


def postprocess_middleware(function: Postprocess) -> Middleware:
    """Return the middleware that passes every chunk and result through a function, sync or async."""

    async def processed(call: Call, result: ToolResult) -> ToolResult:
        made = function(call, result)
        if inspect.isawaitable(made):
            made = await made
        return result if made is None else made

    async def postprocess(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        inner = call
        if call.emit is not None:
            emit = call.emit

            async def emit_processed(chunk: ToolResult) -> None:
                await emit(await processed(call, chunk))

            inner = replace(call, emit=emit_processed)
        return await processed(call, await next(inner))

    return postprocess if inspect.iscoroutinefunction(function) else inline(postprocess)
