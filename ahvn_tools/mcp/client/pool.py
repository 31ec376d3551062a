"""A pool of connections to one server: one per set of credentials, so that users never share a connection."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ahvn_tools.context import ProgressCallback
from ahvn_tools.errors import ToolConnectionError
from ahvn_tools.execution import background_loop
from ahvn_tools.mcp.client.connection import Connection, ToolVerifier, run_close
from ahvn_tools.mcp.client.handlers import Handlers, ListenerList
from ahvn_tools.mcp.client.targets import Target, is_valid_header
from ahvn_tools.mcp.trust.limits import Limits

if TYPE_CHECKING:
    from mcp_types import CallToolResult, Tool

MAX_CONNECTIONS = 32  # connections with headers at a time, by default
IDLE_SECONDS = 300.0  # after which an unused connection with headers is closed, by default

HeadersKey = tuple[tuple[str, str], ...]  # sorted, with lowercase names


@dataclass(eq=False)
class _PooledConnection:
    connection: Connection
    user_count: int = 0
    idle_since: float = 0.0


class ConnectionPool:
    """The connections to one server. They run on the background loop; any thread and any loop may call."""

    def __init__(
        self,
        target: Target,
        *,
        limits: Limits | None = None,
        handlers: Handlers | None = None,
        max_connections: int = MAX_CONNECTIONS,
        idle_seconds: float = IDLE_SECONDS,
        verify_tool: ToolVerifier | None = None,
    ) -> None:
        """The connection without headers stays open; `max_connections` and `idle_seconds` apply to the others."""
        self.target = target
        self._limits = limits or Limits()
        self._max_connections = max_connections
        self._idle_seconds = idle_seconds
        self._listeners = ListenerList()
        self._make_connection = functools.partial(
            Connection,
            target,
            limits=self._limits,
            handlers=handlers,
            verify_tool=verify_tool,
            listeners=self._listeners,
        )
        self._default_connection = self._make_connection()
        self._connections: OrderedDict[HeadersKey, _PooledConnection] = OrderedDict()
        self._closing_tasks: set[asyncio.Task[None]] = set()
        self._slot_freed = asyncio.Event()
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<ConnectionPool {self.target.name!r} of {len(self._connections)}>"

    async def tools(self, *, headers: Mapping[str, str] | None = None) -> list[Tool]:
        """Return the server's tools, as `Connection.tools` does, for one set of credentials."""

        async def fetch() -> list[Tool]:
            async with self._use_connection(self._to_key(headers)) as connection:
                return await connection.tools()

        return await background_loop.arun(fetch)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
        on_progress: ProgressCallback | None = None,
        is_repeatable: bool = False,
    ) -> CallToolResult:
        """Call a tool, as `Connection.call` does, over the connection of one set of credentials."""

        async def send() -> CallToolResult:
            async with self._use_connection(self._to_key(headers, name)) as connection:
                return await connection.call(name, arguments, on_progress=on_progress, is_repeatable=is_repeatable)

        return await background_loop.arun(send)

    def on_list_changed(self, listener: Callable[[float], None]) -> Callable[[], None]:
        """Add a listener to all connections, as `Connection.on_list_changed` does."""
        return self._listeners.add(listener)

    async def aclose(self) -> None:
        """Close all connections permanently."""
        if self._was_used():
            await background_loop.arun(self._close)
        self._is_closed = True

    def close(self) -> None:
        """Close all connections permanently; on the background loop, without waiting for it."""
        if self._was_used():
            run_close(self._close, self._limits.close + 2)
        else:
            self._is_closed = True

    def _was_used(self) -> bool:
        return self._default_connection.was_used() or bool(self._connections)

    def _to_key(self, headers: Mapping[str, str] | None, tool: str | None = None) -> HeadersKey:
        if not headers:
            return ()
        if not self.target.takes_headers:
            raise ToolConnectionError(
                f"Server {self.target.name!r} takes no headers: it is not reached over HTTP.", tool=tool
            )
        for name, value in headers.items():
            if not is_valid_header(name, value):
                raise ToolConnectionError(f"The header {name!r} has a value that cannot be sent.", tool=tool)
        return tuple(sorted((name.lower(), value) for name, value in headers.items()))

    @contextlib.asynccontextmanager
    async def _use_connection(self, key: HeadersKey) -> AsyncIterator[Connection]:
        if not key:
            if self._is_closed:
                self._default_connection.close()
            yield self._default_connection
            return
        member = await self._acquire(key)
        try:
            yield member.connection
        finally:
            member.user_count -= 1
            member.idle_since = asyncio.get_running_loop().time()
            self._slot_freed.set()
            self._schedule_sweep()

    async def _acquire(self, key: HeadersKey) -> _PooledConnection:
        """Return the connection of a key, counted as used. Waits until a new one may be made."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # a forked child has a loop of another process here
            self._loop, self._sweep_timer, self._slot_freed = loop, None, asyncio.Event()
        while key not in self._connections and not self._try_free_slot():
            self._slot_freed.clear()
            await self._slot_freed.wait()
        if self._is_closed:
            raise ToolConnectionError(f"The connections to server {self.target.name!r} were closed.")
        if key not in self._connections:
            self._connections[key] = _PooledConnection(self._make_connection(headers=dict(key)))
        member = self._connections[key]
        self._connections.move_to_end(key)
        member.user_count += 1
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
        task = asyncio.get_running_loop().create_task(self._connections.pop(key).connection.aclose())
        self._closing_tasks.add(task)
        task.add_done_callback(self._closing_tasks.discard)

    def _schedule_sweep(self) -> None:
        if self._sweep_timer is None and self._connections:
            self._sweep_timer = asyncio.get_running_loop().call_later(self._idle_seconds, self._close_idle)

    def _close_idle(self) -> None:
        self._sweep_timer = None
        now = asyncio.get_running_loop().time()
        for key, member in list(self._connections.items()):
            if not member.user_count and now - member.idle_since >= self._idle_seconds:
                self._drop(key)
        self._schedule_sweep()

    async def _close(self) -> None:
        self._is_closed = True
        for key in list(self._connections):
            self._drop(key)
        self._slot_freed.set()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        await asyncio.gather(self._default_connection.aclose(), *self._closing_tasks)
