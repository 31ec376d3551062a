"""One client from its first message to its last. One task enters and leaves it; everything here is on its loop."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from ahvn_tools.errors import ToolTimeoutError
from ahvn_tools.execution.threads import in_thread
from ahvn_tools.mcp import faults
from ahvn_tools.mcp.faults import LostError
from ahvn_tools.mcp.handlers import Handlers, bridged
from ahvn_tools.mcp.limits import Flood, Limits

log = logging.getLogger(__name__)

SLACK = 1.5
"""Seconds to close beyond those that a server has to end on its own."""

CHANGED = "notifications/tools/list_changed"

Ask = Callable[[Any], Awaitable[Any]]
"""Asks a client for something."""

alive: set[Session] = set()
"""Every session that has not ended; a task that nothing refers to would be collected."""

_inherited: list[Session] = []
"""In a forked child, its parent's: collecting them would end what is not ours."""

_left: set[asyncio.Task[Any]] = set()
"""Requests that nobody waits for any more."""


class Session:
    """A client, the task that owns it, and who uses it."""

    def __init__(
        self, make: Callable[[Handlers], Any], handlers: Handlers, limits: Limits, on_changed: Callable[[], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._limits = limits
        self._on_changed = on_changed
        self._users = 0
        self._is_retired = False
        self._client: Any = None
        self._stop = asyncio.Event()
        self._flood = Flood(limits.notifications)
        self._cause: Exception | None = None
        self.ready: asyncio.Future[bool] = self._loop.create_future()
        """Done when it is known whether there is a connection."""
        self.over: asyncio.Future[str] = self._loop.create_future()
        """Done, with the reason, when there is none any more."""
        own = replace(
            handlers,
            elicitation=bridged(handlers.elicitation),
            sampling=bridged(handlers.sampling),
            heard=self._hear,
            lost=self.fail,
        )
        self.owner = asyncio.create_task(self._own(make, own))
        self._timer: asyncio.TimerHandle | None = None
        alive.add(self)
        self.owner.add_done_callback(lambda _: alive.discard(self))

    def is_usable(self) -> bool:
        """Say whether new requests may be sent."""
        if self._is_retired or self.over.done():
            return False
        if self._client is None:
            return True
        reason = self._fault()
        if reason is None and not self._client.is_connected():  # it says so late or never, but never wrongly
            reason = "the connection broke"
        if reason is not None:
            self.fail(reason)
        return reason is None

    def was_ready(self) -> bool:
        """Say whether there ever was a connection."""
        return self.ready.done() and self.ready.result()

    async def ask(self, ask: Ask, *, timeout: float | None, what: str, tool: str | None = None) -> Any:
        """Send a request and wait for its answer, at most `timeout` seconds.

        Raises LostError, ToolTimeoutError, and what the server's own error means.
        """
        self._users += 1
        try:
            await asyncio.wait({self.ready})
            if not self.was_ready():
                raise LostError(self.over.result()) from self._cause
            return await self._answer(asyncio.ensure_future(ask(self._client)), timeout, what, tool)
        finally:
            self._users -= 1
            self._rest()

    async def _answer(self, request: asyncio.Future[Any], timeout: float | None, what: str, tool: str | None) -> Any:
        try:
            await asyncio.wait({request, self.over}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if request.done():
                return self._result(request, tool)
            if self.over.done():
                raise LostError(self.over.result())
            raise ToolTimeoutError(f"{what} took longer than {timeout:g} s.{self._noise()}", tool=tool, timeout=timeout)
        finally:
            _leave(request)

    def _result(self, request: asyncio.Future[Any], tool: str | None) -> Any:
        if request.cancelled():
            raise LostError("the connection was closed")
        error = request.exception()
        if error is None:
            return request.result()
        if not isinstance(error, Exception):  # pragma: no cover  # it ends the loop's run before it comes here
            raise error
        read = faults.read(error, tool, self._status())
        if isinstance(read, LostError) and (reason := self._fault()) is not None:
            read = LostError(reason, is_unsent=read.is_unsent)
        raise read from error

    def retire(self) -> None:
        """Take no new requests, and end when the last one has its answer."""
        self._is_retired = True
        self._rest()

    def _rest(self) -> None:
        if self._is_retired and not self._users:
            self._stop.set()

    def fail(self, reason: str) -> None:
        """End now: whoever waits is told why."""
        is_connecting = not self.ready.done()
        self._end(reason)
        self._stop.set()
        if is_connecting:
            self.owner.cancel()

    async def close(self) -> None:
        """End, and wait for that: a little longer than a server has to go."""
        self.fail("the connection was closed")
        await asyncio.wait({self.owner}, timeout=self._limits.close + SLACK)

    async def _own(self, make: Callable[[Handlers], Any], handlers: Handlers) -> None:
        client = following = None
        try:
            await in_thread(_load)
            self._timer = self._loop.call_later(self._limits.connect, self._be_late)  # the import is not the server's
            client = make(handlers)
            await client.__aenter__()
            # mcp runs Python's `re` over results, on the event loop: a pattern of the server's would stop the process
            client.session.validate_tool_result = _accept
            self._client = client
            self._stop_timer()
            if not self.ready.done():  # pragma: no branch  # the time may be up at this very moment
                self.ready.set_result(True)
            following = asyncio.create_task(_follow(client, self._on_changed))
            await self._stop.wait()
        except Exception as error:  # noqa: BLE001  # whatever it is, there is no connection
            self._cause = error
            self._end(_ask_transport(client, "fault") or faults.connecting(error, _ask_transport(client, "status")))
        finally:
            self._end("the connection was closed")
            if following is not None:
                following.cancel()
            await self._leave(client)

    async def _leave(self, client: Any) -> None:
        if client is None:
            return
        with contextlib.suppress(Exception):  # an exit that raises or hangs is nobody's business
            async with asyncio.timeout(self._limits.close + SLACK):
                await client.close()

    def _end(self, reason: str) -> None:
        self._is_retired = True
        self._stop_timer()
        if not self.over.done():
            self.over.set_result(reason)
        if not self.ready.done():
            self.ready.set_result(False)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _be_late(self) -> None:
        self.fail(f"there was no connection within {self._limits.connect:g} s")

    def _hear(self, message: Any) -> None:
        if (reason := self._flood.told()) is not None:
            self.fail(reason)
        elif getattr(message, "method", None) == CHANGED:
            self._on_changed()

    def _fault(self) -> str | None:
        fault: str | None = _ask_transport(self._client, "fault")
        return fault

    def _status(self) -> int | None:
        status: int | None = _ask_transport(self._client, "status")
        return status

    def _noise(self) -> str:
        lines = _ask_transport(self._client, "noise") or 0
        return f" The server wrote {lines} lines that are no messages." if lines else ""


async def _follow(client: Any, changed: Callable[[], None]) -> None:
    from ahvn_tools.mcp import news

    try:
        await news.follow(client, changed)
    except Exception:  # news are a courtesy, and a server may send anything as such
        log.debug("A subscription to changes of tools has ended.", exc_info=True)


async def _accept(_name: str, _result: Any) -> None:
    return None


def _load(_: object) -> None:
    """Import FastMCP, for about a second, in which the loop goes on."""
    for module in ("clients", "news"):
        importlib.import_module(f"ahvn_tools.mcp.{module}")


def _ask_transport(client: Any, what: str) -> Any:
    asked = getattr(getattr(client, "transport", None), what, None)
    return None if asked is None else asked()


def _leave(request: asyncio.Future[Any]) -> None:
    """Cancel a request that nobody waits for any more: the server is told, and its task ends on its own."""
    if request.done():
        return
    request.cancel()
    _left.add(request)  # type: ignore[arg-type]
    request.add_done_callback(_forget)


def _forget(request: Any) -> None:
    _left.discard(request)
    if not request.cancelled():
        request.exception()


def _forked() -> None:  # pragma: no cover  # runs in forked children
    _inherited.extend(alive)
    alive.clear()


if hasattr(os, "register_at_fork"):  # pragma: no branch  # not on Windows
    os.register_at_fork(after_in_child=_forked)
