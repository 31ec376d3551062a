"""One client from its first message to its last. A single task enters and exits it, on the loop that started it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from ahvn_tools.after_fork import reset_after_fork
from ahvn_tools.errors import ToolTimeoutError
from ahvn_tools.execution.threads import run_in_thread
from ahvn_tools.mcp.client import errors
from ahvn_tools.mcp.client.errors import ConnectionLostError
from ahvn_tools.mcp.client.handlers import ConnectionStatus, Handlers, wrap_handler
from ahvn_tools.mcp.trust.limits import Limits, RateGuard

log = logging.getLogger(__name__)

CLOSE_GRACE_SECONDS = 1.5  # for closing a client, in addition to the seconds that the server has to exit
TOOLS_LIST_CHANGED = "notifications/tools/list_changed"

SendRequest = Callable[["Session"], Awaitable[Any]]
"""Sends a request through the client of a session and returns the result."""

open_sessions: set[Session] = set()
"""Every session that has not ended; a task without a reference would be garbage collected."""

_parent_sessions: list[Session] = []
"""The sessions of the parent process; collecting them in a forked child would end them."""

_abandoned_requests: set[asyncio.Future[Any]] = set()
"""Cancelled requests that have not ended yet."""


@reset_after_fork
def _drop_sessions() -> None:  # pragma: no cover  # runs in child processes, which report no coverage
    _parent_sessions.extend(open_sessions)
    open_sessions.clear()


class Session:
    """A client, the task that owns it, and the number of requests that use it."""

    def __init__(
        self,
        make_client: Callable[[Handlers], Any],
        handlers: Handlers,
        limits: Limits,
        on_list_changed: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._limits = limits
        self._on_list_changed = on_list_changed
        self._user_count = 0
        self._is_retired = False
        self._stop = asyncio.Event()
        self._rate_guard = RateGuard(limits.notifications)
        self._cause: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.client: Any = None
        """The FastMCP client, once it has connected."""
        self.status = ConnectionStatus()
        self.ready: asyncio.Future[bool] = self._loop.create_future()
        """Whether the client could connect."""
        self.end_reason: asyncio.Future[str] = self._loop.create_future()
        """Why the connection has ended."""
        own = replace(
            handlers,
            elicitation=wrap_handler(handlers.elicitation),
            sampling=wrap_handler(handlers.sampling),
            on_message=self._handle_message,
            on_connection_lost=self.fail,
            status=self.status,
        )
        self.owner_task = asyncio.create_task(self._run(make_client, own))
        open_sessions.add(self)
        self.owner_task.add_done_callback(lambda _: open_sessions.discard(self))

    def is_usable(self) -> bool:
        """Return whether new requests may be sent."""
        if self._is_retired or self.end_reason.done():
            return False
        if self.client is None:
            return True
        reason = self.status.find_failure()
        if reason is None and not self.client.is_connected():  # may be late in saying so, but is never wrong
            reason = "the connection broke"
        if reason is not None:
            self.fail(reason)
        return reason is None

    def was_ready(self) -> bool:
        """Return whether the client has connected at all."""
        return self.ready.done() and self.ready.result()

    async def send_request(
        self, send: SendRequest, *, timeout: float | None, what: str, tool: str | None = None
    ) -> Any:
        """Send a request and wait at most `timeout` seconds for its result.

        Raises ConnectionLostError, ToolTimeoutError, and the error that the server's answer means.
        """
        self._user_count += 1
        try:
            await asyncio.wait({self.ready})
            if not self.was_ready():
                raise ConnectionLostError(self.end_reason.result()) from self._cause
            return await self._wait_for_result(asyncio.ensure_future(send(self)), timeout, what, tool)
        finally:
            self._user_count -= 1
            self._stop_if_unused()

    async def _wait_for_result(
        self, request: asyncio.Future[Any], timeout: float | None, what: str, tool: str | None
    ) -> Any:
        try:
            await asyncio.wait({request, self.end_reason}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if request.done():
                return self._get_result(request, tool)
            if self.end_reason.done():
                raise ConnectionLostError(self.end_reason.result())
            lines = self.status.stray_lines
            note = f" The server wrote {lines} lines that are not messages." if lines else ""
            raise ToolTimeoutError(f"{what} took longer than {timeout:g} s.{note}", tool=tool, timeout=timeout)
        finally:
            _abandon(request)

    def _get_result(self, request: asyncio.Future[Any], tool: str | None) -> Any:
        if request.cancelled():
            raise ConnectionLostError("the connection was closed")
        cause = request.exception()
        if cause is None:
            return request.result()
        if not isinstance(cause, Exception):  # pragma: no cover  # it stops the loop before it gets here
            raise cause
        error = errors.to_call_error(cause, tool, self.status.error_status)
        if isinstance(error, ConnectionLostError) and (reason := self.status.find_failure()) is not None:
            error = ConnectionLostError(reason, is_unsent=error.is_unsent)
        raise error from cause

    def retire(self) -> None:
        """Accept no new requests, and end after the last pending one."""
        self._is_retired = True
        self._stop_if_unused()

    def _stop_if_unused(self) -> None:
        if self._is_retired and not self._user_count:
            self._stop.set()

    def fail(self, reason: str) -> None:
        """End now. Pending requests raise ConnectionLostError with the reason."""
        is_connecting = not self.ready.done()
        self._mark_ended(reason)
        self._stop.set()
        if is_connecting:
            self.owner_task.cancel()

    async def close(self) -> None:
        """End, and wait slightly longer than the server may take to exit."""
        self.fail("the connection was closed")
        await asyncio.wait({self.owner_task}, timeout=self._limits.close + CLOSE_GRACE_SECONDS)

    async def _run(self, make_client: Callable[[Handlers], Any], handlers: Handlers) -> None:
        client = watch_task = None
        try:
            await run_in_thread(_import_fastmcp)
            # after the import, whose time is not the server's
            self._timer = self._loop.call_later(self._limits.connect, self._fail_on_timeout)
            client = make_client(handlers)
            await client.__aenter__()
            # mcp would run the server's regular expressions with `re` on the event loop, which could block it forever
            client.session.validate_tool_result = _skip_validation
            self.client = client
            self._timer.cancel()
            if not self.ready.done():  # pragma: no branch  # the time may be up at this very moment
                self.ready.set_result(True)
            watch_task = asyncio.create_task(_watch_list_changes(client, self._on_list_changed))
            await self._stop.wait()
        except Exception as error:  # noqa: BLE001  # whatever it is, there is no connection
            self._cause = error
            reason = self.status.find_failure()
            self._mark_ended(reason or errors.describe_connect_error(error, self.status.error_status))
        finally:
            self._mark_ended("the connection was closed")
            if watch_task is not None:
                watch_task.cancel()
            await self._close_client(client)

    async def _close_client(self, client: Any) -> None:
        if client is None:
            return
        with contextlib.suppress(Exception):  # an exit that raises or hangs harms no other connection
            async with asyncio.timeout(self._limits.close + CLOSE_GRACE_SECONDS):
                await client.close()

    def _mark_ended(self, reason: str) -> None:
        self._is_retired = True
        if self._timer is not None:
            self._timer.cancel()
        if not self.end_reason.done():
            self.end_reason.set_result(reason)
        if not self.ready.done():
            self.ready.set_result(False)

    def _fail_on_timeout(self) -> None:
        self.fail(f"there was no connection within {self._limits.connect:g} s")

    def _handle_message(self, message: Any) -> None:
        if (reason := self._rate_guard.count_message()) is not None:
            self.fail(reason)
        elif getattr(message, "method", None) == TOOLS_LIST_CHANGED:
            self._on_list_changed()


async def _watch_list_changes(client: Any, on_list_changed: Callable[[], None]) -> None:
    from ahvn_tools.mcp.client import subscriptions

    try:
        await subscriptions.watch_list_changes(client, on_list_changed)
    except Exception:  # calls work without a subscription, and a server may send anything in it
        log.debug("A subscription to changes of tools has ended.", exc_info=True)


async def _skip_validation(_name: str, _result: Any) -> None:
    return None


def _import_fastmcp(_: object) -> None:
    """Import FastMCP, which takes about a second, so in a thread."""
    from ahvn_tools.mcp.client import fastmcp_clients, subscriptions  # noqa: F401  # for the cost of it


def _abandon(request: asyncio.Future[Any]) -> None:
    """Cancel a request whose result is not needed any more. Its task sends the server a cancellation and then ends."""
    if request.done():
        return
    request.cancel()
    _abandoned_requests.add(request)
    request.add_done_callback(_discard)


def _discard(request: asyncio.Future[Any]) -> None:
    _abandoned_requests.discard(request)
    if not request.cancelled():
        request.exception()  # else asyncio would log it as never retrieved
