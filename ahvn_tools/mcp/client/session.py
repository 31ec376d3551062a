"""One client from its first message to its last. One task enters and leaves it; everything here is on its loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from ahvn_tools.errors import ToolTimeoutError
from ahvn_tools.execution.threads import run_in_thread
from ahvn_tools.mcp.client import errors
from ahvn_tools.mcp.client.errors import ConnectionLostError
from ahvn_tools.mcp.client.handlers import Handlers, wrap_handler
from ahvn_tools.mcp.trust.limits import Limits, RateGuard

log = logging.getLogger(__name__)

CLOSE_GRACE_SECONDS = 1.5
"""Seconds to close beyond those that a server has to end on its own."""

TOOLS_LIST_CHANGED = "notifications/tools/list_changed"

SendRequest = Callable[[Any], Awaitable[Any]]
"""Asks a client for something."""

open_sessions: set[Session] = set()
"""Every session that has not ended; a task that nothing refers to would be collected."""

_parent_sessions: list[Session] = []
"""In a forked child, its parent's: collecting them would end what is not ours."""

_abandoned_requests: set[asyncio.Task[Any]] = set()
"""Requests that nobody waits for any more."""


class Session:
    """A client, the task that owns it, and who uses it."""

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
        self._client: Any = None
        self._stop = asyncio.Event()
        self._rate_guard = RateGuard(limits.notifications)
        self._cause: Exception | None = None
        self.ready: asyncio.Future[bool] = self._loop.create_future()
        """Done when it is known whether there is a connection."""
        self.end_reason: asyncio.Future[str] = self._loop.create_future()
        """Done, with the reason, when there is none any more."""
        own = replace(
            handlers,
            elicitation=wrap_handler(handlers.elicitation),
            sampling=wrap_handler(handlers.sampling),
            on_message=self._handle_message,
            on_connection_lost=self.fail,
        )
        self.owner_task = asyncio.create_task(self._run(make_client, own))
        self._timer: asyncio.TimerHandle | None = None
        open_sessions.add(self)
        self.owner_task.add_done_callback(lambda _: open_sessions.discard(self))

    def is_usable(self) -> bool:
        """Say whether new requests may be sent."""
        if self._is_retired or self.end_reason.done():
            return False
        if self._client is None:
            return True
        reason = self._failure_reason()
        if reason is None and not self._client.is_connected():  # it says so late or never, but never wrongly
            reason = "the connection broke"
        if reason is not None:
            self.fail(reason)
        return reason is None

    def was_ready(self) -> bool:
        """Say whether there ever was a connection."""
        return self.ready.done() and self.ready.result()

    async def send_request(
        self, send: SendRequest, *, timeout: float | None, what: str, tool: str | None = None
    ) -> Any:
        """Send a request and wait for its answer, at most `timeout` seconds.

        Raises LostError, ToolTimeoutError, and what the server's own error means.
        """
        self._user_count += 1
        try:
            await asyncio.wait({self.ready})
            if not self.was_ready():
                raise ConnectionLostError(self.end_reason.result()) from self._cause
            return await self._wait_for_result(asyncio.ensure_future(send(self._client)), timeout, what, tool)
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
            raise ToolTimeoutError(
                f"{what} took longer than {timeout:g} s.{self._stray_lines_note()}", tool=tool, timeout=timeout
            )
        finally:
            _abandon(request)

    def _get_result(self, request: asyncio.Future[Any], tool: str | None) -> Any:
        if request.cancelled():
            raise ConnectionLostError("the connection was closed")
        error = request.exception()
        if error is None:
            return request.result()
        if not isinstance(error, Exception):  # pragma: no cover  # it ends the loop's run before it comes here
            raise error
        read = errors.to_call_error(error, tool, self._error_status())
        if isinstance(read, ConnectionLostError) and (reason := self._failure_reason()) is not None:
            read = ConnectionLostError(reason, is_unsent=read.is_unsent)
        raise read from error

    def retire(self) -> None:
        """Take no new requests, and end when the last one has its answer."""
        self._is_retired = True
        self._stop_if_unused()

    def _stop_if_unused(self) -> None:
        if self._is_retired and not self._user_count:
            self._stop.set()

    def fail(self, reason: str) -> None:
        """End now: whoever waits is told why."""
        is_connecting = not self.ready.done()
        self._mark_ended(reason)
        self._stop.set()
        if is_connecting:
            self.owner_task.cancel()

    async def close(self) -> None:
        """End, and wait for that: a little longer than a server has to go."""
        self.fail("the connection was closed")
        await asyncio.wait({self.owner_task}, timeout=self._limits.close + CLOSE_GRACE_SECONDS)

    async def _run(self, make_client: Callable[[Handlers], Any], handlers: Handlers) -> None:
        client = following = None
        try:
            await run_in_thread(_import_fastmcp)
            self._timer = self._loop.call_later(
                self._limits.connect, self._fail_on_timeout
            )  # the import is not the server's
            client = make_client(handlers)
            await client.__aenter__()
            # mcp runs Python's `re` over results, on the event loop: a pattern of the server's would stop the process
            client.session.validate_tool_result = _skip_validation
            self._client = client
            self._stop_timer()
            if not self.ready.done():  # pragma: no branch  # the time may be up at this very moment
                self.ready.set_result(True)
            following = asyncio.create_task(_watch_list_changes(client, self._on_list_changed))
            await self._stop.wait()
        except Exception as error:  # noqa: BLE001  # whatever it is, there is no connection
            self._cause = error
            self._mark_ended(
                _query_transport(client, "failure_reason")
                or errors.describe_connect_error(error, _query_transport(client, "error_status"))
            )
        finally:
            self._mark_ended("the connection was closed")
            if following is not None:
                following.cancel()
            await self._close_client(client)

    async def _close_client(self, client: Any) -> None:
        if client is None:
            return
        with contextlib.suppress(Exception):  # an exit that raises or hangs is nobody's business
            async with asyncio.timeout(self._limits.close + CLOSE_GRACE_SECONDS):
                await client.close()

    def _mark_ended(self, reason: str) -> None:
        self._is_retired = True
        self._stop_timer()
        if not self.end_reason.done():
            self.end_reason.set_result(reason)
        if not self.ready.done():
            self.ready.set_result(False)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _fail_on_timeout(self) -> None:
        self.fail(f"there was no connection within {self._limits.connect:g} s")

    def _handle_message(self, message: Any) -> None:
        if (reason := self._rate_guard.count_message()) is not None:
            self.fail(reason)
        elif getattr(message, "method", None) == TOOLS_LIST_CHANGED:
            self._on_list_changed()

    def _failure_reason(self) -> str | None:
        fault: str | None = _query_transport(self._client, "failure_reason")
        return fault

    def _error_status(self) -> int | None:
        status: int | None = _query_transport(self._client, "error_status")
        return status

    def _stray_lines_note(self) -> str:
        lines = _query_transport(self._client, "stray_lines") or 0
        return f" The server wrote {lines} lines that are no messages." if lines else ""


async def _watch_list_changes(client: Any, on_list_changed: Callable[[], None]) -> None:
    from ahvn_tools.mcp.client import subscriptions

    try:
        await subscriptions.watch_list_changes(client, on_list_changed)
    except Exception:  # news are a courtesy, and a server may send anything as such
        log.debug("A subscription to changes of tools has ended.", exc_info=True)


async def _skip_validation(_name: str, _result: Any) -> None:
    return None


def _import_fastmcp(_: object) -> None:
    """Import FastMCP, for about a second, in which the loop goes on."""
    from ahvn_tools.mcp.client import fastmcp_clients, subscriptions  # noqa: F401  # for the cost of it


def _query_transport(client: Any, what: str) -> Any:
    asked = getattr(getattr(client, "transport", None), what, None)
    return None if asked is None else asked()


def _abandon(request: asyncio.Future[Any]) -> None:
    """Cancel a request that nobody waits for any more: the server is told, and its task ends on its own."""
    if request.done():
        return
    request.cancel()
    _abandoned_requests.add(request)  # type: ignore[arg-type]
    request.add_done_callback(_discard)


def _discard(request: Any) -> None:
    _abandoned_requests.discard(request)
    if not request.cancelled():
        request.exception()


def _reset_after_fork() -> None:  # pragma: no cover  # runs in forked children
    _parent_sessions.extend(open_sessions)
    open_sessions.clear()


if hasattr(os, "register_at_fork"):  # pragma: no branch  # not on Windows
    os.register_at_fork(after_in_child=_reset_after_fork)
