"""MCP's own Inspector, a client in another language, before a toolkit that the command serves."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.served import ENVIRONMENT, Served
from tests.mcp.conformance import tools
from tests.mcp.conformance.node import INSPECTOR, needs_node, run

pytestmark = needs_node

TOOLS = Path(tools.__file__)
TOOL_ERROR = 5
"""What the Inspector ends with when a tool's result is an error."""


@pytest.fixture(scope="module", params=["stdio", "http, modern", "http, legacy"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Say where the server is, as the Inspector takes it."""
    transport, _, era = request.param.partition(", ")
    if transport == "stdio":
        starting = {"command": sys.executable, "args": ["-m", "ahvn_tools", "serve", str(TOOLS)], "env": ENVIRONMENT}
        file = tmp_path_factory.mktemp("inspector") / "mcp.json"
        file.write_text(json.dumps({"mcpServers": {"tools": starting}}))
        yield ["--config", str(file), "--server", "tools"]
        return
    with Served.over_http(TOOLS) as served:
        yield [served.url, "--protocol-era", era]


def inspect(place: list[str], *arguments: str) -> tuple[int, Any]:
    """Run the Inspector; return what it ended with and the JSON that it printed."""
    ran = run(INSPECTOR, "--cli", *place, *arguments)
    assert ran.stdout, ran.stderr
    return ran.returncode, json.loads(ran.stdout)


def test_it_lists_the_tools_with_the_schemas_that_they_have(place):
    status, listed = inspect(place, "--method", "tools/list")
    schemas = {tool["name"]: tool["inputSchema"] for tool in listed["tools"]}
    assert status == 0
    assert schemas == {spec.name: spec.input_schema for spec in tools.kit}


def test_it_calls_a_tool_and_is_told_when_one_fails(place):
    calling = ("--method", "tools/call", "--tool-args-json", "{}", "--tool-name")
    status, called = inspect(place, *calling, "test_simple_text")
    assert (status, called["structuredContent"]) == (0, {"result": "This is a simple text response for testing."})
    status, failed = inspect(place, *calling, "test_error_handling")
    assert (status, failed["isError"]) == (TOOL_ERROR, True)
