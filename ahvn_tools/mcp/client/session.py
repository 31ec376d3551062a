"""One client from its first message to its last. A single task enters and exits it, on the loop that started it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

from ahvn_tools.after_fork import reset_after_fork
from ahvn_tools.errors import ToolTimeoutError
from ahvn_tools.execution.threads import run_in_thread
from ahvn_tools.log_redaction import add_log_filter, hide_logged_data
from ahvn_tools.mcp.client import errors
from ahvn_tools.mcp.client.caller import CallerRequests, current_caller, running_call
from ahvn_tools.mcp.client.client_settings import ClientSettings, ConnectionStatus, wrap_handler
from ahvn_tools.mcp.client.errors import ConnectionLostError
from ahvn_tools.mcp.client.refresh import watch_list_changes
from ahvn_tools.mcp.client.targets import Target
from ahvn_tools.mcp.trust.limits import RateGuard

CLOSE_GRACE_SECONDS = 1.5  # for closing a client, in addition to the seconds that the server has to exit
TOOLS_LIST_CHANGED = "notifications/tools/list_changed"
PROMPTS_LIST_CHANGED = "notifications/prompts/list_changed"

T = TypeVar("T")

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

    def __init__(self, target: Target, settings: ClientSettings, on_list_changed: Callable[[], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self._limits = settings.limits
        self._on_list_changed = on_list_changed
        self._on_prompts_changed = settings.on_prompts_changed
        self._user_count = 0
        self._is_retired = False
        self._started = asyncio.Event()  # set when the client has connected, or cannot connect
        self._stop = asyncio.Event()
        self._rate_guard = RateGuard(self._limits.notifications)
        self._cause: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.client: Any = None
        """The FastMCP client, once it has connected."""
        self.status = ConnectionStatus()
        self.has_listed = False
        """Whether the tools were listed over this session."""
        self.listing_lock = asyncio.Lock()
        self.is_verified = False
        """Whether a tool was verified since the client has connected."""
        self.end_reason: asyncio.Future[str] = self.loop.create_future()
        """Why the connection has ended."""
        secrets = target.secrets.copy()
        for name, value in settings.headers.items():
            secrets.add_header(name, value)
        self._mask = functools.partial(secrets.mask, is_error=True)
        self._caller_requests = CallerRequests(target.name, settings.limits, settings.get_roots)
        own = replace(
            settings,
            secrets=secrets,
            answer_elicitation=self._caller_requests.elicit,
            on_log=self._caller_requests.log,
            list_roots=self._caller_requests.list_roots,
            answer_sampling=self._caller_requests.sample if settings.samples_from_client else None,
            elicitation=wrap_handler(settings.elicitation),
            sampling=wrap_handler(settings.sampling),
            on_message=self._handle_message,
            on_connection_lost=self.fail,
            status=self.status,
            server_name=target.name,
        )
        self.owner_task = asyncio.create_task(self._run(target, own))
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
        return self.client is not None

    async def send_request(
        self, send: Callable[[Session], Awaitable[T]], what: str, timeout: float | None, tool: str | None
    ) -> T:
        """Return the result of `send`, which uses the client, and wait at most `timeout` seconds for it.

        Raises ConnectionLostError, ToolTimeoutError, and the error that the server's answer means.
        """
        self._user_count += 1
        try:
            await self._started.wait()
            if not self.was_ready():
                cause = errors.find_shown_cause(self._cause, self._mask)
                raise ConnectionLostError(self.end_reason.result()) from cause
            request = asyncio.ensure_future(self._send(send, is_call=tool is not None))
            awaited: set[asyncio.Future[Any]] = {request, self.end_reason}
            try:
                await asyncio.wait(awaited, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                return self._get_result(request, what, timeout, tool)
            finally:
                _abandon(request)
        finally:
            self._user_count -= 1
            self._stop_if_unused()

    async def _send(self, send: Callable[[Session], Awaitable[T]], *, is_call: bool) -> T:
        hide_logged_data(self._mask)
        with self._caller_requests.track() if is_call else contextlib.nullcontext():  # a call may list the tools
            return await send(self)

    def _get_result(self, request: asyncio.Future[T], what: str, timeout: float | None, tool: str | None) -> T:
        if not request.done():
            if self.end_reason.done():
                raise ConnectionLostError(self.end_reason.result())
            lines = self.status.stray_lines
            note = f" The server wrote {lines} lines that are not messages." if lines else ""
            raise ToolTimeoutError(f"{what} took longer than {timeout:g} s.{note}", tool=tool, timeout=timeout)
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
        raise error from errors.find_shown_cause(cause, self._mask)

    def retire(self) -> None:
        """Accept no new requests, and end after the last pending one."""
        self._is_retired = True
        self._stop_if_unused()

    def _stop_if_unused(self) -> None:
        if self._is_retired and not self._user_count:
            self._stop.set()

    def fail(self, reason: str) -> None:
        """End now. Pending requests raise ConnectionLostError with the reason."""
        is_connecting = not self._started.is_set()
        self._mark_ended(reason)
        self._stop.set()
        if is_connecting:
            self.owner_task.cancel()

    async def close(self) -> None:
        """End, and wait slightly longer than the server may take to exit."""
        self.fail("the connection was closed")
        await asyncio.wait({self.owner_task}, timeout=self._limits.close + CLOSE_GRACE_SECONDS)

    async def _run(self, target: Target, settings: ClientSettings) -> None:
        client = watch_task = None
        running_call.set(None)  # the connection is not for the call that has opened it alone
        current_caller.set(None)
        try:
            await run_in_thread(_import_tasks if settings.tasks else _import_fastmcp)
            # after the import, whose time is not the server's
            reason = f"there was no connection within {self._limits.connect:g} s"
            self._timer = self.loop.call_later(self._limits.connect, self.fail, reason)
            client = target.make_client(settings)
            hide_logged_data(self._mask)
            add_log_filter()  # the modules of the client, which it may have imported, have made their loggers
            await client.__aenter__()
            self.status.is_ready = True
            # mcp would run the server's regular expressions with `re` on the event loop, which could block it forever
            client.session.validate_tool_result = _skip_validation
            self._timer.cancel()
            if not self.end_reason.done():  # pragma: no branch  # the time may be up at this very moment
                self.client = client
                settings.on_connected(client.instructions)
                self._started.set()
            watching = watch_list_changes(client, self._on_list_changed, self._on_prompts_changed, self.retire)
            watch_task = asyncio.create_task(watching)
            await self._stop.wait()
        except Exception as error:  # noqa: BLE001  # whatever it is, there is no connection
            self._cause = error
            failure = self.status.find_failure()
            reason = failure or errors.describe_connect_error(error, self.status.error_status)
            self._mark_ended(self._mask(reason))
        finally:
            self._mark_ended("the connection was closed")
            if watch_task is not None:
                watch_task.cancel()
            if client is not None:
                await self._close_client(client)

    async def _close_client(self, client: Any) -> None:
        with contextlib.suppress(Exception):  # an exit that raises or hangs harms no other connection
            async with asyncio.timeout(self._limits.close + CLOSE_GRACE_SECONDS):
                await client.close()

    def _mark_ended(self, reason: str) -> None:
        self._is_retired = True
        if self._timer is not None:
            self._timer.cancel()
        if not self.end_reason.done():
            self.end_reason.set_result(reason)
        self._started.set()

    def _handle_message(self, message: Any) -> None:
        if (reason := self._rate_guard.count_message()) is not None:
            self.fail(reason)
        elif getattr(message, "method", None) == TOOLS_LIST_CHANGED:
            self._on_list_changed()
        elif getattr(message, "method", None) == PROMPTS_LIST_CHANGED:
            self._on_prompts_changed()


async def _skip_validation(_name: str, _result: Any) -> None:
    return None


def _import_fastmcp(_: object) -> None:
    """Import FastMCP, which takes about a second, so in a thread."""
    from ahvn_tools.mcp.client import fastmcp_clients  # noqa: F401  # for the cost of it


def _import_tasks(_: object) -> None:
    from ahvn_tools.mcp.client import fastmcp_clients, tasks  # noqa: F401  # as above


def _abandon(request: asyncio.Future[Any]) -> None:
    """Cancel a request whose result is not needed any more. Its task sends the server a cancellation and then ends."""
    if not request.done():
        request.cancel()
        _abandoned_requests.add(request)
        request.add_done_callback(_discard)


def _discard(request: asyncio.Future[Any]) -> None:
    _abandoned_requests.discard(request)
    if not request.cancelled():
        request.exception()  # else asyncio would log it as never retrieved
