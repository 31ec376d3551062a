"""Calls of imported tools that their server runs as tasks."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("fastmcp_tasks", reason='tasks need pip install "ahvn-tools[tasks]"')

from fastmcp import Context, FastMCP
from fastmcp.client.elicitation import ElicitResult
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension
from fastmcp_tasks.client import TasksClientExtension
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
)

from ahvn_tools import Toolkit
from ahvn_tools.errors import DefinitionError, ToolkitError
from tests.execution.entry_points import auntil

Connect = Callable[..., AbstractAsyncContextManager[Toolkit]]


class Upstream:
    """A server whose tools run as tasks."""

    def __init__(self) -> None:
        self.is_started = self.is_released = self.is_cancelled = False
        self.server = FastMCP("upstream")
        self.server.add_extension(TasksExtension(url=f"memory://{id(self)}"))
        for tool in (self.wait, self.ask, self.think):
            self.server.tool(tool, task=TaskConfig(mode="required"))

    async def wait(self, number: int) -> dict[str, int]:
        """Wait until this is released."""
        self.is_started = True
        try:
            while not self.is_released:  # noqa: ASYNC110  # a test sets it in another loop
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise
        return {"number": number}

    async def ask(self, count: int, context: Context) -> str | InputRequiredResult:
        """Ask the user some questions, one after another."""
        asked = int(context.request_state or 0)
        if asked == count:
            return f"{asked} answers"
        schema = {"type": "object", "properties": {"approve": {"type": "boolean"}}}
        form = ElicitRequest(params=ElicitRequestFormParams(message=f"Question {asked}?", requested_schema=schema))
        return InputRequiredResult(input_requests={f"q{asked}": form}, request_state=str(asked + 1))

    async def think(self) -> InputRequiredResult:
        """Ask the client's model."""
        params = CreateMessageRequestParams(messages=[], max_tokens=1)
        return InputRequiredResult(input_requests={"one": CreateMessageRequest(params=params)})


@pytest.fixture
def upstream() -> Upstream:
    return Upstream()


@pytest.fixture
def imported(upstream: Upstream) -> Connect:
    """What imports the tools of the server for a while."""

    @asynccontextmanager
    async def connect(**options: Any) -> AsyncIterator[Toolkit]:
        kit = await Toolkit("host").aadd_mcp(upstream.server, name="upstream", **options)
        try:
            yield kit
        finally:
            upstream.is_released = True
            await kit.aremove_mcp("upstream")

    return connect


async def approve(*_: Any) -> ElicitResult[Any]:
    """Approve."""
    return ElicitResult(action="accept", content={"approve": True})


async def test_a_call_waits_for_the_result_of_its_task(upstream, imported):
    upstream.is_released = True
    async with imported(tasks=True) as kit:
        result = await kit.aexec("wait", {"number": 3})
    assert (result.error, result.value) == (None, {"number": 3})


async def test_a_call_that_is_cancelled_cancels_its_task(upstream, imported, monkeypatch):
    resolve, known = TasksClientExtension._resolve_task, []

    async def resolve_known(self: Any, created: Any, context: Any) -> Any:
        known.append(created.task_id)
        return await resolve(self, created, context)

    monkeypatch.setattr(TasksClientExtension, "_resolve_task", resolve_known)
    async with imported(tasks=True) as kit:
        call = asyncio.ensure_future(kit.aexec("wait", {"number": 3}))
        # a task may start before the client has its id; until then, nothing can cancel it
        assert await auntil(lambda: upstream.is_started and known)
        call.cancel()
        assert await auntil(lambda: upstream.is_cancelled)


@pytest.mark.parametrize(
    ("options", "name", "arguments", "error"),
    [
        ({"tasks": True, "elicitation": approve}, "ask", {"count": 2}, None),
        ({"tasks": True, "elicitation": approve}, "ask", {"count": 20}, "limit_exceeded: The server keeps asking"),
        ({"tasks": True}, "think", {}, "tool_error: The task asks for something other than a form"),
        ({"tasks": True, "timeout": 0.2}, "wait", {"number": 3}, "timeout: "),
        ({}, "wait", {"number": 3}, "tool_error: The tool only runs as an MCP task: add its server with tasks=True."),
    ],
)
async def test_what_a_call_returns_whose_task_asks_or_does_not_end(imported, options, name, arguments, error):
    async with imported(**options) as kit:
        result = await kit.aexec(name, arguments)
    if error is None:
        assert result.value == "2 answers"
    else:
        assert f"{result.error.code}: {result.error.message}".startswith(error)


async def test_tasks_is_true_or_false(imported):
    with pytest.raises(ToolkitError, match="tasks must be True or False"):
        async with imported(tasks="memory://"):
            pass


async def test_without_the_extra_the_error_names_it(imported, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "fastmcp_tasks" else find_spec(name))
    with pytest.raises(DefinitionError, match=r'pip install "ahvn-tools\[tasks\]"'):
        async with imported(tasks=True):
            pass
