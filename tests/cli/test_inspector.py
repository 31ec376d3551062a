"""MCP's Inspector, a client in another language, works with a toolkit that the command serves."""

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
"""The exit status of the Inspector when a tool's result is an error."""


@pytest.fixture(scope="module", params=["stdio", "http, modern", "http, legacy"])
def server_arguments(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Yield the Inspector's arguments for the server."""
    transport, _, era = request.param.partition(", ")
    if transport == "stdio":
        starting = {"command": sys.executable, "args": ["-m", "ahvn_tools", "serve", str(TOOLS)], "env": ENVIRONMENT}
        file = tmp_path_factory.mktemp("inspector") / "mcp.json"
        file.write_text(json.dumps({"mcpServers": {"tools": starting}}))
        yield ["--config", str(file), "--server", "tools"]
        return
    with Served.over_http(TOOLS) as served:
        yield [served.url, "--protocol-era", era]


def inspect(server_arguments: list[str], *arguments: str) -> tuple[int, Any]:
    """Run the Inspector; return its exit status and the JSON that it printed."""
    ran = run(INSPECTOR, "--cli", *server_arguments, *arguments)
    assert ran.stdout, ran.stderr
    return ran.returncode, json.loads(ran.stdout)


def test_it_lists_the_tools_with_their_schemas(server_arguments):
    status, listed = inspect(server_arguments, "--method", "tools/list")
    schemas = {tool["name"]: tool["inputSchema"] for tool in listed["tools"]}
    assert status == 0
    assert schemas == {spec.name: spec.input_schema for spec in tools.kit}


def test_it_calls_tools_and_reports_an_error(server_arguments):
    calling = ("--method", "tools/call", "--tool-args-json", "{}", "--tool-name")
    status, called = inspect(server_arguments, *calling, "test_simple_text")
    assert (status, called["structuredContent"]) == (0, {"result": "This is a simple text response for testing."})
    status, failed = inspect(server_arguments, *calling, "test_error_handling")
    assert (status, failed["isError"]) == (TOOL_ERROR, True)
