"""One connection to a server for each set of credentials: users never share one, and none is kept for nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from ahvn_tools.errors import ToolConnectionError
from ahvn_tools.execution import bridge
from ahvn_tools.mcp.connection import Confirm, Connection, Progress
from ahvn_tools.mcp.handlers import Handlers
from ahvn_tools.mcp.limits import Limits
from ahvn_tools.mcp.servers import Target

if TYPE_CHECKING:
    from mcp_types import CallToolResult, Tool

MOST = 32
"""Connections at a time, unless told otherwise."""

IDLE = 300.0
"""Seconds after which a connection of somebody's is closed that nobody uses, unless told otherwise."""

Key = tuple[tuple[str, str], ...]


class CallOptions(TypedDict, total=False):
    """What `Connection.call` takes besides a name and arguments."""

    timeout: float | None
    progress: Progress | None
    is_repeatable: bool
    meta: Mapping[str, Any] | None


class _Member:
    """A connection in the pool, and who uses it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.users = 0
        self.since = 0.0


class Pool:
    """The connections to one server. Everything inside is on the background loop; any thread and loop may call."""

    def __init__(
        self,
        target: Target,
        *,
        limits: Limits | None = None,
        handlers: Handlers | None = None,
        most: int = MOST,
        idle: float = IDLE,
        confirm: Confirm | None = None,
    ) -> None:
        """Take the server. The connection without headers stays; of others there are at most `most`."""
        self.target = target
        self._limits, self._handlers, self._most, self._idle = limits, handlers, most, idle
        self._confirm = confirm
        self._own = self._connection(())
        self._members: OrderedDict[Key, _Member] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()
        self._room: asyncio.Event | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._callbacks: list[Callable[[], None]] = []
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<Pool {self.target.name!r} of {len(self._members)}>"

    async def tools(self, *, headers: Mapping[str, str] | None = None) -> list[Tool]:
        """Return the server's tools, as `Connection.tools` does, for one set of credentials."""

        async def listed() -> list[Tool]:
            async with self._used(self._key(headers)) as connection:
                return await connection.tools()

        return await bridge.arun(listed)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> CallToolResult:
        """Call a tool, as `Connection.call` does, with the connection of one set of credentials."""

        async def called() -> CallToolResult:
            async with self._used(self._key(headers, name)) as connection:
                return await connection.call(name, arguments, **options)

        return await bridge.arun(called)

    def on_changed(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when the server's tools may have changed, whoever hears it; return what ends that."""
        self._callbacks.append(callback)

        def undo() -> None:
            with contextlib.suppress(ValueError):
                self._callbacks.remove(callback)

        return undo

    async def aclose(self) -> None:
        """Close all connections for good."""
        if self._is_used():
            await bridge.arun(self._close)
        self._is_closed = True

    def close(self) -> None:
        """Close all connections for good, from a thread without a loop; on the background loop it is only begun."""
        if not self._is_used():
            self._is_closed = True
            return
        closing = asyncio.run_coroutine_threadsafe(self._close(), bridge.loop())
        if bridge.running_loop() is not bridge.loop():
            with contextlib.suppress(TimeoutError):
                closing.result((self._limits or Limits()).close + 2)

    def _is_used(self) -> bool:
        return self._own.is_used() or bool(self._members)

    def _key(self, headers: Mapping[str, str] | None, tool: str | None = None) -> Key:
        if not headers:
            return ()
        if not self.target.takes_headers:
            raise ToolConnectionError(
                f"Server {self.target.name!r} takes no headers: it is not reached over HTTP.", tool=tool
            )
        for name, value in headers.items():
            if not _is_sendable(value):
                raise ToolConnectionError(f"The header {name!r} has a value that cannot be sent.", tool=tool)
        return tuple(sorted((name.lower(), value) for name, value in headers.items()))

    def _connection(self, key: Key) -> Connection:
        connection = Connection(
            self.target, limits=self._limits, handlers=self._handlers, headers=dict(key), confirm=self._confirm
        )
        connection.on_changed(self._tell)
        return connection

    def _tell(self) -> None:
        for callback in list(self._callbacks):
            callback()

    @contextlib.asynccontextmanager
    async def _used(self, key: Key) -> AsyncIterator[Connection]:
        if not key:
            if self._is_closed:
                self._own.close()
            yield self._own
            return
        member = await self._member(key)
        try:
            yield member.connection
        finally:
            member.users -= 1
            member.since = asyncio.get_running_loop().time()
            if self._room is not None:
                self._room.set()
            self._sweep_later()

    async def _member(self, key: Key) -> _Member:
        """Return the connection of a key, counted as used; a new one once there is room."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # in a forked child, what belongs to its parent's
            self._loop, self._sweeping, self._room = loop, None, None
        while key not in self._members and not self._has_room():
            if self._room is None:
                self._room = asyncio.Event()
            self._room.clear()
            await self._room.wait()
        if self._is_closed:
            raise ToolConnectionError(f"The connections to server {self.target.name!r} were closed.")
        if key not in self._members:
            self._members[key] = _Member(self._connection(key))
        member = self._members[key]
        self._members.move_to_end(key)
        member.users += 1
        return member

    def _has_room(self) -> bool:
        if len(self._members) < self._most or self._is_closed:
            return True
        longest = next((key for key, member in self._members.items() if not member.users), None)
        if longest is None:
            return False
        self._drop(longest)
        return True

    def _drop(self, key: Key) -> None:
        task = asyncio.get_running_loop().create_task(self._members.pop(key).connection.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _sweep_later(self) -> None:
        if self._sweeping is None and self._members:
            self._sweeping = asyncio.get_running_loop().call_later(self._idle, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = None
        now = asyncio.get_running_loop().time()
        for key, member in list(self._members.items()):
            if not member.users and now - member.since >= self._idle:
                self._drop(key)
        self._sweep_later()

    async def _close(self) -> None:
        self._is_closed = True
        for key in list(self._members):
            self._drop(key)
        if self._room is not None:
            self._room.set()
        if self._sweeping is not None:
            self._sweeping.cancel()
        await asyncio.gather(self._own.aclose(), *self._closing)


def _is_sendable(value: object) -> bool:
    return isinstance(value, str) and value.isprintable()
