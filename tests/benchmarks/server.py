"""A server of many equal tools, ours or plain FastMCP's: `python -m tests.benchmarks.server ours http 10 8000`."""

from __future__ import annotations

import sys

from fastmcp import FastMCP
from fastmcp.tools import Tool

from ahvn_tools import Toolkit, ToolSpec
from tests.benchmarks.subjects import add_later


def toolkit(count: int) -> Toolkit:
    """Make a toolkit of `count` tools over one function."""
    kit, spec = Toolkit("many"), ToolSpec.from_function(add_later)
    for number in range(count):
        kit.add(spec, rename=f"add_{number}")
    return kit


def plain(count: int) -> FastMCP:
    """Make a FastMCP server of the same function under the same names."""
    server: FastMCP = FastMCP("many")
    for number in range(count):
        server.add_tool(Tool.from_function(add_later, name=f"add_{number}"))
    return server


def main(whose: str, transport: str, count: str, *port: str) -> None:
    """Serve until the client disconnects or the process ends."""
    server = toolkit(int(count)).to_fastmcp_server() if whose == "ours" else plain(int(count))
    if transport == "stdio":
        server.run(transport="stdio", show_banner=False, log_level="ERROR")
    else:
        server.run(transport="http", host="127.0.0.1", port=int(port[0]), show_banner=False, log_level="ERROR")


if __name__ == "__main__":
    main(*sys.argv[1:])
