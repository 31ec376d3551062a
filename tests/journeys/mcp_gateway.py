"""A gateway: tools of two MCP servers and one of ours, served over HTTP to users with different tokens."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from fastmcp import Client, FastMCP
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier

from ahvn_tools import Toolkit, aserve

mail, files = FastMCP("mail"), FastMCP("files")


@mail.tool
def send(to: str, text: str, account: str) -> str:
    return f"{account} wrote {text!r} to {to}"


@files.tool
def read(path: str) -> str:
    return f"content of {path}"


@files.tool
def wipe(path: str) -> str:
    return f"{path} is gone"


gateway = Toolkit("gateway").bind("account", "user")
gateway.add_mcp(mail, prefix="mail_").add_mcp(files, prefix="files_", exclude=["wipe"], audience="staff")


async def use(url: str, token: str) -> tuple[list[str], Any]:
    async with Client(url, auth=token) as client:
        names = sorted(tool.name for tool in await client.list_tools())
        sent = await client.call_tool("mail_send", {"to": "eve", "text": "hi"})
        wiped = await client.call_tool("files_wipe", {"path": "/"}, raise_on_error=False)
        assert wiped.is_error
        return names, sent.data


async def main() -> None:
    users = {"a": {"client_id": "ann", "role": "staff"}, "b": {"client_id": "bob", "role": "guest"}}
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    options: dict[str, Any] = {"auth": StaticTokenVerifier(users), "audience": lambda request: request.claims["role"]}
    options |= {"state": lambda request: {"user": request.client_id}, "sockets": [listener]}
    serving = asyncio.create_task(aserve(gateway, "http", **options))
    ann, bob = await asyncio.gather(use(url, "a"), use(url, "b"))
    assert ann == (["files_read", "mail_send"], "ann wrote 'hi' to eve"), ann
    assert bob == (["mail_send"], "bob wrote 'hi' to eve"), bob
    serving.cancel()
    await asyncio.wait({serving})


asyncio.run(main())
