"""Postprocess: your own function, applied to every chunk and result of a tool."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from ahvn_tools.execution.call import Call, Middleware, Next
from ahvn_tools.results import ToolResult

Postprocess = Callable[[Call, ToolResult], ToolResult | Awaitable[ToolResult | None] | None]
"""Returns the replacement of a chunk or result; None leaves it unchanged."""


def postprocess_middleware(function: Postprocess) -> Middleware:
    """Return middleware that passes every chunk and result through a function, sync or async."""

    async def process(call: Call, result: ToolResult) -> ToolResult:
        replacement: Any = function(call, result)
        if inspect.isawaitable(replacement):
            replacement = await replacement
        processed: ToolResult = result if replacement is None else replacement
        return processed

    async def postprocess(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        emit = call.emit
        if emit is None:
            return await process(call, await next(call))

        async def emit_processed(chunk: ToolResult) -> None:
            await emit(await process(call, chunk))

        return await process(call, await next(replace(call, emit=emit_processed)))

    return postprocess
