"""The tasks of a server: a call that it answers with a task waits for the result, and cancels the task with itself."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from fastmcp_tasks.client import TasksClientExtension
from fastmcp_tasks.client_models import CancelTaskRequest, CancelTaskRequestParams
from mcp.client.extension import ClaimContext, ResultClaim
from mcp_types import CallToolResult, Result

CANCEL_SECONDS: Final = 2.0
"""Seconds that a server may take to answer that it cancels a task."""

Resolve = Callable[[Any, ClaimContext], Awaitable[CallToolResult]]


class Tasks(TasksClientExtension):
    """FastMCP's client extension; a task whose result is not needed any more is cancelled."""

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """Return FastMCP's claims of results."""
        return [replace(claim, resolve=functools.partial(_resolve, claim.resolve)) for claim in super().claims()]


async def _resolve(resolve: Resolve, created: Any, context: ClaimContext) -> CallToolResult:
    is_finished = False
    try:
        result = await resolve(created, context)
        is_finished = True
    finally:
        if not is_finished:
            with contextlib.suppress(Exception):  # the call has ended: the connection may be lost
                async with asyncio.timeout(CANCEL_SECONDS):
                    request = CancelTaskRequest(params=CancelTaskRequestParams(task_id=created.task_id))
                    await context.session.send_request(request, Result)
    return result
