"""Calls of imported tools that their server runs as tasks."""

from __future__ import annotations

import asyncio
import importlib.util
from typing import Any

import pytest

pytest.importorskip("fastmcp_tasks", reason='tasks need pip install "ahvn-tools[tasks]"')

from fastmcp.client.elicitation import ElicitResult
from mcp_types import CreateMessageRequest, CreateMessageRequestParams, InputRequiredResult

from ahvn_tools import ToolContext, Toolkit
from ahvn_tools.errors import DefinitionError


class Upstream:
    """A server whose tool runs until it is released."""

    def __init__(self) -> None:
        self.started, self.released, self.cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.kit = Toolkit("upstream").add(self.wait, self.ask, task="required")
        self.server = self.kit.to_fastmcp_server(tasks=True)

    async def wait(self, number: int) -> dict[str, int]:
        """Wait."""
        self.started.set()
        try:
            await self.released.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return {"number": number}

    async def ask(self, context: ToolContext) -> str:
        """Ask the user."""
        await context.aask("Delete?")
        return "deleted"


async def approve(message: str, response_type: Any, params: Any, context: Any) -> ElicitResult[Any]:
    """Approve."""
    return ElicitResult(action="accept", content={"approve": True})


async def import_(upstream: Upstream, **options: Any) -> Toolkit:
    """Return a toolkit with the tools of the server."""
    return await Toolkit("host").aadd_mcp(upstream.server, name="upstream", **options)


async def on_background_loop(event: asyncio.Event) -> None:
    """Wait for an event of the loop that runs the server."""
    async with asyncio.timeout(10):
        while not event.is_set():  # noqa: ASYNC110  # an event of another loop
            await asyncio.sleep(0.01)


async def test_a_call_waits_for_the_result_of_its_task():
    upstream = Upstream()
    upstream.released.set()
    kit = await import_(upstream, tasks=True)
    result = await kit.aexec("wait", {"number": 3})
    await kit.aremove_mcp("upstream")
    assert (result.error, result.value) == (None, {"number": 3})


async def test_the_elicitation_handler_of_an_import_answers_a_task():
    kit = await import_(Upstream(), tasks=True, elicitation=approve)
    result = await kit.aexec("ask", {})
    await kit.aremove_mcp("upstream")
    assert result.value == "deleted"


async def test_a_call_that_is_cancelled_cancels_its_task():
    upstream = Upstream()
    kit = await import_(upstream, tasks=True)
    call = asyncio.ensure_future(kit.aexec("wait", {"number": 3}))
    await on_background_loop(upstream.started)
    call.cancel()
    await on_background_loop(upstream.cancelled)
    await kit.aremove_mcp("upstream")


async def test_a_call_that_exceeds_its_timeout_cancels_its_task():
    upstream = Upstream()
    kit = await import_(upstream, tasks=True, timeout=0.2)
    result = await kit.aexec("wait", {"number": 3})
    await on_background_loop(upstream.cancelled)
    await kit.aremove_mcp("upstream")
    assert result.error is not None
    assert result.error.code == "timeout"


async def test_without_tasks_a_tool_that_requires_them_says_what_is_missing():
    kit = await import_(Upstream())
    result = await kit.aexec("wait", {"number": 3})
    await kit.aremove_mcp("upstream")
    assert "tasks=True" in result.text


async def test_a_task_that_asks_without_end_ends():
    """mcp ends a plain call of such a server, too."""
    answers = []

    async def count(context: ToolContext) -> str:
        """Ask and ask."""
        for number in range(20):
            await context.aask(f"Question {number}?")
        return "answered"

    async def approve_and_count(*arguments: Any) -> ElicitResult[Any]:
        answers.append(1)
        return await approve(*arguments)

    server = Toolkit("upstream").add(count, task="required").to_fastmcp_server(tasks=True)
    kit = await Toolkit("host").aadd_mcp(server, name="upstream", tasks=True, elicitation=approve_and_count)
    result = await kit.aexec("count", {})
    await kit.aremove_mcp("upstream")
    assert result.error is not None
    assert result.error.code == "limit_exceeded"
    assert len(answers) == 10


async def test_a_task_that_asks_for_a_sample_is_an_error_of_the_tool():
    async def think() -> InputRequiredResult:
        """Ask the client's model."""
        params = CreateMessageRequestParams(messages=[], max_tokens=1)
        return InputRequiredResult(input_requests={"one": CreateMessageRequest(params=params)})

    server = Toolkit("upstream").add(think, task="required").to_fastmcp_server(tasks=True)
    kit = await Toolkit("host").aadd_mcp(server, name="upstream", tasks=True)
    result = await kit.aexec("think", {})
    await kit.aremove_mcp("upstream")
    assert result.error is not None
    assert result.error.code == "tool_error"
    assert "other than a form" in result.text


async def test_tasks_is_true_or_false():
    with pytest.raises(DefinitionError, match="True or False, not a str"):
        await import_(Upstream(), tasks="memory://")


async def test_without_the_extra_the_error_names_it(monkeypatch):
    upstream = Upstream()
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "fastmcp_tasks" else find_spec(name))
    with pytest.raises(DefinitionError, match=r'pip install "ahvn-tools\[tasks\]"'):
        await import_(upstream, tasks=True)
