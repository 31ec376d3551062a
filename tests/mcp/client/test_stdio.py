"""A stdio server: results and errors that cannot be serialized become error results."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

import ahvn_tools

LONGEST = 60.0
"""Seconds that a server may take to start, answer and end."""

SERVER = """
import os
from fastmcp import FastMCP
from ahvn_tools import ToolError, ToolResult, ToolSpec

name = os.fsdecode(b"caf\\xe9")

def listed() -> list[str]:
    return [name]

def free():
    return name

def keyed():
    return {name: 1}

def refused():
    raise ToolError("no file " + name)

def own() -> ToolResult:
    return ToolResult(name, {"size": 1})

def noted() -> ToolResult:
    return ToolResult("fine", meta={"path": name})

def great() -> int:
    return 10**5000

def deep():
    value = []
    for _ in range(400):
        value = [value]
    return value

def well() -> str:
    return "well"

server = FastMCP("odd")
for function in (listed, free, keyed, refused, own, noted, great, deep, well):
    server.add_tool(ToolSpec.from_function(function).to_fastmcp())
server.run(show_banner=False)
"""


async def answers(*names: str) -> list[Any]:
    """Call tools one after the other on one server and return what it answers."""
    environment = {"PYTHONPATH": str(Path(ahvn_tools.__file__).parents[2])}
    transport = StdioTransport(sys.executable, ["-c", SERVER], env=environment, keep_alive=False)
    async with Client(transport) as client:
        return [await client.call_tool_mcp(name, {}) for name in names]


@pytest.mark.exhaustive
async def test_result_that_cannot_be_serialized_is_an_error_and_the_server_continues() -> None:
    names = ("keyed", "great", "deep")
    *results, last = await asyncio.wait_for(answers(*names, "well"), LONGEST)
    for name, answer in zip(names, results, strict=True):
        assert (name, answer.is_error, answer.structured_content) == (name, True, None)
        assert "cannot be sent" in answer.content[0].text or "invalid result" in answer.content[0].text
    assert (last.is_error, last.structured_content) == (False, {"result": "well"})


@pytest.mark.exhaustive
async def test_result_with_a_lone_surrogate_costs_the_character() -> None:
    listed, free, own, noted = await asyncio.wait_for(answers("listed", "free", "own", "noted"), LONGEST)
    assert listed.structured_content == {"result": ["caf\ufffd"]}
    assert [answer.content[0].text for answer in (free, own, noted)] == ["caf\ufffd", "caf\ufffd", "fine"]
    assert (own.structured_content, noted.meta["path"]) == ({"size": 1}, "caf\ufffd")


@pytest.mark.exhaustive
async def test_error_text_with_surrogates_is_escaped_and_the_server_continues() -> None:
    refused, last = await asyncio.wait_for(answers("refused", "well"), LONGEST)
    assert (refused.is_error, refused.content[0].text) == (True, "no file caf\\udce9")
    assert last.structured_content == {"result": "well"}
