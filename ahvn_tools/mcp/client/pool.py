"""One connection to a server for each set of credentials: users never share one, and none is kept for nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from ahvn_tools.errors import ToolConnectionError
from ahvn_tools.execution import background_loop
from ahvn_tools.mcp.client.connection import Connection, ProgressCallback, ToolVerifier
from ahvn_tools.mcp.client.handlers import Handlers
from ahvn_tools.mcp.client.targets import Target
from ahvn_tools.mcp.trust.limits import Limits

if TYPE_CHECKING:
    from mcp_types import CallToolResult, Tool

MAX_CONNECTIONS = 32
"""Connections at a time, unless told otherwise."""

IDLE_SECONDS = 300.0
"""Seconds after which a connection of somebody's is closed that nobody uses, unless told otherwise."""

HeadersKey = tuple[tuple[str, str], ...]


class RequestOptions(TypedDict, total=False):
    """What `Connection.call` takes besides a name and arguments."""

    timeout: float | None
    on_progress: ProgressCallback | None
    is_repeatable: bool
    meta: Mapping[str, Any] | None


class _PooledConnection:
    """A connection in the pool, and who uses it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.user_count = 0
        self.idle_since = 0.0


class ConnectionPool:
    """The connections to one server. Everything inside is on the background loop; any thread and loop may call."""

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
        """Take the server. The connection without headers stays; of others there are at most `most`."""
        self.target = target
        self._limits, self._handlers, self._max_connections, self._idle_seconds = (
            limits,
            handlers,
            max_connections,
            idle_seconds,
        )
        self._verify_tool = verify_tool
        self._default_connection = self._make_connection(())
        self._connections: OrderedDict[HeadersKey, _PooledConnection] = OrderedDict()
        self._closing_tasks: set[asyncio.Task[None]] = set()
        self._slot_freed: asyncio.Event | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._callbacks: list[Callable[[], None]] = []
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<Pool {self.target.name!r} of {len(self._connections)}>"

    async def tools(self, *, headers: Mapping[str, str] | None = None) -> list[Tool]:
        """Return the server's tools, as `Connection.tools` does, for one set of credentials."""

        async def listed() -> list[Tool]:
            async with self._use_connection(self._to_key(headers)) as connection:
                return await connection.tools()

        return await background_loop.arun(listed)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
        **options: Unpack[RequestOptions],
    ) -> CallToolResult:
        """Call a tool, as `Connection.call` does, with the connection of one set of credentials."""

        async def called() -> CallToolResult:
            async with self._use_connection(self._to_key(headers, name)) as connection:
                return await connection.call(name, arguments, **options)

        return await background_loop.arun(called)

    def on_list_changed(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when the server's tools may have changed, whoever hears it; return what ends that."""
        self._callbacks.append(callback)

        def undo() -> None:
            with contextlib.suppress(ValueError):
                self._callbacks.remove(callback)

        return undo

    async def aclose(self) -> None:
        """Close all connections for good."""
        if self._was_used():
            await background_loop.arun(self._close)
        self._is_closed = True

    def close(self) -> None:
        """Close all connections for good, from a thread without a loop; on the background loop it is only begun."""
        if not self._was_used():
            self._is_closed = True
            return
        closing = asyncio.run_coroutine_threadsafe(self._close(), background_loop.get_loop())
        if background_loop.running_loop() is not background_loop.get_loop():
            with contextlib.suppress(TimeoutError):
                closing.result((self._limits or Limits()).close + 2)

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
            if not _is_header_value(value):
                raise ToolConnectionError(f"The header {name!r} has a value that cannot be sent.", tool=tool)
        return tuple(sorted((name.lower(), value) for name, value in headers.items()))

    def _make_connection(self, key: HeadersKey) -> Connection:
        connection = Connection(
            self.target, limits=self._limits, handlers=self._handlers, headers=dict(key), verify_tool=self._verify_tool
        )
        connection.on_list_changed(self._notify)
        return connection

    def _notify(self) -> None:
        for callback in list(self._callbacks):
            callback()

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
            if self._slot_freed is not None:
                self._slot_freed.set()
            self._schedule_sweep()

    async def _acquire(self, key: HeadersKey) -> _PooledConnection:
        """Return the connection of a key, counted as used; a new one once there is room."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # in a forked child, what belongs to its parent's
            self._loop, self._sweep_timer, self._slot_freed = loop, None, None
        while key not in self._connections and not self._try_free_slot():
            if self._slot_freed is None:
                self._slot_freed = asyncio.Event()
            self._slot_freed.clear()
            await self._slot_freed.wait()
        if self._is_closed:
            raise ToolConnectionError(f"The connections to server {self.target.name!r} were closed.")
        if key not in self._connections:
            self._connections[key] = _PooledConnection(self._make_connection(key))
        member = self._connections[key]
        self._connections.move_to_end(key)
        member.user_count += 1
        return member

    def _try_free_slot(self) -> bool:
        if len(self._connections) < self._max_connections or self._is_closed:
            return True
        longest = next((key for key, member in self._connections.items() if not member.user_count), None)
        if longest is None:
            return False
        self._drop(longest)
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
        if self._slot_freed is not None:
            self._slot_freed.set()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        await asyncio.gather(self._default_connection.aclose(), *self._closing_tasks)


def _is_header_value(value: object) -> bool:
    return isinstance(value, str) and value.isprintable()
