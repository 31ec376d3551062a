"""A server finds tools by name, and creates each FastMCP tool once for as long as its definition exists."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from fastmcp import Client, FastMCP

from ahvn_tools import Toolkit, ToolResult
from ahvn_tools.mcp.server.app import ServedToolsServer
from ahvn_tools.toolkit.mcp_server import ToolkitServer


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def serve(kit: Toolkit) -> ServedToolsServer:
    return ServedToolsServer(ToolkitServer(kit._view, {}), "test")


async def test_equal_definitions_share_one_tool():
    kit = Toolkit("math").add(add)
    server = serve(kit)
    async with Client(server) as client:
        await client.list_tools()
        for number in range(3):
            assert (await client.call_tool("add", {"a": 1, "b": number})).data == 1 + number
        kit.remove("add")
        kit.add(add)
        await client.list_tools()
    assert len(server._spec_tools) == 1


async def test_a_removed_tool_is_released():
    kit = Toolkit("math")
    server = serve(kit)
    async with Client(server) as client:
        for number in range(50):
            kit.add(add, rename=f"add{number}")
            await client.list_tools()
            kit.remove(f"add{number}")
    gc.collect()
    assert len(server._spec_tools) == 0


async def test_a_served_toolkit_can_be_mounted_in_another_server():
    kit = Toolkit("math", state={"b": 1}).add(add).bind("b")
    outer = FastMCP("outer")
    outer.mount(kit.to_fastmcp_server(state=lambda request: {"b": request.meta["b"]}), "math")
    async with Client(outer) as client:
        assert [tool.name for tool in await client.list_tools()] == ["math_add"]
        assert (await client.call_tool("math_add", {"a": 1}, meta={"b": 5})).data == 6


async def test_a_gateway_replaces_the_metadata_of_the_server_behind_it():
    inner = Toolkit("inner").add(add).to_fastmcp_server()
    kit = await Toolkit("outer").aadd_mcp(inner, name="inner")
    async with Client(inner) as client, Client(kit.to_fastmcp_server()) as outer:
        metas = [(await one.call_tool_mcp("add", {"a": 1, "b": 2})).meta for one in (client, outer)]
    await kit.aremove_mcp("inner")
    assert [meta["io.modelcontextprotocol/serverInfo"]["name"] for meta in metas] == ["inner", "outer"]


async def test_structured_content_that_is_not_an_object_is_an_error():
    def odd():
        return ToolResult("text", [1])  # type: ignore[arg-type]

    async with Client(Toolkit("odd").add(odd).to_fastmcp_server()) as client:
        answer: Any = await client.call_tool_mcp("odd", {})
    assert answer.is_error


async def test_a_tool_that_is_disabled_on_the_server_is_not_served():
    server = Toolkit("math").add(add).add(add, rename="plus").to_fastmcp_server()
    server.disable(names={"plus"})
    async with Client(server) as client:
        assert [tool.name for tool in await client.list_tools()] == ["add"]
        answer: Any = await client.call_tool_mcp("plus", {"a": 1, "b": 2})
    assert answer.is_error


@pytest.mark.parametrize("callers", [["direct"], ["programmatic"]], ids=["model", "programs"])
async def test_a_client_may_call_a_tool_of_each_caller(callers):
    async with Client(Toolkit("math").add(add, allowed_callers=callers).to_fastmcp_server()) as client:
        assert [tool.name for tool in await client.list_tools()] == ["add"]
        assert (await client.call_tool("add", {"a": 1, "b": 2})).data == 3
