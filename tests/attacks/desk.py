"""Desk: a toolkit that is served to two users; Raw: the requests of an attacker; and what must hold for both."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from fastmcp import Client
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier

from ahvn_tools import ToolContext, ToolError, Toolkit
from tests.attacks.attack import CANARY, Outcome
from tests.mcp.serving import over_http

WAIT = 20.0
"""Seconds that one request may take at most."""

ACCEPTED = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
TOKENS = {"token-ann": {"client_id": "ann", "role": "clerk"}, "token-bob": {"client_id": "bob", "role": "guest"}}
FIRE = "fire_everybody"


def hello(version: str = "2025-06-18") -> dict[str, Any]:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


def request(method: str, number: Any = 2, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def call(name: str, number: Any = 2, /, **arguments: Any) -> dict[str, Any]:
    return request("tools/call", number, name=name, arguments=arguments)


class Desk:
    """A toolkit with a bound user and key, a tool of an audience, groups and a tool that waits."""

    def __init__(self) -> None:
        self.kit = Toolkit("desk", state={"user": "nobody", "key": CANARY})
        self.started = asyncio.Event()
        self.may_end = asyncio.Event()
        self.fired: list[str] = []
        self.was_cancelled: list[str] = []

        @self.kit.tool
        def who(user: str, key: str, text: str = "") -> str:
            """Return the user."""
            return f"{user} {len(key)} {text}"

        @self.kit.tool(audience="clerk")
        def fire_everybody(user: str) -> str:
            """Fire everybody."""
            self.fired.append(user)
            return "all are fired"

        @self.kit.tool
        async def wait(user: str) -> str:
            """Wait."""
            self.started.set()
            try:
                await asyncio.wait_for(self.may_end.wait(), WAIT)
            except asyncio.CancelledError:
                self.was_cancelled.append(user)
                raise
            return f"{user} waited"

        @self.kit.tool
        async def report(user: str, context: ToolContext) -> str:
            """Report progress."""
            for number in range(3):
                context.report_progress(number, 3, f"{user} {number}")
            return user

        @self.kit.tool
        def fail(key: str) -> str:
            """Fail."""
            raise ValueError(f"the key is {key}")

        @self.kit.tool
        def refuse(key: str) -> str:
            """Refuse."""
            raise ToolError("not today") from KeyError(key)

        @self.kit.tool(group="rare")
        def rare() -> str:
            """Do something rare."""
            return "rare"

        self.kit.bind("user").bind("key", secret=True)

    @asynccontextmanager
    async def served(self, **options: Any) -> AsyncIterator[Raw]:
        """Serve over HTTP to users with tokens."""
        options = {
            "auth": StaticTokenVerifier(TOKENS),
            "state": lambda request: {"user": request.client_id},
            "audience": lambda request: request.claims["role"],
            **options,
        }
        async with over_http(self.kit, **options) as url, httpx2.AsyncClient(timeout=WAIT) as http:
            try:
                yield Raw(http, url)
            finally:
                self.may_end.set()


class Raw:
    """Raw requests to a server."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self.http, self.url = http, url

    async def send(
        self, token: str | None, body: Any, session: str | None = None, /, **headers: str
    ) -> httpx2.Response:
        content = body if isinstance(body, str | bytes) else json.dumps(body)
        more = {"authorization": f"Bearer token-{token}"} if token else {}
        if session is not None:
            more["mcp-session-id"] = session
        more |= {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.http.post(self.url, content=content, headers={**ACCEPTED, **more})

    async def open(self, token: str | None) -> str:
        """Open a session of the older protocol."""
        answer = await self.send(token, hello())
        session = answer.headers["mcp-session-id"]
        await self.send(token, {"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
        return str(session)


def by_http(attack: Callable[[Desk, Raw], Awaitable[Any]], **options: Any) -> Callable[[], Any]:
    """Attack a server, and say whether it still serves."""

    async def act() -> list[Any]:
        desk = Desk()
        async with desk.served(**options) as raw:
            value = await attack(desk, raw)
            session = await raw.open("ann")
            answer = await raw.send("ann", call("who", 99), session)
            return [value, "ann 13" in answer.text]

    return act


def in_memory(attack: Callable[[Desk, Any], Awaitable[Any]], **options: Any) -> Callable[[], Any]:
    """Attack a server through a client in memory."""

    async def act() -> Any:
        desk = Desk()
        async with Client(desk.kit.to_fastmcp_server(**options)) as client:
            return await attack(desk, client)

    return act


def gives(value: Any) -> Callable[[Outcome], bool]:
    """The attack gave this, the server still serves, and no key is shown."""
    return lambda outcome: (
        outcome.error is None and outcome.value == [value, True] and CANARY not in f"{outcome.value!r}"
    )


def refused(outcome: Outcome) -> bool:
    """Every request was refused with 4xx or a JSON-RPC error, and the server still serves."""
    if outcome.error is not None or not outcome.value[1] or not outcome.value[0]:
        return False
    return all(
        400 <= answer.status_code < 500 or '"error"' in answer.text or '"isError":true' in answer.text
        for answer in outcome.value[0]
    ) and not any(CANARY in answer.text for answer in outcome.value[0])
