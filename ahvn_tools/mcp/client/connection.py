"""A connection to one server that any thread and any event loop may use. It reconnects after the server was lost."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import logging
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from ahvn_tools.context import ProgressCallback
from ahvn_tools.errors import LimitExceededError, ToolConnectionError
from ahvn_tools.execution import background_loop
from ahvn_tools.mcp.client import errors, server_process, session
from ahvn_tools.mcp.client.errors import ConnectionLostError
from ahvn_tools.mcp.client.handlers import Handlers, ListenerList
from ahvn_tools.mcp.client.session import Session
from ahvn_tools.mcp.client.targets import NO_HEADERS, Target
from ahvn_tools.mcp.trust.limits import Limits

if TYPE_CHECKING:
    from mcp_types import CallToolResult, Tool

log = logging.getLogger(__name__)

MAX_EXIT_SECONDS = 5.0  # for closing all connections when the process exits
DEBOUNCE_SECONDS = 0.05  # between a change and the call of the listeners, so that a series of changes is one call


ToolVerifier = Callable[..., Awaitable[None]]
"""Called as `verify_tool(name, is_new_connection=…)` before each call, and raises unless the tool is the accepted one.

`is_new_connection`: this is the first call over a connection, so the server may have been replaced.
"""


class Connection:
    """A connection to one server with one set of credentials.

    It connects with the first request. After the server was lost, the next request connects again with a new client.
    """

    def __init__(
        self,
        target: Target,
        *,
        limits: Limits | None = None,
        handlers: Handlers | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        verify_tool: ToolVerifier | None = None,
        listeners: ListenerList | None = None,
    ) -> None:
        """`listeners` are called as those of `on_list_changed`; several connections may share them."""
        self.target = target
        self.limits = limits or Limits()
        self._handlers = handlers or Handlers()
        self._headers = dict(headers)
        self._verify_tool = verify_tool
        self._listeners = ListenerList() if listeners is None else listeners
        self._listing_lock = asyncio.Lock()
        self._session: Session | None = None
        self._sessions: set[Session] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self._has_header_parameters = False
        self._listed_session: Session | None = None
        self._verified_session: Session | None = None
        self._changed_at = 0.0
        self._notify_timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Connection {self.target.name!r}>"

    async def tools(self) -> list[Tool]:
        """Return the server's tools from all pages. A malformed one is included as JSON, as it was sent.

        Raises ToolConnectionError, ToolTimeoutError, LimitExceededError, and ToolError for the server's own error.
        """
        what = f"Listing the tools of server {self.target.name!r}"
        tools: list[Tool] = await self._send_request(
            self._fetch_tools, what=what, timeout=self.limits.listing, is_repeatable=True
        )
        return tools

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        timeout: float | None = None,
        on_progress: ProgressCallback | None = None,
        is_repeatable: bool = False,
    ) -> CallToolResult:
        """Call a tool and return the server's result unchanged, also an error result.

        When the connection is lost during the call, the call is repeated once if it `is_repeatable`. Raises
        ToolConnectionError, ToolTimeoutError, ToolChangedError, InvalidResultError, and ToolError for the server's own
        error.
        """

        async def call_tool(current: Session) -> Any:
            await self._prepare_call(current, name)
            report = None if on_progress is None else functools.partial(_report_progress, on_progress)
            return await current.client.call_tool_mcp(name, dict(arguments), progress_handler=report)

        what = f"Tool {name!r} of server {self.target.name!r}"
        result: CallToolResult = await self._send_request(
            call_tool, what=what, timeout=timeout, is_repeatable=is_repeatable, tool=name
        )
        return result

    def on_list_changed(self, listener: Callable[[float], None]) -> Callable[[], None]:
        """Call `listener` when the server's tools may have changed. Return a function that removes it.

        It is called on the background loop, which it must not block, with the time of the last change by the loop's
        clock: once for a series of changes, and after each reconnect.
        """
        return self._listeners.add(listener)

    def was_used(self) -> bool:
        """Return whether a request was ever sent."""
        return self._loop is not None

    async def aclose(self) -> None:
        """Close permanently, and wait until the server's process has ended."""
        self._is_closed = True
        if self._loop is not None:
            await background_loop.arun(self._close)

    def close(self) -> None:
        """Close permanently; on the background loop, without waiting for it."""
        self._is_closed = True
        if self._loop is not None and self._loop is background_loop.get_loop():
            run_close(self._close, self.limits.close + 2)

    async def _send_request(self, send: session.SendRequest, **options: Any) -> Any:
        return await background_loop.arun(functools.partial(self._send_with_retry, send, **options))

    async def _send_with_retry(
        self,
        send: session.SendRequest,
        *,
        what: str,
        timeout: float | None,
        is_repeatable: bool,
        tool: str | None = None,
    ) -> Any:
        is_first = True
        while True:
            current = self._get_session(tool)
            try:
                return await current.send_request(send, timeout=timeout, what=what, tool=tool)
            except ConnectionLostError as error:
                current.retire()
                if self._is_closed:
                    raise self._closed_error(tool) from error
                if not (is_first and current.was_ready() and (is_repeatable or error.is_unsent)):
                    raise errors.to_connection_error(self.target.name, error.reason, tool) from error
            is_first = False

    def _closed_error(self, tool: str | None) -> ToolConnectionError:
        return ToolConnectionError(f"The connection to server {self.target.name!r} was closed.", tool=tool)

    def _get_session(self, tool: str | None) -> Session:
        """Return a usable session. There is no `await` here, so that concurrent callers get the same one."""
        if self._is_closed:
            raise self._closed_error(tool)
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # the session and the timer of a forked child belong to its parent
            self._loop, self._session, self._notify_timer = loop, None, None
        if self._session is not None:
            if self._session.is_usable():
                return self._session
            self._session.retire()
            if self._session.was_ready():
                self._schedule_notify()
        self._session = self._start_session()
        return self._session

    def _start_session(self) -> Session:
        """Return a new session. It holds no reference to the connection, so that an unused connection is collected."""
        make_client, headers, limits = self.target.make_client, self._headers, self.limits
        get_schedule_notify = weakref.WeakMethod(self._schedule_notify)

        def on_list_changed() -> None:
            if (schedule_notify := get_schedule_notify()) is not None:
                schedule_notify()

        self._listing_lock = asyncio.Lock()  # in a forked child the old one may be held forever
        new = Session(lambda handlers: make_client(handlers, headers, limits), self._handlers, limits, on_list_changed)
        self._sessions.add(new)
        new.owner_task.add_done_callback(lambda _, sessions=self._sessions: sessions.discard(new))  # type: ignore[misc]
        return new

    def __del__(self) -> None:
        if self._session is not None and self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._session.retire)

    async def _fetch_tools(self, current: Session) -> list[Tool]:
        tools: list[Tool] = []
        cursors: list[str] = []
        while (page := await _fetch_page(current.client, cursors)) is not None:
            tools += [*page.tools, *current.status.malformed_tools]
            current.status.malformed_tools.clear()
            if (reason := self._find_listing_error(tools, cursors, page.next_cursor)) is not None:
                raise LimitExceededError(f"The list of tools of server {self.target.name!r} {reason}.")
            if page.next_cursor is None:
                break
            cursors.append(page.next_cursor)
        self._listed_session = current
        self._has_header_parameters = self.target.takes_headers and any(map(_has_header_parameters, tools))
        return tools

    async def _prepare_call(self, current: Session, name: str) -> None:
        """List the tools first where mcp needs that for arguments in headers, and verify the tool."""
        if self._has_header_parameters and self._listed_session is not current:
            async with self._listing_lock:  # one listing serves all concurrent calls
                if self._listed_session is not current:
                    await self._fetch_tools(current)
        if self._verify_tool is not None:
            await self._verify_tool(name, is_new_connection=self._verified_session is not current)
            self._verified_session = current

    def _find_listing_error(self, tools: list[Tool], cursors: list[str], cursor: str | None) -> str | None:
        if len(tools) > self.limits.tools:
            return f"has more than {self.limits.tools} tools"
        if cursor in cursors:
            return "repeats a page"
        return f"has more than {self.limits.pages} pages" if len(cursors) >= self.limits.pages else None

    def _schedule_notify(self) -> None:
        loop = asyncio.get_running_loop()
        self._changed_at = loop.time()
        if self._notify_timer is None:
            self._notify_timer = loop.call_later(DEBOUNCE_SECONDS, self._notify)

    def _notify(self) -> None:
        self._notify_timer = None
        for listener in self._listeners:
            try:
                listener(self._changed_at)
            except Exception:
                log.exception("A listener to changes of server %r raised.", self.target.name)

    async def _close(self) -> None:
        loop = asyncio.get_running_loop()  # the other sessions of a forked child belong to its parent
        await asyncio.gather(*(one.close() for one in list(self._sessions) if one.owner_task.get_loop() is loop))


async def _report_progress(
    on_progress: ProgressCallback, progress: float, total: float | None, message: str | None
) -> None:
    try:
        on_progress(progress, total, message)
    except Exception:
        log.exception("A progress callback raised.")


async def _fetch_page(client: Any, cursors: list[str]) -> Any:
    """Return a page of tools; None for a server without tools, which does not know the method."""
    try:
        return await client.list_tools_mcp(cursor=cursors[-1] if cursors else None)
    except Exception as error:
        if getattr(error, "code", None) == errors.METHOD_NOT_FOUND and not cursors:
            return None
        raise


def _has_header_parameters(tool: Any) -> bool:
    """Return whether a tool takes arguments in HTTP headers, which mcp sends in sessions that have listed the tool."""
    from mcp.shared.inbound import x_mcp_header_map

    return hasattr(tool, "input_schema") and bool(x_mcp_header_map(tool.input_schema))


def run_close(close: Callable[[], Coroutine[Any, Any, None]], seconds: float) -> None:
    """Run `close` on the background loop and wait at most `seconds`; on that loop itself, do not wait."""
    closing = asyncio.run_coroutine_threadsafe(close(), background_loop.get_loop())
    if background_loop.running_loop() is not background_loop.get_loop():
        with contextlib.suppress(TimeoutError):
            closing.result(seconds)


@atexit.register
def _close_all() -> None:
    """Close every session, and kill the servers that are left after `MAX_EXIT_SECONDS`."""
    if session.open_sessions:
        with contextlib.suppress(Exception):
            run_close(_close_sessions, MAX_EXIT_SECONDS)
    server_process.kill_all_groups()


async def _close_sessions() -> None:
    await asyncio.gather(*(one.close() for one in list(session.open_sessions)))
