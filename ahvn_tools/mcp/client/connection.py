"""A connection to one server: any thread and any loop may use it, and it comes back when the server does."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import logging
import weakref
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ahvn_tools.errors import LimitExceededError, ToolConnectionError
from ahvn_tools.execution import background_loop
from ahvn_tools.mcp.client import errors, server_process, session
from ahvn_tools.mcp.client.errors import ConnectionLostError
from ahvn_tools.mcp.client.handlers import Handlers
from ahvn_tools.mcp.client.session import Session
from ahvn_tools.mcp.client.targets import NO_HEADERS, Target
from ahvn_tools.mcp.trust.limits import Limits

if TYPE_CHECKING:
    from mcp_types import CallToolResult, Tool

log = logging.getLogger(__name__)

MAX_EXIT_SECONDS = 5.0
"""Seconds that all connections together may take when the process ends."""

DEBOUNCE_SECONDS = 0.05
"""Seconds to wait after a change, so that a row of them is told once."""

METHOD_NOT_FOUND = -32601
"""What a server answers to what it does not know."""

ProgressCallback = Callable[[float, float | None, str | None], None]


class ToolVerifier(Protocol):
    """Makes sure that a tool is still what it was; raises what its caller is told where it is not."""

    def __call__(self, name: str, *, is_new_connection: bool) -> Awaitable[None]:
        """`is_fresh`: nothing was called yet over this connection, so the server may be another one by now."""


class Connection:
    """The way to one server with one set of credentials.

    Nothing is connected before the first request. A server that has gone is connected to again, by a fresh client, when
    the next request comes.
    """

    def __init__(
        self,
        target: Target,
        *,
        limits: Limits | None = None,
        handlers: Handlers | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        verify_tool: ToolVerifier | None = None,
    ) -> None:
        """Take the server. `confirm` is awaited before each call of a tool."""
        self.target = target
        self.limits = limits or Limits()
        self._handlers = handlers or Handlers()
        self._headers = dict(headers)
        self._verify_tool = verify_tool
        self._listing_lock = asyncio.Lock()
        self._session: Session | None = None
        self._sessions: set[Session] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self._has_header_parameters = False
        self._get_listed_client: Callable[[], Any] = lambda: None
        self._get_verified_client: Callable[[], Any] = lambda: None
        self._callbacks: list[Callable[[], None]] = []
        self._notify_timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Connection {self.target.name!r}>"

    async def tools(self) -> list[Tool]:
        """Return the server's tools as they came, from all pages; what is no tool is among them, as JSON.

        Raises ToolConnectionError, ToolTimeoutError, LimitExceededError, and ToolError for the server's own error.
        """
        what = f"Listing the tools of server {self.target.name!r}"

        async def listed() -> list[Tool]:
            tools: list[Tool] = await self._send_request(
                self._fetch_tools, timeout=self.limits.listing, what=what, is_repeatable=True
            )
            return tools

        return await background_loop.arun(listed)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        timeout: float | None = None,
        on_progress: ProgressCallback | None = None,
        is_repeatable: bool = False,
        meta: Mapping[str, Any] | None = None,
    ) -> CallToolResult:
        """Call a tool and return the server's result as it came, an error result too.

        A call that was under way when the server went is made once more only if it is said to be repeatable. Raises
        ToolConnectionError, ToolTimeoutError, ToolChangedError, InvalidResultError, and ToolError for the server's own
        error.
        """

        async def ask(client: Any) -> Any:
            await self._prepare_call(client, name)
            return await client.call_tool_mcp(
                name,
                dict(arguments),
                progress_handler=None if on_progress is None else functools.partial(_report_progress, on_progress),
                meta=None if meta is None else dict(meta),
            )

        what = f"Tool {name!r} of server {self.target.name!r}"

        async def called() -> CallToolResult:
            result: CallToolResult = await self._send_request(
                ask, timeout=timeout, what=what, is_repeatable=is_repeatable, tool=name
            )
            return result

        return await background_loop.arun(called)

    def on_list_changed(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when the server's tools may have changed; return what ends that.

        It is called on the background loop, where it must not block; once for a row of changes, and after a connection
        had to be made again.
        """
        self._callbacks.append(callback)

        def undo() -> None:
            with contextlib.suppress(ValueError):
                self._callbacks.remove(callback)

        return undo

    def was_used(self) -> bool:
        """Say whether anything was ever asked of it."""
        return self._loop is not None

    async def aclose(self) -> None:
        """Close for good, and wait until the server's process has gone."""
        self._is_closed = True
        if self._loop is not None:
            await background_loop.arun(self._close)

    def close(self) -> None:
        """Close for good, from a thread without a loop. On the background loop it is begun, and not waited for."""
        self._is_closed = True
        if self._loop is None or self._loop is not background_loop.get_loop():
            return
        closing = asyncio.run_coroutine_threadsafe(self._close(), self._loop)
        if background_loop.running_loop() is not self._loop:
            with contextlib.suppress(TimeoutError):
                closing.result(self.limits.close + 2)

    async def _send_request(
        self,
        send: session.SendRequest,
        *,
        timeout: float | None,
        what: str,
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
        """Return a session that can be used: there is no `await` here, so that all callers get the same one."""
        if self._is_closed:
            raise self._closed_error(tool)
        loop = asyncio.get_running_loop()
        if self._session is not None and self._loop is loop:
            if self._session.is_usable():
                return self._session
            self._session.retire()
            if self._session.was_ready():
                self._schedule_notify()
        if self._loop is not loop:
            self._notify_timer = None  # in a forked child it is its parent's
        self._loop = loop
        self._session = self._start_session()
        return self._session

    def _start_session(self) -> Session:
        """Return a new session; it does not hold the connection, so that one that is forgotten ends."""
        make, headers, limits = self.target.make_client, self._headers, self.limits
        changed = weakref.WeakMethod(self._schedule_notify)

        def tell() -> None:
            if (told := changed()) is not None:
                told()

        self._listing_lock = asyncio.Lock()  # in a forked child the old one may be held for ever
        made = Session(lambda handlers: make(handlers, headers, limits), self._handlers, limits, tell)
        self._sessions.add(made)
        made.owner_task.add_done_callback(lambda _, sessions=self._sessions: sessions.discard(made))  # type: ignore[misc]
        return made

    def __del__(self) -> None:
        if self._session is not None and self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._session.retire)

    async def _fetch_tools(self, client: Any) -> list[Tool]:
        tools: list[Tool] = []
        cursors: list[str] = []
        while True:
            page = await _fetch_page(client, cursors)
            if page is None:
                break
            tools += [*page.tools, *_take_malformed(client)]
            if (reason := self._find_listing_error(tools, cursors, page.next_cursor)) is not None:
                raise LimitExceededError(f"The list of tools of server {self.target.name!r} {reason}.")
            if page.next_cursor is None:
                break
            cursors.append(page.next_cursor)
        self._get_listed_client = weakref.ref(client)
        self._has_header_parameters = self.target.takes_headers and _any_header_parameters(tools)
        return tools

    async def _prepare_call(self, client: Any, name: str) -> None:
        """Do what a call over this client needs before it. Raises what `confirm` does."""
        if self._has_header_parameters and self._get_listed_client() is not client:
            async with self._listing_lock:  # many calls want it at once, and one list is enough for all
                if self._get_listed_client() is not client:
                    await self._fetch_tools(client)
        if self._verify_tool is not None:
            await self._verify_tool(name, is_new_connection=self._get_verified_client() is not client)
            self._get_verified_client = weakref.ref(client)

    def _find_listing_error(self, tools: list[Tool], cursors: list[str], cursor: str | None) -> str | None:
        if len(tools) > self.limits.tools:
            return f"has more than {self.limits.tools} tools"
        if cursor in cursors:
            return "comes to the same page again"
        return f"has more than {self.limits.pages} pages" if len(cursors) >= self.limits.pages else None

    def _schedule_notify(self) -> None:
        if self._notify_timer is None:
            self._notify_timer = asyncio.get_running_loop().call_later(DEBOUNCE_SECONDS, self._notify)

    def _notify(self) -> None:
        self._notify_timer = None
        for callback in list(self._callbacks):
            try:
                callback()
            except Exception:
                log.exception("What is told of changes at server %r raised.", self.target.name)

    async def _close(self) -> None:
        here = asyncio.get_running_loop()  # a forked child's; the others are its parent's
        await asyncio.gather(*(one.close() for one in list(self._sessions) if one.owner_task.get_loop() is here))


async def _report_progress(
    on_progress: ProgressCallback, done: float, total: float | None, message: str | None
) -> None:
    try:
        on_progress(done, total, message)
    except Exception:
        log.exception("What is told of progress raised.")


async def _fetch_page(client: Any, cursors: list[str]) -> Any:
    """Return a page of tools; None from a server that has none, and so does not know what is asked."""
    try:
        return await client.list_tools_mcp(cursor=cursors[-1] if cursors else None)
    except Exception as error:
        if getattr(error, "code", None) == METHOD_NOT_FOUND and not cursors:
            return None
        raise


def _take_malformed(client: Any) -> list[Any]:
    """Return what the page held besides tools, for whoever tells what is refused."""
    found = getattr(getattr(client, "transport", None), "take_malformed", None)
    return [] if found is None else found()


def _any_header_parameters(tools: list[Tool]) -> bool:
    from ahvn_tools.mcp.client import subscriptions

    return any(subscriptions.has_header_parameters(tool) for tool in tools if hasattr(tool, "input_schema"))


def _close_all() -> None:
    """Close every session, and kill the servers that are left after `LONGEST_EXIT` seconds."""
    if session.open_sessions:
        closing = asyncio.run_coroutine_threadsafe(_close_sessions(), background_loop.get_loop())
        with contextlib.suppress(TimeoutError, Exception):
            closing.result(MAX_EXIT_SECONDS)
    server_process.kill_all_groups()


async def _close_sessions() -> None:
    await asyncio.gather(*(one.close() for one in list(session.open_sessions)))


atexit.register(_close_all)
