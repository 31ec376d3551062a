"""A pool of connections to one server: one per set of credentials, so that users never share a connection."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from ahvn_tools.context import ProgressCallback
from ahvn_tools.errors import ToolConnectionError
from ahvn_tools.execution import background_loop
from ahvn_tools.mcp.client.client_settings import ClientSettings
from ahvn_tools.mcp.client.connection import Connection, ToolVerifier, run_close
from ahvn_tools.mcp.client.errors import to_closed_error
from ahvn_tools.mcp.client.session import Session
from ahvn_tools.mcp.client.targets import Target

if TYPE_CHECKING:
    from mcp_types import CallToolResult, Tool

MAX_CONNECTIONS = 32  # connections with headers at a time, by default
IDLE_SECONDS = 300.0  # after which an unused connection with headers is closed, by default

T = TypeVar("T")

HeadersKey = tuple[tuple[str, str], ...]  # sorted, with lowercase names


@dataclass(eq=False)
class _PooledConnection:
    connection: Connection
    user_count: int = 0
    idle_timer: asyncio.TimerHandle | None = None


class ConnectionPool:
    """The connections to one server. They run on the background loop; any thread and any loop may call."""

    def __init__(
        self,
        target: Target,
        settings: ClientSettings | None = None,
        *,
        verify_tool: ToolVerifier | None = None,
        on_list_changed: Callable[[], None] = lambda: None,
        max_connections: int = MAX_CONNECTIONS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """The connection without headers stays open; `max_connections` and `idle_seconds` apply to the others.

        `on_list_changed` is called on the background loop, which it must not block, when the server's tools may have
        changed, also after each reconnect.
        """
        self.target = target
        self._settings = settings or ClientSettings()
        self._max_connections = max_connections
        self._idle_seconds = idle_seconds
        self._make_connection = functools.partial(
            Connection, target, verify_tool=verify_tool, on_list_changed=on_list_changed
        )
        self._default_connection = self._make_connection(self._settings)
        self._connections: OrderedDict[HeadersKey, _PooledConnection] = OrderedDict()
        self._closing_tasks: set[asyncio.Task[None]] = set()
        self._slot_freed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<ConnectionPool {self.target.name!r} of {len(self._connections)}>"

    async def tools(self, *, headers: Mapping[str, str] | None = None) -> list[Tool]:
        """Return the server's tools, as `Connection.tools` does, for one set of credentials."""

        async def fetch() -> list[Tool]:
            async with self._use_connection(headers) as connection:
                return await connection.tools()

        return await background_loop.arun(fetch)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        on_progress: ProgressCallback | None = None,
        is_repeatable: bool = False,
        meta: dict[str, Any] | None = None,
    ) -> CallToolResult:
        """Call a tool, as `Connection.call` does, over the connection of one set of credentials."""

        async def send() -> CallToolResult:
            async with self._use_connection(headers, name) as connection:
                return await connection.call(
                    name,
                    arguments,
                    timeout=timeout,
                    on_progress=on_progress,
                    is_repeatable=is_repeatable,
                    meta=meta,
                )

        return await background_loop.arun(send)

    async def request(
        self,
        send: Callable[[Session], Awaitable[T]],
        what: str,
        *,
        headers: Mapping[str, str] | None,
        timeout: float | None = None,
        tool: str | None = None,
    ) -> T:
        """Return an answer, as `Connection.request` does, over the connection of one set of credentials."""

        async def request() -> T:
            async with self._use_connection(headers, tool) as connection:
                return await connection.request(send, what, timeout=timeout, tool=tool)

        return await background_loop.arun(request)

    async def aclose(self) -> None:
        """Close all connections permanently, and wait until the servers' processes have ended."""
        self._is_closed = True
        if self._loop is not None:
            await background_loop.arun(self._close)

    def close(self) -> None:
        """Close all connections permanently; on the background loop, without waiting for it."""
        self._is_closed = True
        if self._loop is not None:
            run_close(self._close, self._settings.limits.close + 2)

    @contextlib.asynccontextmanager
    async def _use_connection(
        self, headers: Mapping[str, str] | None, tool: str | None = None
    ) -> AsyncIterator[Connection]:
        self._reset_for_running_loop()
        if not headers:
            if self._is_closed:
                raise to_closed_error(self.target.name, tool)
            yield self._default_connection
            return
        if not self.target.takes_headers:
            raise ToolConnectionError(
                f"Server {self.target.name!r} takes no headers: it is not reached over HTTP.", tool=tool
            )
        key = tuple(sorted((name.lower(), value) for name, value in headers.items()))
        member = await self._acquire(key, tool)
        try:
            yield member.connection
        finally:
            member.user_count -= 1
            self._slot_freed.set()
            if not member.user_count and self._connections.get(key) is member:
                member.idle_timer = asyncio.get_running_loop().call_later(self._idle_seconds, self._drop, key)

    async def _acquire(self, key: HeadersKey, tool: str | None) -> _PooledConnection:
        """Return the connection of a key, counted as used. Waits until a new one may be made."""
        while key not in self._connections and not self._try_free_slot():
            self._slot_freed.clear()
            await self._slot_freed.wait()
        if self._is_closed:
            raise to_closed_error(self.target.name, tool)
        if key not in self._connections:
            settings = replace(self._settings, headers=dict(key))
            self._connections[key] = _PooledConnection(self._make_connection(settings))
        member = self._connections[key]
        self._connections.move_to_end(key)
        member.user_count += 1
        if member.idle_timer is not None:
            member.idle_timer.cancel()
        return member

    def _try_free_slot(self) -> bool:
        """Return whether another connection may be made. Closes the least recently used idle one if needed."""
        if len(self._connections) < self._max_connections or self._is_closed:
            return True
        idle = next((key for key, member in self._connections.items() if not member.user_count), None)
        if idle is None:
            return False
        self._drop(idle)
        return True

    def _drop(self, key: HeadersKey) -> None:
        member = self._connections.pop(key)
        if member.idle_timer is not None:
            member.idle_timer.cancel()
        task = asyncio.get_running_loop().create_task(member.connection.aclose())
        self._closing_tasks.add(task)
        task.add_done_callback(self._closing_tasks.discard)

    def _reset_for_running_loop(self) -> None:
        """Drop what belongs to another loop: in a forked child, the connections in use and the closing ones."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._slot_freed = loop, asyncio.Event()
            self._connections, self._closing_tasks = OrderedDict(), set()

    async def _close(self) -> None:
        self._reset_for_running_loop()
        for key in list(self._connections):
            self._drop(key)
        self._slot_freed.set()
        await asyncio.gather(self._default_connection.aclose(), *self._closing_tasks)
