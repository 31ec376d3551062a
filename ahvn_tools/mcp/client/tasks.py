"""The tasks of a server: a call that it answers with a task waits for the result, and cancels the task with itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from fastmcp.exceptions import ToolError as FastMCPToolError
from fastmcp_tasks.client import TasksClientExtension
from fastmcp_tasks.client_models import CancelTaskRequest, CancelTaskRequestParams
from mcp.client.extension import ClaimContext, ResultClaim
from mcp.client.session import ElicitationFnT
from mcp_types import CallToolResult, ElicitRequestParams, Result

from ahvn_tools.errors import LimitExceededError, ToolError

CANCEL_SECONDS: Final = 2.0
"""Seconds that a server may take to answer that it cancels a task."""

MAX_QUESTIONS: Final = 10
"""Questions that one task may ask, as many as mcp answers in a call without a task."""


class Tasks(TasksClientExtension):
    """FastMCP's client extension; a task whose result is not needed any more is cancelled."""

    def __init__(self, elicitation_callback: ElicitationFnT) -> None:
        """Answer the questions of tasks with `elicitation_callback`."""
        super().__init__(elicitation_callback)
        self._answer = elicitation_callback

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """Return FastMCP's claims of results."""
        return [replace(claim, resolve=self._resolve) for claim in super().claims()]

    async def _resolve(self, created: Any, context: ClaimContext) -> CallToolResult:
        is_finished = False
        try:
            result = await TasksClientExtension(self._make_limited_callback())._resolve_task(created, context)  # noqa: SLF001  # of its base class
            is_finished = True
        except FastMCPToolError:
            raise ToolError("The task asks for something other than a form, which cannot be answered.") from None
        finally:
            if not is_finished:
                with contextlib.suppress(Exception):  # the call has ended: the connection may be lost
                    async with asyncio.timeout(CANCEL_SECONDS):
                        request = CancelTaskRequest(params=CancelTaskRequestParams(task_id=created.task_id))
                        await context.session.send_request(request, Result)
        return result

    def _make_limited_callback(self) -> ElicitationFnT:
        count = 0

        async def answer(context: Any, params: ElicitRequestParams) -> Any:
            nonlocal count
            count += 1
            if count > MAX_QUESTIONS:
                raise LimitExceededError("The server keeps asking for input and never answers.")
            return await self._answer(context, params)

        return answer
