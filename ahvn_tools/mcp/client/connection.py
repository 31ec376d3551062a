"""Connections to one server: sessions that are replaced when the server is lost, one connection for each user."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import copy
import functools
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ahvn_tools.after_fork import reset_after_fork
from ahvn_tools.context import ProgressCallback
from ahvn_tools.errors import LimitExceededError, ToolConnectionError, ToolTimeoutError
from ahvn_tools.execution import background_loop
from ahvn_tools.execution.runner import capture_outcome
from ahvn_tools.execution.threads import run_in_thread
from ahvn_tools.mcp.client import errors, server_process
from ahvn_tools.mcp.client.caller import CallerRequests, current_caller, running_call
from ahvn_tools.mcp.client.client_settings import ClientSettings, ConnectionStatus, wrap_handler
from ahvn_tools.mcp.client.errors import ConnectionLostError
from ahvn_tools.mcp.client.refresh import watch_list_changes
from ahvn_tools.mcp.client.targets import Target
from ahvn_tools.mcp.trust.limits import Limits, RateGuard
from ahvn_tools.redaction.logs import add_log_filter, hide_logged_data

if TYPE_CHECKING:  # slow
    from mcp_types import CallToolResult, Tool

log = logging.getLogger(__name__)

CLOSE_GRACE_SECONDS = 1.5  # for closing a client, in addition to the seconds that the server has to exit
MAX_EXIT_SECONDS = 5.0  # for closing all connections when the process exits
MAX_CONNECTIONS = 32  # connections with headers at a time
IDLE_SECONDS = 300.0  # after which an unused connection with headers is closed
TOOLS_LIST_CHANGED = "notifications/tools/list_changed"
PROMPTS_LIST_CHANGED = "notifications/prompts/list_changed"

T = TypeVar("T")

ToolVerifier = Callable[..., Awaitable[None]]
"""Called as `verify_tool(name, is_new_connection=…)` before each call, and raises unless the tool is the accepted one.

`is_new_connection`: this is the first call over a connection, so the server may have been replaced.
"""

HeadersKey = tuple[tuple[str, str], ...]  # sorted, with lowercase names

open_sessions: set[Session] = set()
"""Every session that has not ended; a task without a reference would be garbage collected."""
reset_after_fork(open_sessions.clear)  # the sessions belong to the parent process

_abandoned_requests: set[asyncio.Future[Any]] = set()
"""Cancelled requests that have not ended yet."""


class Session:
    """One client from its first message to its last, the task that owns it, and the number of requests that use it."""

    def __init__(self, target: Target, settings: ClientSettings, on_list_changed: Callable[[], None]) -> None:
        """Connect, on the loop that runs now."""
        self._loop = asyncio.get_running_loop()
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
        self.end_reason: asyncio.Future[str] = self._loop.create_future()
        """Why the connection has ended."""
        secrets = copy.copy(target.secrets)
        for name, value in settings.headers.items():
            secrets.add_header(name, value)
        self._mask = functools.partial(secrets.mask, is_error=True)
        self._caller_requests = CallerRequests(target.name, settings.limits, settings.get_roots)
        own = replace(
            settings,
            secrets=secrets,
            requests=self._caller_requests,
            elicitation=wrap_handler(settings.elicitation),
            sampling=wrap_handler(settings.sampling),
            on_message=self._handle_message,
            on_connection_lost=self.fail,
            status=self.status,
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

    async def send_request(
        self, send: Callable[[Session], Awaitable[T]], what: str, timeout: float | None, tool: str | None
    ) -> T:
        """Return the result of `send`, which uses the client, and wait at most `timeout` seconds for it.

        Raises ConnectionLostError, ToolTimeoutError, and the error that the server's answer means.
        """
        self._user_count += 1
        try:
            await self._started.wait()
            if self.client is None:
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
        """Enter and exit the client, in one task."""
        client = watch_task = None
        running_call.set(None)  # the connection is not for the call that has opened it alone
        current_caller.set(None)
        try:
            await run_in_thread(functools.partial(_import_fastmcp, has_tasks=settings.tasks))
            # after the import, whose time is not the server's
            reason = f"there was no connection within {self._limits.connect:g} s"
            self._timer = self._loop.call_later(self._limits.connect, self.fail, reason)
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


def _import_fastmcp(_: object, *, has_tasks: bool) -> None:
    """Import FastMCP, which takes about a second, so in a thread."""
    from ahvn_tools.mcp.client import fastmcp_clients  # noqa: F401  # for the cost of it

    if has_tasks:
        from ahvn_tools.mcp.client import tasks  # noqa: F401  # as above


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
        self._on_list_changed = on_list_changed
        self._session: Session | None = None
        self._sessions: set[Session] = set()
        self._is_closed = False
        self._has_header_parameters = False
        self.user_count = 0
        self.idle_timer: asyncio.TimerHandle | None = None

    async def tools(self) -> list[Tool]:
        """Return the server's tools from all pages. A malformed one is included as JSON, as it was sent.

        Raises ToolConnectionError, ToolTimeoutError, LimitExceededError, and ToolError for the server's own error.
        """
        return await self.request(self._fetch_tools, "Listing the tools", timeout=self._limits.listing)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        timeout: float | None = None,
        on_progress: ProgressCallback | None = None,
        is_repeatable: bool = False,
        meta: dict[str, Any] | None = None,
    ) -> CallToolResult:
        """Call a tool and return the server's result, also an error result; nothing but credentials is changed in it.

        When the connection is lost during the call, the call is repeated once if it `is_repeatable`. Raises
        ToolConnectionError, ToolTimeoutError, ToolChangedError, InvalidResultError, and ToolError for the server's own
        error.
        """
        call = running_call.get()
        note_unstarted = (lambda _: None) if call is None else call.context._links.note_unstarted  # noqa: SLF001  # of this package
        note_unstarted(f"its MCP server {self._target.name!r} was not ready, so the tool did not run")

        async def call_tool(current: Session) -> CallToolResult:
            await self._prepare_call(current, name)
            note_unstarted(None)
            result: CallToolResult = await current.client.call_tool_mcp(
                name, dict(arguments), progress_handler=None if on_progress is None else report, meta=meta
            )
            return result

        async def report(progress: float, total: float | None, message: str | None) -> None:
            if on_progress is not None:
                on_progress(progress, total, message)

        return await self.request(call_tool, f"Tool {name!r}", timeout=timeout, tool=name, is_repeatable=is_repeatable)

    async def request(
        self,
        send: Callable[[Session], Awaitable[T]],
        what: str,
        *,
        timeout: float | None = None,
        tool: str | None = None,
        is_repeatable: bool = True,
    ) -> T:
        """Return what the server answers to `send`. Raises as `call` does.

        `what` is for errors; `tool` is what reads it, and None for a listing.
        """
        what, is_first = f"{what} of server {self._target.name!r}", True
        while True:
            current = self._get_session()
            try:
                return await current.send_request(send, what, timeout, tool)
            except ConnectionLostError as error:
                if error.ends_session:
                    current.retire()
                elif tool is not None:  # a listing that is cut again and again would announce itself
                    current.is_verified = False  # the server may have been replaced
                    self._on_list_changed()
                if self._is_closed:
                    raise errors.to_closed_error(self._target.name, tool) from error
                is_sent = current.client is not None and not error.is_unsent
                may_have_run = tool is not None and is_sent and error.reason != errors.SERVER_UNREACHABLE
                if not (is_first and current.client is not None and (is_repeatable or error.is_unsent)):
                    raise errors.to_connection_error(
                        self._target.name, error.reason, tool, may_have_run=may_have_run
                    ) from error
            is_first = False

    @property
    def is_open(self) -> bool:
        """Whether there is a connection now. From any thread."""
        current = self._session
        if current is None or current.client is None or current.end_reason.done():
            return False
        return bool(current.client.is_connected())

    async def aclose(self) -> None:
        """Close permanently, and wait until the server's process has ended."""
        self._is_closed = True
        await asyncio.gather(*(one.close() for one in list(self._sessions)))

    def _get_session(self) -> Session:
        """Return a usable session. There is no `await` here, so that concurrent callers get the same one."""
        current = self._session
        if current is not None:
            if current.is_usable():
                return current
            current.retire()
            if current.client is not None:
                self._on_list_changed()
        self._session = new = Session(self._target, self._settings, self._on_list_changed)
        self._sessions.add(new)
        new.owner_task.add_done_callback(lambda _: self._sessions.discard(new))
        return new

    async def _fetch_tools(self, current: Session) -> list[Tool]:
        def take_tools(page: Any) -> list[Tool]:
            malformed, current.status.malformed_tools[:] = current.status.malformed_tools[:], ()
            return [*page.tools, *malformed]

        tools = await list_pages(current.client.list_tools_mcp, take_tools, self._limits, "tools", self._target.name)
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


async def list_pages(
    fetch: Callable[..., Awaitable[Any]], take: Callable[[Any], list[T]], limits: Limits, kind: str, server_name: str
) -> list[T]:
    """Return what a server lists, from all pages; nothing if it does not know the method.

    Raises LimitExceededError, and the errors of the client. `kind` is what it lists.
    """
    found: list[T] = []
    cursors: list[str] = []
    while True:
        try:
            page = await fetch(cursor=cursors[-1] if cursors else None)
        except Exception as error:
            if getattr(error, "code", None) == errors.METHOD_NOT_FOUND and not cursors:
                return found
            raise
        found += take(page)
        reason = None
        if len(found) > limits.tools:
            reason = f"has more than {limits.tools} {kind}"
        elif page.next_cursor in cursors:
            reason = "repeats a page"
        elif len(cursors) >= limits.pages:
            reason = f"has more than {limits.pages} pages"
        if reason is not None:
            raise LimitExceededError(f"The list of {kind} of server {server_name!r} {reason}.")
        if page.next_cursor is None:
            return found
        cursors.append(page.next_cursor)


def _has_header_parameters(tool: Any) -> bool:
    """Return whether a tool takes arguments in HTTP headers, which mcp sends in sessions that have listed the tool."""
    from mcp.shared.inbound import x_mcp_header_map

    return hasattr(tool, "input_schema") and bool(x_mcp_header_map(tool.input_schema))


class ConnectionPool:
    """The connections to one server, one per set of credentials, so that users never share a connection.

    They run on the background loop; any thread and any loop may call.
    """

    def __init__(
        self,
        target: Target,
        settings: ClientSettings | None = None,
        *,
        verify_tool: ToolVerifier | None = None,
        on_list_changed: Callable[[], None] = lambda: None,
    ) -> None:
        """The connection without headers stays open, others as long as they are used.

        `on_list_changed` is called on the background loop, which it must not block, when the server's tools may have
        changed, also after each reconnect.
        """
        self.target = target
        self._settings = settings or ClientSettings()
        self._make_connection = functools.partial(
            Connection, target, verify_tool=verify_tool, on_list_changed=on_list_changed
        )
        self._default_connection = self._make_connection(self._settings)
        self._connections: OrderedDict[HeadersKey, Connection] = OrderedDict()
        self._closing_tasks: set[asyncio.Task[None]] = set()
        self._slot_freed = asyncio.Event()
        self._is_used = False
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<ConnectionPool {self.target.name!r} of {len(self._connections)}>"

    @property
    def is_open(self) -> bool:
        """Whether a connection is open now."""
        return any(one.is_open for one in (self._default_connection, *list(self._connections.values())))

    async def tools(self, *, headers: Mapping[str, str] | None = None) -> list[Tool]:
        """Return the server's tools, as `Connection.tools` does, for one set of credentials."""
        return await self._use(Connection.tools, headers)

    async def call(
        self, name: str, arguments: Mapping[str, Any], *, headers: Mapping[str, str] | None = None, **options: Any
    ) -> CallToolResult:
        """Call a tool, as `Connection.call` does with these options, over the connection of one set of credentials."""
        return await self._use(lambda connection: connection.call(name, arguments, **options), headers, name)

    async def request(
        self,
        send: Callable[[Session], Awaitable[T]],
        what: str,
        *,
        headers: Mapping[str, str] | None,
        timeout: float | None = None,
        tool: str | None = None,
    ) -> T:
        """Return an answer, as `Connection.request` does, over the connection of one set of credentials."""
        return await self._use(lambda one: one.request(send, what, timeout=timeout, tool=tool), headers, tool)

    async def aclose(self) -> None:
        """Close all connections permanently, and wait until the servers' processes have ended."""
        self._is_closed = True
        if self._is_used:
            await background_loop.arun(self._close)

    def close(self) -> None:
        """Close all connections permanently; on the background loop, without waiting for it."""
        self._is_closed = True
        if self._is_used:
            run_close(self._close, self._settings.limits.close + 2)

    async def _use(
        self,
        use: Callable[[Connection], Awaitable[T]],
        headers: Mapping[str, str] | None,
        tool: str | None = None,
    ) -> T:
        self._is_used = True

        async def run() -> T:
            async with self._find_connection(headers, tool) as connection:
                return await use(connection)

        return await background_loop.arun(run)

    @contextlib.asynccontextmanager
    async def _find_connection(self, headers: Mapping[str, str] | None, tool: str | None) -> AsyncIterator[Connection]:
        if not headers:
            if self._is_closed:
                raise errors.to_closed_error(self.target.name, tool)
            yield self._default_connection
            return
        if not self.target.takes_headers:
            raise ToolConnectionError(
                f"Server {self.target.name!r} takes no headers: it is not reached over HTTP.", tool=tool
            )
        key = tuple(sorted((name.lower(), value) for name, value in headers.items()))
        member = await self._acquire(key, tool)
        try:
            yield member
        finally:
            member.user_count -= 1
            self._slot_freed.set()
            if not member.user_count and self._connections.get(key) is member:
                member.idle_timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._drop, key)

    async def _acquire(self, key: HeadersKey, tool: str | None) -> Connection:
        """Return the connection of a key, counted as used. Waits until a new one may be made."""
        while key not in self._connections and not self._try_free_slot():
            self._slot_freed.clear()
            await self._slot_freed.wait()
        if self._is_closed:
            raise errors.to_closed_error(self.target.name, tool)
        if key not in self._connections:
            self._connections[key] = self._make_connection(replace(self._settings, headers=dict(key)))
        member = self._connections[key]
        self._connections.move_to_end(key)
        member.user_count += 1
        if member.idle_timer is not None:
            member.idle_timer.cancel()
        return member

    def _try_free_slot(self) -> bool:
        """Return whether another connection may be made. Closes the least recently used idle one if needed."""
        if len(self._connections) < MAX_CONNECTIONS or self._is_closed:
            return True
        idle = next((key for key, member in self._connections.items() if not member.user_count), None)
        if idle is None:
            return False
        self._drop(idle)
        return True

    def _drop(self, key: HeadersKey) -> None:
        member = self._connections.pop(key)
        if member.idle_timer is not None:
            member.idle_timer.cancel()
        task = asyncio.get_running_loop().create_task(member.aclose())
        self._closing_tasks.add(task)
        task.add_done_callback(self._closing_tasks.discard)

    async def _close(self) -> None:
        for key in list(self._connections):
            self._drop(key)
        self._slot_freed.set()
        await asyncio.gather(self._default_connection.aclose(), *self._closing_tasks)


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
            if open_sessions:
                with contextlib.suppress(Exception):
                    run_close(close_sessions, MAX_EXIT_SECONDS)
        finally:  # after Ctrl-C, too
            server_process.kill_all_groups()


async def close_sessions() -> None:
    """Close every session."""
    await asyncio.gather(*(one.close() for one in list(open_sessions)))
