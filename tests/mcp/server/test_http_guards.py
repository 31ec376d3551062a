"""Repeated headers, malformed hosts and request IDs that are in use are refused; other requests are not affected."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest

from ahvn_tools import Toolkit
from tests.mcp.server.test_run import ACCEPTED, HELLO, post_hello, reversed_text
from tests.mcp.serving import LONGEST, over_http


@pytest.mark.parametrize("host", ["localhost:8000", "LOCALHOST", "[::1]:8000", "127.0.0.1"])
async def test_a_name_or_an_address_of_this_machine_is_a_host(host: str):
    async with over_http(Toolkit("safe").add(reversed_text)) as url:
        assert (await post_hello(url, Host=host)).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["localhost:80.evil.example", "localhost:80@evil.example", "[::1].evil.example", "[::1", "local host", ""],
)
async def test_no_other_text_is_a_host(host: str):
    async with over_http(Toolkit("safe").add(reversed_text)) as url:
        assert (await post_hello(url, Host=host)).status_code in {400, 421}


async def test_repeated_and_foreign_headers_are_refused():
    rows: list[tuple[int, list[tuple[str, str]]]] = [
        (400, [("Origin", "http://localhost"), ("Origin", "https://evil.example")]),
        (400, [("Origin", ""), ("origin", "https://evil.example")]),
        (403, [("Origin", "http://localhost, https://evil.example")]),
        (403, [("Origin", "http://localhost https://evil.example")]),
        (403, [("Origin", "http://localhost\r\n https://evil.example")]),
        (403, [("Origin", "null")]),
        (403, [("ORIGIN", "https://evil.example")]),
        (400, [("Origin", " ")]),
        (400, [("Host", "localhost"), ("Host", "evil.example")]),
        (421, [("Host", "localhost, evil.example")]),
        (421, [("Host", "evil.example"), ("X-Forwarded-Host", "localhost")]),
        (400, [("Authorization", "Bearer a"), ("Authorization", "Bearer b")]),
        (400, [("MCP-Protocol-Version", "2025-06-18"), ("mcp-protocol-version", "2026-07-28")]),
        (400, [("Mcp-Session-Id", "a"), ("Mcp-Session-Id", "b")]),
        (200, [("X-Tag", "a"), ("X-Tag", "b"), ("ORIGIN", "HTTP://LOCALHOST:8000")]),
    ]
    async with over_http(Toolkit("safe").add(reversed_text)) as url:
        assert [(await send_hello(url, headers), headers) for _, headers in rows] == rows


async def send_hello(url: str, headers: list[tuple[str, str]]) -> int:
    """Send exactly these headers, and a host if there is none; return the status."""
    body = json.dumps(HELLO)
    always = {**ACCEPTED, "Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"}
    given = {name for name, _ in headers}
    defaults = [pair for pair in {"Host": "localhost", **always}.items() if pair[0] not in given]
    lines = [f"{name}: {value}" for name, value in [*defaults, *headers]]
    reader, writer = await asyncio.open_connection("127.0.0.1", httpx2.URL(url).port)
    writer.write("\r\n".join(["POST /mcp HTTP/1.1", *lines, "", body]).encode())
    answer = await asyncio.wait_for(reader.read(), LONGEST)
    writer.close()
    return int(answer.split()[1])


async def test_a_request_id_that_is_running_in_a_session_is_refused():
    is_running, may_end = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        """Wait for the test."""
        is_running.set()
        await may_end.wait()
        return "done"

    def call(number: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "wait", "arguments": {}}}

    async with over_http(Toolkit("slow").add(wait)) as url, httpx2.AsyncClient(timeout=LONGEST) as client:
        hello = await client.post(url, json=HELLO, headers=ACCEPTED)
        headers = {**ACCEPTED, "mcp-session-id": hello.headers["mcp-session-id"]}
        await client.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
        first = asyncio.create_task(client.post(url, json=call(7), headers=headers))
        await asyncio.wait_for(is_running.wait(), LONGEST)
        for number in (7, "7"):
            refused = await client.post(url, json=call(number), headers=headers)
            assert (refused.status_code, refused.json()["id"]) == (400, number)
            assert refused.json()["error"]["code"] == -32600
        may_end.set()
        assert "done" in (await first).text
        assert "done" in (await client.post(url, json=call(7), headers=headers)).text


async def test_what_is_no_request_is_passed_on():
    async with over_http(Toolkit("safe").add(reversed_text)) as url, httpx2.AsyncClient(timeout=LONGEST) as client:
        hello = await client.post(url, json=HELLO, headers=ACCEPTED)
        headers = {**ACCEPTED, "mcp-session-id": hello.headers["mcp-session-id"], "content-type": "application/json"}
        for body, status in (("not JSON", 400), ("[]", 400), ('"' + "a" * 5_000_000 + '"', 413)):
            assert (await client.post(url, content=body, headers=headers)).status_code == status


@pytest.mark.parametrize("protocol", ["2026-07-28", "a session"])
async def test_a_call_whose_client_leaves_is_cancelled_unless_it_is_of_a_session(protocol: str):
    events: asyncio.Queue[str] = asyncio.Queue()
    may_end = asyncio.Event()

    async def wait() -> str:
        """Wait for the test."""
        await events.put("started")
        try:
            await may_end.wait()
        except asyncio.CancelledError:
            await events.put("cancelled")
            raise
        await events.put("ended")
        return "done"

    params: dict[str, Any] = {"name": "wait", "arguments": {}}
    async with over_http(Toolkit("slow").add(wait)) as url, httpx2.AsyncClient(timeout=LONGEST) as client:
        if protocol == "a session":
            hello = await client.post(url, json=HELLO, headers=ACCEPTED)
            headers = {**ACCEPTED, "mcp-session-id": hello.headers["mcp-session-id"]}
            await client.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
        else:
            headers = {**ACCEPTED, "mcp-protocol-version": protocol, "mcp-method": "tools/call", "mcp-name": "wait"}
            prefix = "io.modelcontextprotocol"
            info = {"name": "test", "version": "1"}
            params["_meta"] = {
                f"{prefix}/protocolVersion": protocol,
                f"{prefix}/clientInfo": info,
                f"{prefix}/clientCapabilities": {},
            }
        call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        request = asyncio.create_task(client.post(url, json=call, headers=headers))
        assert await asyncio.wait_for(events.get(), LONGEST) == "started"
        request.cancel()
        await asyncio.wait({request})
        if protocol == "a session":
            await client.post(url, json={"jsonrpc": "2.0", "id": 8, "method": "ping"}, headers=headers)
            may_end.set()
        expected = "ended" if protocol == "a session" else "cancelled"
        assert await asyncio.wait_for(events.get(), LONGEST) == expected
