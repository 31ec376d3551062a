"""The knowledge base over MCP: a server process and a client process, connected by stdin and stdout.

    python examples/knowledge_base_mcp.py serve notes.db --tenant acme --user ann
    python examples/knowledge_base_mcp.py client notes.db --tenant acme --user ann --query "some words"

`serve` is what your MCP client would start. `client` is such a client: it starts the server, lists its
tools, calls them, and ends it. Make notes.db with `python examples/knowledge_base.py FOLDER --database notes.db`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport
from knowledge_base import accept_every_character, fail, tools_of
from mcp import MCPError
from mcp.types import TextContent

from ahvn_tools.builtins import Knowledge
from ahvn_tools.errors import DefinitionError

START_TIMEOUT = 45.0
CALL_TIMEOUT = 15.0
TOTAL_TIMEOUT = 90.0


def serve(path: Path, tenant: str, user: str) -> None:
    """Serve the tools of one user until the client closes the connection."""
    tools = tools_of(Knowledge(path), tenant=tenant, user=user)
    server: FastMCP[Any] = FastMCP("knowledge base")
    for tool in tools.values():
        server.add_tool(tool.to_fastmcp())
    print(f"server process {os.getpid()} serves {len(tools)} tools", file=sys.stderr, flush=True)
    server.run(transport="stdio", show_banner=False, log_level="CRITICAL")


async def visit(path: Path, tenant: str, user: str, query: str) -> None:
    """Start a server, print what it offers and what its tools answer, and end it."""
    transport = StdioTransport(
        sys.executable,
        [__file__, "serve", str(path), "--tenant", tenant, "--user", user],
        # A client starts a server with a clean environment; this adds what the server needs.
        env={"PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        keep_alive=False,
    )
    async with asyncio.timeout(TOTAL_TIMEOUT):
        async with Client(transport, timeout=CALL_TIMEOUT, init_timeout=START_TIMEOUT) as client:
            print(f"client process {os.getpid()} is connected and lists:")
            for tool in await client.list_tools():
                print(f"    {tool.name}({', '.join(tool.input_schema['properties'])})")
            await show_call(client, "search", query=query, limit=2)
            await show_call(client, "add", title="MCP", text="Written by a client in another process.")
            await show_call(client, "read", name="note://MCP")
            await show_call(client, "stats")
            await show_call(client, "search", query=query, user="bob")
    print("client and server have ended")


async def show_call(client: Client[Any], tool: str, /, **arguments: Any) -> None:
    """Call a tool of the server and print question and answer."""
    print(f"{tool}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})")
    result = await client.call_tool(tool, arguments, raise_on_error=False)
    answer = " ".join(block.text for block in result.content if isinstance(block, TextContent))
    print(f"    {'refused: ' if result.is_error else ''}{answer}")


def main() -> int:
    """Read the command line and run a server or a client."""
    parser = argparse.ArgumentParser(description="Serve a knowledge base over MCP, or call one that is served.")
    parser.add_argument("role", choices=["serve", "client"])
    parser.add_argument("database", type=Path)
    parser.add_argument("--tenant", required=True)
    parser.add_argument("--user", required=True)
    parser.add_argument("--query", default="note", help="what the client searches for")
    options = parser.parse_args()
    accept_every_character()
    if not options.database.is_file():
        return fail(f"there is no database {str(options.database)!r}")
    try:
        if options.role == "serve":
            serve(options.database, options.tenant, options.user)
        else:
            asyncio.run(visit(options.database, options.tenant, options.user, options.query))
    except KeyboardInterrupt:
        return fail("stopped", code=130)
    except (MCPError, RuntimeError, TimeoutError, OSError, DefinitionError) as error:
        return fail(f"{options.role}: {type(error).__name__}: {error}", code=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
