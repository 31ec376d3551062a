"""Server: an MCP server as a source of tools. What it tells is screened, pinned, and compared when it changes."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import math
import threading
from collections.abc import Awaitable, Callable, Collection, Mapping
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from ahvn_tools.errors import (
    DefinitionError,
    ToolChangedError,
    ToolConnectionError,
    ToolkitError,
    ToolLookupError,
    ToolTimeoutError,
    near_misses,
)
from ahvn_tools.execution import background_loop
from ahvn_tools.execution.runner import capture_outcome
from ahvn_tools.execution.threads import run_in_thread
from ahvn_tools.mcp.client.handlers import Handlers
from ahvn_tools.mcp.client.pool import ConnectionPool
from ahvn_tools.mcp.client.remote_tool import RemoteTool, choose_unused_name, tool_changed_error
from ahvn_tools.mcp.client.results import ResultParser
from ahvn_tools.mcp.client.targets import Target, is_valid_header, resolve_targets, reveal_secrets
from ahvn_tools.mcp.trust.budgets import Budgets
from ahvn_tools.mcp.trust.changes import Changes, compare
from ahvn_tools.mcp.trust.limits import Limits
from ahvn_tools.mcp.trust.pins import Pins
from ahvn_tools.mcp.trust.screening import screen
from ahvn_tools.mcp.trust.wire import to_wire
from ahvn_tools.sources import mcp as mcp_source
from ahvn_tools.sources.options import validate_options
from ahvn_tools.template import ToolTemplate

if TYPE_CHECKING:
    from mcp_types import Tool as WireTool

    from ahvn_tools.context import ToolContext

log = logging.getLogger(__name__)

INITIAL_REFRESH_DELAY = 0.1
"""How many seconds a server's news are waited with: there may be more in a moment."""

PIN_CHECK_TTL = 2.0
"""Seconds that what a pinned server was asked holds over HTTP, where nothing tells that it was started anew."""

MAX_REFRESH_DELAY = 30.0
"""How many seconds there are at most between two questions to a server that always has news."""

CredentialsProvider = Callable[[Mapping[str, Any]], "str | Mapping[str, str] | Awaitable[Any] | None"]
"""Gives, from the state of a call, the token or the headers that it is made with; sync or async."""

ChangeListener = Callable[["RemoteServer", Changes], Any]
"""Hears, sync or async, what has changed on a server."""


class ConnectOptions(TypedDict, total=False):
    """What there is to say of a server, beside what it is."""

    auth: Any
    """A token, headers, `"oauth"`, an `httpx2.Auth`; or a function that gives token or headers from a call's state."""
    env: Mapping[str, str]
    """What a server process sees in its environment, beside PATH, HOME and their like."""
    stderr: str | PathLike[str]
    """A file that the stderr of a server process is appended to; it goes to ours by default."""
    inputs: Mapping[str, str]
    """The answers to `${input:…}` in a configuration."""
    pin: str | PathLike[str] | None
    """A file with the fingerprints of its tools: one that has changed is not called until it is accepted."""
    idempotent: bool | Collection[str]
    """The tools, by name, or all, that may be called again when the connection was lost during a call."""
    elicitation: Callable[..., Any] | None
    """Answers what the server asks the user; without it, it is told that the user declines."""
    sampling: Callable[..., Any] | None
    """Answers what the server asks a model; without it, it is told that there is none."""
    on_change: ChangeListener | None
    """Hears what has changed when the server was asked again for its tools."""
    budgets: Budgets
    """How large a definition may be."""
    limits: Limits
    """How long a server may take, and how much it may say."""


class RemoteServer:
    """One server: its tools, and the connections that they are called through."""

    def __init__(self, target: Target, **options: Unpack[ConnectOptions]) -> None:
        """Take what it is. Nothing is connected before it is asked for its tools."""
        self.name = target.name
        self.tools: Mapping[str, WireTool] = MappingProxyType({})
        """What it tells of its tools, but for those that are refused."""
        self.refused: Mapping[str, str] = MappingProxyType({})
        """Tools that cannot be used, and why."""
        self.changed: frozenset[str] = frozenset()
        """Tools that are not what they were when they were pinned: they are not called until `accept`."""
        auth, on_change, pin = options.get("auth"), options.get("on_change"), options.get("pin")
        self._credentials_provider: CredentialsProvider | None = auth if _is_credentials_provider(auth) else None
        self._pins = None if pin is None else Pins(pin)
        self._idempotent = options.get("idempotent", ())
        self._budgets = options.get("budgets") or Budgets()
        self._listeners: list[ChangeListener] = [] if on_change is None else [on_change]
        self._remote_tools: dict[str, RemoteTool] = {}
        self.get_host_state: Callable[[], Mapping[str, Any]] = dict
        """Gives the state that credentials are taken from when the server is asked for its tools."""
        self._raw_tools: dict[str, Any] = {}
        self._quarantined: frozenset[str] = frozenset()
        self._lock = threading.RLock()
        """Held by who says which tools are blocked: what one blocks, another does not let go by accident."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._refresh_lock = asyncio.Lock()
        self._refreshed_at = -math.inf
        self._tasks: set[asyncio.Task[None]] = set()
        self._refresh_task: asyncio.Task[None] | None = None
        self._is_stale = self._is_closed = False
        handlers = Handlers(elicitation=options.get("elicitation"), sampling=options.get("sampling"))
        confirm = None if self._pins is None else self._verify_tool
        self._pool = ConnectionPool(target, handlers=handlers, limits=options.get("limits"), verify_tool=confirm)
        self._pool.on_list_changed(self._schedule_refresh)

    # what it has

    def templates(
        self, *, timeout: float | None = mcp_source.DEFAULT_TIMEOUT
    ) -> dict[str, tuple[ToolTemplate, RemoteTool]]:
        """Return what ToolSpecs are made of, by the names that the server uses; a tool that cannot be is refused.

        Raises DefinitionError for a timeout that is none.
        """
        validate_options({"timeout": timeout})
        made: dict[str, tuple[ToolTemplate, RemoteTool]] = {}
        refused = dict(self.refused)
        for name, tool in self.tools.items():
            try:
                made[name] = self._build_template(tool, timeout)
            except DefinitionError as error:
                refused[name] = str(error)
        self.refused = MappingProxyType(refused)
        return made

    def template(
        self, name: str, *, timeout: float | None = mcp_source.DEFAULT_TIMEOUT
    ) -> tuple[ToolTemplate, RemoteTool]:
        """Return what the ToolSpec of one tool is made of. Raises ToolLookupError, and DefinitionError."""
        tools = self.tools
        if name not in tools:
            raise ToolLookupError(f"The MCP server {self.name!r} has no tool {name!r}. {near_misses(name, tools)}")
        return self._build_template(tools[name], timeout)

    def _build_template(self, tool: WireTool, timeout: float | None) -> tuple[ToolTemplate, RemoteTool]:
        name, taken = tool.name, tool.input_schema.get("properties", {})
        remote, answers = self._remote_tools.get(name), ResultParser(name, tool.output_schema)
        if remote is None or remote.context_name in taken:
            remote = RemoteTool(name, choose_unused_name(taken), self._call_tool, answers, lambda: self.changed)
            self._remote_tools[name] = remote
        remote.result_parser = answers
        recipe, _ = mcp_source.build_template(
            tool,
            {"timeout": timeout},
            remote,
            context=remote.context_name,
            is_repeatable=self._is_repeatable(name),
            is_caller_independent=self._credentials_provider is None,
        )
        return recipe, remote

    async def arefresh(self) -> Changes:
        """Ask the server for its tools, and return what has changed. Raises ToolConnectionError."""
        return await background_loop.arun(self._refresh_and_notify)

    def refresh(self) -> Changes:
        """Ask the server for its tools, as `arefresh` does."""
        changes: Changes = background_loop.run(capture_outcome, self._refresh_and_notify).get()
        return changes

    def accept(self, *tools: str | WireTool) -> None:
        """Accept what has become of pinned tools; of all, when none is given.

        A tool by its name is accepted as the server tells it now. A tool of `tools` is accepted if it is still that:
        what was looked at, and nothing that has come since. Raises ToolLookupError, and ToolChangedError.
        """
        with self._lock:
            accepted = frozenset(map(self._resolve_pending_name, tools)) or self.changed
            if self._pins is not None:
                self._pins.accept(
                    self.name, [self._raw_tools[name] for name in sorted(accepted & self._raw_tools.keys())]
                )
            self._quarantined -= accepted
            self.changed -= accepted

    def _resolve_pending_name(self, tool: str | WireTool) -> str:
        name = tool if isinstance(tool, str) else getattr(tool, "name", None)
        if not isinstance(name, str) or name not in self.changed:
            raise ToolLookupError(f"No tool {name!r} waits to be accepted. {near_misses(str(name), self.changed)}")
        if not isinstance(tool, str) and to_wire(tool) != to_wire(self.tools[name]):
            raise ToolChangedError(f"The tool {name!r} has changed again: look at what it is now.", tool=name)
        return name

    def quarantine(self, name: str) -> None:
        """Let a tool not be called until it is accepted, whatever is pinned."""
        with self._lock:
            self._quarantined |= {name}
            self.changed |= {name}

    def on_change(self, listener: ChangeListener) -> Callable[[], None]:
        """Let somebody hear what has changed; return what ends that, once."""
        self._listeners.append(listener)

        def undo() -> None:
            with contextlib.suppress(ValueError):
                self._listeners.remove(listener)

        return undo

    # its end

    def close(self) -> None:
        """Close its connections; a call that comes after that is an error."""
        self._is_closed = True
        self._pool.close()

    async def aclose(self) -> None:
        """Close its connections, as `close` does."""
        self._is_closed = True
        await self._pool.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<Server {self.name!r} of {len(self.tools)} tool{'' if len(self.tools) == 1 else 's'}>"

    # inside

    async def _refresh_and_notify(self) -> Changes:
        changes = await self._refresh_listing()
        if changes:
            await self._notify(changes)
        return changes

    async def _refresh_listing(self, *, unless_refreshed_since: float = math.inf) -> Changes:
        """Ask for the tools, on the background loop; one asks at a time.

        Many who want to know at once what there is since a moment are content with one answer.
        """
        self._reset_for_running_loop()
        async with self._refresh_lock:
            if self._refreshed_at > unless_refreshed_since:
                return Changes()
            began = asyncio.get_running_loop().time()
            listed = await self._pool.tools(headers=await self._resolve_headers(self.get_host_state()))
            # in a thread: what a server tells may be large, and nobody else is to wait for it
            changes: Changes = (await run_in_thread(lambda _: self._apply_listing(listed))).get()
            self._refreshed_at = began
            return changes

    def _reset_for_running_loop(self) -> None:
        """Forget what belongs to a loop that is not this one: in a forked child it may be held for ever."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._refresh_lock, self._refresh_task = loop, asyncio.Lock(), None

    def _apply_listing(self, listed: list[WireTool]) -> Changes:
        """Take what the server tells, and return what has changed."""
        screened = screen(listed, self._budgets)
        before, now = self.tools, {tool.name: tool for tool in screened.tools}
        changes = compare(list(before.values()), list(now.values()))
        with self._lock:
            changed = frozenset[str]() if self._pins is None else frozenset(self._pins.check(self.name, listed))
            names = [to_wire(tool).get("name") for tool in listed]
            told = zip(reversed(names), reversed(listed), strict=True)  # of two tools of a name the first counts
            self._raw_tools = {name: tool for name, tool in told if isinstance(name, str)}
            self.changed = frozenset((changed | self._quarantined) & now.keys())
            self.tools, self.refused = MappingProxyType(now), MappingProxyType(screened.refused)
        return changes

    async def _verify_tool(self, name: str, *, is_new_connection: bool) -> None:
        """Make sure that a tool is what was pinned. Raises ToolChangedError, ToolConnectionError."""
        moment = asyncio.get_running_loop().time()
        is_old = self._pool.target.takes_headers and moment - self._refreshed_at > PIN_CHECK_TTL
        if is_new_connection or is_old:
            try:
                changes = await self._refresh_listing(unless_refreshed_since=moment)
            except ToolkitError as error:
                message = f"Whether the tool {name!r} is what it was cannot be told. {error}"
                raise ToolChangedError(message, tool=name) from error
            except ToolTimeoutError as error:  # not the call's own time
                raise ToolConnectionError(error.message, tool=name) from error
            if changes:
                telling = asyncio.create_task(self._notify(changes))
                self._tasks.add(telling)
                telling.add_done_callback(self._tasks.discard)
        if name in self.changed:
            raise tool_changed_error(name)

    def _schedule_refresh(self) -> None:
        """Ask again: the server has said that its tools have changed. On the background loop."""
        self._reset_for_running_loop()
        self._is_stale = True
        if self._refresh_task is None or self._refresh_task.done():
            self._refresh_task = asyncio.get_running_loop().create_task(self._refresh_until_current())

    async def _refresh_until_current(self) -> None:
        """Ask until there is no more news; a server that has news all the time is asked ever less often."""
        pause = INITIAL_REFRESH_DELAY
        while self._is_stale and not self._is_closed:
            self._is_stale = False
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_REFRESH_DELAY)
            try:
                await self._refresh_and_notify()
            except Exception as error:  # noqa: BLE001  # a server may fail in any way; what is known of it stands
                if not self._is_closed:
                    log.warning("The tools of the MCP server %r were not brought up to date: %s", self.name, error)

    async def _notify(self, changes: Changes) -> None:
        for listener in list(self._listeners):
            outcome = await capture_outcome(
                _call_host_function, listener, self, changes
            )  # whatever it raises, SystemExit too
            if outcome.error is not None:
                what = "A listener to the changes of the MCP server %r failed."
                log.error(what, self.name, exc_info=outcome.error)

    async def _call_tool(self, name: str, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Call a tool for a call, with the credentials that its state gives."""
        headers = await self._resolve_headers(context.state)
        return await self._pool.call(
            name,
            arguments,
            headers=headers,
            on_progress=context.report_progress,
            is_repeatable=self._is_repeatable(name),
        )

    def _is_repeatable(self, name: str) -> bool:
        """Tell whether the host has said so; what the server says does not count."""
        told = self._idempotent
        return told if isinstance(told, bool) else name in ([told] if isinstance(told, str) else told)

    async def _resolve_headers(self, state: Mapping[str, Any]) -> Mapping[str, str] | None:
        if self._credentials_provider is None:
            return None
        try:
            given = reveal_secrets(await _call_host_function(self._credentials_provider, state))
        except Exception as error:
            raise self._credentials_error(f"raised {type(error).__name__}") from error
        if isinstance(given, str):
            given = {"Authorization": f"Bearer {given}"}
        if given is None:
            return None
        if not isinstance(given, Mapping):
            raise self._credentials_error(f"gave a {type(given).__name__}, and no token and no dict of headers")
        if not all(is_valid_header(name, value) for name, value in given.items()):
            raise self._credentials_error("gave what cannot be sent as headers")
        return given

    def _credentials_error(self, reason: str) -> ToolConnectionError:
        return ToolConnectionError(f"There are no credentials for the MCP server {self.name!r}: `auth` {reason}.")


async def _call_host_function(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function of the host's gives. A sync one runs in a thread: it may take its time."""
    if inspect.iscoroutinefunction(function):
        return await function(*arguments)
    given = (await run_in_thread(lambda _: function(*arguments))).get()
    return await given if inspect.isawaitable(given) else given


def resolve_server(server: Any, name: str | None, options: ConnectOptions) -> RemoteServer:
    """Return the one server that `server` names. Raises DefinitionError."""
    found = resolve_servers(server, None, options)
    if len(found) > 1:
        found = [one for one in found if one.name == name]
    elif name is not None:
        found = resolve_servers(server, name, options)
    if len(found) != 1:
        names = [one.name for one in resolve_servers(server, None, options)]
        raise DefinitionError(f"There are {len(names)} servers: {names}. Choose one with name=….")
    return found[0]


def resolve_servers(server: Any, name: str | None, options: ConnectOptions) -> list[RemoteServer]:
    """Return the servers that `server` names, none of them connected. Raises DefinitionError."""
    auth = options.get("auth")
    for option, kind in (("limits", Limits), ("budgets", Budgets), ("env", Mapping), ("inputs", Mapping)):
        given = options.get(option)
        if not (given is None or isinstance(given, kind)):
            wanted = "mapping" if kind is Mapping else kind.__name__
            raise DefinitionError(f"`{option}` of a server is a {wanted}, not a {type(given).__name__}.")
    for option in ("elicitation", "sampling", "on_change"):
        if not ((given := options.get(option)) is None or callable(given)):
            raise DefinitionError(f"`{option}` of a server is a function, not a {type(given).__name__}.")
    found = resolve_targets(
        server,
        name=name,
        auth=None if _is_credentials_provider(auth) else auth,
        env=options.get("env"),
        inputs=options.get("inputs"),
        stderr=options.get("stderr"),
    )
    return [RemoteServer(target, **options) for target in found]


def _is_credentials_provider(auth: Any) -> bool:
    """Tell whether it is a function of a call's state, and no `httpx2.Auth`."""
    return callable(auth) and not hasattr(auth, "auth_flow")
