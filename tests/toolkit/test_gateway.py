"""A toolkit that mixes local and imported tools, served: a gateway to other servers."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.tools.base import ToolResult as FastMCPResult
from mcp_types import CallToolResult, ImageContent, TextContent

from ahvn_tools import Toolkit
from ahvn_tools.middleware.log import log


@pytest.fixture
async def gateway():
    upstream: FastMCP = FastMCP("upstream")

    @upstream.tool(annotations={"readOnlyHint": True})
    def find(query: str, user: str) -> list[str]:
        """Find notes."""
        return [f"{user}:{query}"]

    @upstream.tool
    async def index(ctx: Context, steps: int) -> str:
        for step in range(steps):
            await ctx.report_progress(step, steps, f"step {step}")
        return "indexed"

    @upstream.tool
    def delete(what: str) -> str:
        return f"deleted {what}"

    @upstream.tool
    def fail() -> str:
        raise ValueError("the database of ann is gone")

    kit = Toolkit("gateway", middleware=[log("gateway.calls")])

    @kit.tool
    def local(number: int) -> int:
        return number + 1

    await kit.aadd_mcp(
        upstream, prefix="up_", requires_approval=lambda arguments: "what" in arguments, audience=(), tags={"remote"}
    )
    kit.bind("user")
    yield kit.to_fastmcp_server(state=lambda request: {"user": "ann"})
    await kit.aremove_mcp("upstream")


each_wire = pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.exhaustive)])


@each_wire
async def test_tools_of_both_kinds_are_listed_without_bound_parameters(gateway, mode):
    async with Client(gateway, mode=mode) as client:
        listed = {tool.name: tool for tool in await client.list_tools()}
    assert list(listed) == ["local", "up_find", "up_index", "up_delete", "up_fail"]
    assert list(listed["up_find"].input_schema["properties"]) == ["query"]
    assert listed["up_find"].annotations.read_only_hint is True
    assert listed["up_find"].output_schema["properties"]["result"]["type"] == "array"


@each_wire
async def test_calls_pass_through_with_bound_values(gateway, mode, caplog):
    async with Client(gateway, mode=mode) as client:
        with caplog.at_level(logging.INFO, "gateway.calls"):
            assert (await client.call_tool("up_find", {"query": "tea"})).data == ["ann:tea"]
            assert (await client.call_tool("local", {"number": 1})).data == 2
            refused = await client.call_tool("up_find", {"query": "tea", "user": "eve"}, raise_on_error=False)
    assert refused.is_error
    logged = [record.tool for record in caplog.records if record.name == "gateway.calls"]
    assert logged == ["up_find", "local", "up_find"]


@each_wire
async def test_progress_passes_through(gateway, mode):
    reports: list[Any] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))

    async with Client(gateway, mode=mode) as client:
        for _ in range(20):
            reports.clear()
            assert (await client.call_tool("up_index", {"steps": 2}, progress_handler=hear)).data == "indexed"
            assert reports == [(0, 2, "step 0"), (1, 2, "step 1")]


@each_wire
async def test_a_call_that_needs_an_approval_does_not_pass(gateway, mode):
    async with Client(gateway, mode=mode) as client:
        answer = await client.call_tool("up_delete", {"what": "all"}, raise_on_error=False)
    assert answer.is_error
    assert "needs an approval" in answer.content[0].text


@each_wire
async def test_an_error_of_the_server_behind_is_an_error_here(gateway, mode):
    async with Client(gateway, mode=mode) as client:
        answer = await client.call_tool("up_fail", {}, raise_on_error=False)
        assert answer.is_error
        assert (await client.call_tool("local", {"number": 1})).data == 2


@each_wire
async def test_a_result_of_the_server_behind_passes_as_it_was_sent(mode: str):
    upstream: FastMCP = FastMCP("upstream")
    image = ImageContent(type="image", data="cG5n", mime_type="image/png")

    @upstream.tool
    def describe() -> FastMCPResult:
        """Describe an image."""
        content = [TextContent(type="text", text="a dot"), image]
        return FastMCPResult(content=content, structured_content={"width": 1}, meta={"trace": "t1"})

    @upstream.tool
    def count() -> int:
        """Count."""
        return 1

    kit = await Toolkit("gateway").aadd_mcp(upstream)
    async with Client(upstream, mode=mode) as direct, Client(kit.to_fastmcp_server(), mode=mode) as client:
        for name in ("describe", "count"):
            sent = _without_sender(await direct.call_tool_mcp(name, {}))
            assert _without_sender((await kit.aexec(name)).to_mcp()) == sent
            assert _without_sender(await client.call_tool_mcp(name, {})) == sent


def _without_sender(result: CallToolResult) -> dict[str, Any]:
    """Return a result as JSON, without the name of the server that has sent it."""
    data = result.model_dump(by_alias=True)
    data["_meta"] = {key: value for key, value in (data["_meta"] or {}).items() if "serverInfo" not in key}
    return data
