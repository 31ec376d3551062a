"""For the tests of this facade: responses of one text, calls, what a call yields, and an MCP client."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from fastmcp import FastMCP

from ahvn_tools.compat.agentscope import TextBlock, Toolkit, ToolResponse, ToolUseBlock
from ahvn_tools.compat.agentscope.mcp import StatefulClientBase

INTERRUPTION = "<system-info>The tool call has been interrupted by the user.</system-info>"


def text(value: object, **fields: Any) -> ToolResponse:
    return ToolResponse([TextBlock(type="text", text=str(value))], **fields)


def add(a: int, b: int = 2) -> ToolResponse:
    """Add two numbers."""
    return text(a + b)


def block(name: str, **arguments: Any) -> ToolUseBlock:
    return ToolUseBlock(type="tool_use", id="call-1", name=name, input=arguments)


async def responses_of(toolkit: Toolkit, name: str, **arguments: Any) -> list[ToolResponse]:
    return [response async for response in await toolkit.call_tool_function(block(name, **arguments))]


def texts_of(response: ToolResponse) -> list[str]:
    return [part.get("text", part["type"]) for part in response.content]


async def answer_of(toolkit: Toolkit, name: str, **arguments: Any) -> str:
    """Return the text of the last response."""
    return "\n".join(texts_of((await responses_of(toolkit, name, **arguments))[-1]))


def parameters_of(toolkit: Toolkit, name: str) -> dict[str, Any]:
    return toolkit.tools[name].json_schema["function"]["parameters"]


@contextlib.asynccontextmanager
async def sums_client() -> AsyncIterator[StatefulClientBase]:
    """Yield a connected client of a server in this process, with the tools `plus`, `minus`, `fail` and `sleep`."""
    server = FastMCP("sums")

    @server.tool
    def plus(a: int, b: int) -> str:
        """Add."""
        return str(a + b)

    @server.tool
    def minus(a: int, b: int) -> str:
        """Subtract."""
        return str(a - b)

    @server.tool
    def fail(code: int) -> str:
        raise ValueError(f"code {code}")

    @server.tool
    async def sleep(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "awake"

    client = StatefulClientBase("sums", server, 30)
    await client.connect()
    yield client
    if client.is_connected:
        await client.close()
