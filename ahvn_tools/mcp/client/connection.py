"""A connection to one server. It reconnects after the server was lost."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import logging
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ahvn_tools.context import ProgressCallback
from ahvn_tools.errors import LimitExceededError
from ahvn_tools.execution import background_loop
from ahvn_tools.execution.runner import capture_outcome
from ahvn_tools.mcp.client import errors, server_process, session
from ahvn_tools.mcp.client.client_settings import ClientSettings
from ahvn_tools.mcp.client.errors import ConnectionLostError
from ahvn_tools.mcp.client.session import Session
from ahvn_tools.mcp.client.targets import Target

if TYPE_CHECKING:
    from mcp_types import CallToolResult, Tool

log = logging.getLogger(__name__)

MAX_EXIT_SECONDS = 5.0  # for closing all connections when the process exits

T = TypeVar("T")

ToolVerifier = Callable[..., Awaitable[None]]
"""Called as `verify_tool(name, is_new_connection=…)` before each call, and raises unless the tool is the accepted one.

`is_new_connection`: this is the first call over a connection, so the server may have been replaced.
"""


class Connection:
    """A connection to one server with one set of credentials, used on the background loop only.

    It connects with the first request. After the server was lost, the next request connects again with a new client.
    """

    def __init__(
        self,
        target: Target,
        settings: ClientSettings,
        *,
        verify_tool: ToolVerifier | None,
        on_list_changed: Callable[[], None],
    ) -> None:
        """`on_list_changed` is called when the server's tools may have changed, also after each reconnect."""
        self._target = target
        self._settings = settings
        self._limits = settings.limits
        self._verify_tool = verify_tool
        self.on_list_changed = on_list_changed
        self._session: Session | None = None
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        self._is_closed = False
        self._has_header_parameters = False

    async def tools(self) -> list[Tool]:
        """Return the server's tools from all pages. A malformed one is included as JSON, as it was sent.

        Raises ToolConnectionError, ToolTimeoutError, LimitExceededError, and ToolError for the server's own error.
        """
        what = f"Listing the tools of server {self._target.name!r}"
        return await self._send_request(self._fetch_tools, what, self._limits.listing, is_repeatable=True)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        timeout: float | None,
        on_progress: ProgressCallback | None,
        is_repeatable: bool,
        meta: dict[str, Any] | None = None,
    ) -> CallToolResult:
        """Call a tool and return the server's result, also an error result; nothing but credentials is changed in it.

        When the connection is lost during the call, the call is repeated once if it `is_repeatable`. Raises
        ToolConnectionError, ToolTimeoutError, ToolChangedError, InvalidResultError, and ToolError for the server's own
        error.
        """

        async def call_tool(current: Session) -> CallToolResult:
            await self._prepare_call(current, name)
            report = None if on_progress is None else functools.partial(_report_progress, on_progress)
            result: CallToolResult = await current.client.call_tool_mcp(
                name, dict(arguments), progress_handler=report, meta=meta
            )
            return result

        what = f"Tool {name!r} of server {self._target.name!r}"
        return await self._send_request(call_tool, what, timeout, is_repeatable=is_repeatable, tool=name)

    async def request(
        self, send: Callable[[Session], Awaitable[T]], what: str, *, timeout: float | None, tool: str | None
    ) -> T:
        """Return what the server answers to another request, which may be repeated. Raises as `call` does.

        `what` is for errors; `tool` is what reads it, and None for a listing.
        """
        what = f"{what} of server {self._target.name!r}"
        return await self._send_request(send, what, timeout, is_repeatable=True, tool=tool)

    async def aclose(self) -> None:
        """Close permanently, and wait until the server's process has ended."""
        self._is_closed = True
        loop = asyncio.get_running_loop()  # the other sessions of a forked child belong to its parent
        await asyncio.gather(*(one.close() for one in list(self._sessions) if one.loop is loop))

    async def _send_request(
        self,
        send: Callable[[Session], Awaitable[T]],
        what: str,
        timeout: float | None,
        *,
        is_repeatable: bool,
        tool: str | None = None,
    ) -> T:
        is_first = True
        while True:
            current = self._get_session()
            try:
                return await current.send_request(send, what, timeout, tool)
            except ConnectionLostError as error:
                if error.ends_session:
                    current.retire()
                elif tool is not None:  # a listing that is cut again and again would announce itself
                    current.is_verified = False  # the server may have been replaced
                    self.on_list_changed()
                if self._is_closed:
                    raise errors.to_closed_error(self._target.name, tool) from error
                if not (is_first and current.was_ready() and (is_repeatable or error.is_unsent)):
                    raise errors.to_connection_error(self._target.name, error.reason, tool) from error
            is_first = False

    def _get_session(self) -> Session:
        """Return a usable session. There is no `await` here, so that concurrent callers get the same one."""
        current = self._session
        if current is not None and current.loop is asyncio.get_running_loop():  # else a forked child has its parent's
            if current.is_usable():
                return current
            current.retire()
            if current.was_ready():
                self.on_list_changed()
        self._session = self._start_session()
        return self._session

    def _start_session(self) -> Session:
        """Return a new session. It holds no reference to the connection, so that an unused connection is collected."""
        reference = weakref.ref(self)

        def on_list_changed() -> None:
            if (connection := reference()) is not None:
                connection.on_list_changed()

        new = Session(self._target, self._settings, on_list_changed)
        self._sessions.add(new)
        return new

    def __del__(self) -> None:
        if self._session is not None:
            with contextlib.suppress(RuntimeError):
                self._session.loop.call_soon_threadsafe(self._session.retire)

    async def _fetch_tools(self, current: Session) -> list[Tool]:
        tools: list[Tool] = []
        cursors: list[str] = []
        while (page := await _fetch_page(current.client, cursors)) is not None:
            tools += [*page.tools, *current.status.malformed_tools]
            current.status.malformed_tools.clear()
            if (reason := self._find_listing_error(tools, cursors, page.next_cursor)) is not None:
                raise LimitExceededError(f"The list of tools of server {self._target.name!r} {reason}.")
            if page.next_cursor is None:
                break
            cursors.append(page.next_cursor)
        current.has_listed = True
        self._has_header_parameters = self._target.takes_headers and any(map(_has_header_parameters, tools))
        return tools

    async def _prepare_call(self, current: Session, name: str) -> None:
        """List the tools first where mcp needs that for arguments in headers, and verify the tool."""
        if self._has_header_parameters and not current.has_listed:
            async with current.listing_lock:  # one listing serves all concurrent calls
                if not current.has_listed:
                    await self._fetch_tools(current)
        if self._verify_tool is not None:
            await self._verify_tool(name, is_new_connection=not current.is_verified)
            current.is_verified = True

    def _find_listing_error(self, tools: list[Tool], cursors: list[str], cursor: str | None) -> str | None:
        if len(tools) > self._limits.tools:
            return f"has more than {self._limits.tools} tools"
        if cursor in cursors:
            return "repeats a page"
        return f"has more than {self._limits.pages} pages" if len(cursors) >= self._limits.pages else None


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
    loop = background_loop.get_loop()
    if background_loop.running_loop() is loop:
        asyncio.run_coroutine_threadsafe(close(), loop)
        return
    closing = background_loop.LoopCall(capture_outcome, close)
    closing.start()  # without `cancel`: after Ctrl-C the connections still close
    with contextlib.suppress(TimeoutError):
        closing.outcome(seconds).get()


@atexit.register
def _close_all() -> None:
    """Close every session, and kill the servers that are left after `MAX_EXIT_SECONDS`."""
    with server_process.killed_by_signals():
        try:
            if session.open_sessions:
                with contextlib.suppress(Exception):
                    run_close(_close_sessions, MAX_EXIT_SECONDS)
        finally:  # after Ctrl-C, too
            server_process.kill_all_groups()


async def _close_sessions() -> None:
    await asyncio.gather(*(one.close() for one in list(session.open_sessions)))
