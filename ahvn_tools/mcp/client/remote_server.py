"""RemoteServer: one MCP server as a source of tools, which are screened, compared with pins and refreshed."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import threading
import weakref
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, Self, Unpack, cast

from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import (
    DefinitionError,
    LimitExceededError,
    ToolChangedError,
    ToolConnectionError,
    ToolkitError,
    ToolLookupError,
    ToolTimeoutError,
    near_misses,
)
from ahvn_tools.execution import background_loop
from ahvn_tools.execution.runner import capture_outcome
from ahvn_tools.execution.threads import call_host_function, run_in_thread
from ahvn_tools.json_types import JsonObject
from ahvn_tools.mcp.client.caller import GetRoots, IdleClock, make_meta, run_call
from ahvn_tools.mcp.client.client_settings import STRUCTURED_META_KEY, ClientSettings
from ahvn_tools.mcp.client.connect_options import (
    CLIENT,
    ChangeListener,
    ConnectOptions,
    check_connect_options,
    is_credentials_provider,
    validate_names,
)
from ahvn_tools.mcp.client.connection import ConnectionPool, Session, list_pages
from ahvn_tools.mcp.client.errors import sanitize_text
from ahvn_tools.mcp.client.refresh import Refresher
from ahvn_tools.mcp.client.remote_results import (
    ResultParser,
    make_resource_tool,
    to_tool_result,
)
from ahvn_tools.mcp.client.targets import Target, is_valid_header, resolve_targets
from ahvn_tools.mcp.trust.changes import Changes, compare, to_wire
from ahvn_tools.mcp.trust.limits import Limits
from ahvn_tools.mcp.trust.pins import Pins
from ahvn_tools.mcp.trust.screening import screen, screen_prompts
from ahvn_tools.middleware.pending import REQUEST_KEYS
from ahvn_tools.redaction.values import reveal_secrets
from ahvn_tools.results import ToolResult
from ahvn_tools.schema.root_parameters import root_parameter_names
from ahvn_tools.settings import validate_options
from ahvn_tools.sources import mcp as mcp_source
from ahvn_tools.template import ToolTemplate

if TYPE_CHECKING:  # slow
    from mcp_types import GetPromptResult, Prompt, ReadResourceResult, Resource
    from mcp_types import Tool as WireTool

    from ahvn_tools.context import ToolContext

log = logging.getLogger(__name__)

MAX_BLOCKED_TOOLS = 10_000
"""Tools of one server that are remembered as blocked, also those that it no longer lists."""

MAX_BLOCKED_WARNINGS = 100
"""How many of them are logged."""

MAX_LOGGED_NAMES = 10
"""How many tools that differ from their pins a warning names."""

MAX_INSTRUCTIONS_CHARS = 4_000
"""The instructions of a server are cut after this many characters."""

PIN_CHECK_TTL = 2.0  # seconds for which a pin check is valid over HTTP, where a restart of the server goes unnoticed


RESERVED_META_KEYS: Final = REQUEST_KEYS | {
    "attempts", "cached", "changed", "duration", "ends_session", "omitted_chars", "output", "progress", "structured",
    "waiting", STRUCTURED_META_KEY,
}  # fmt: skip
"""Keys of a result's `meta` that this package writes: a server's values of these keys are dropped."""


@dataclass(eq=False)
class RemoteTool:
    """One tool of a server. It cannot be pickled, because a connection belongs to a process."""

    name: str
    context_name: str
    """The argument with the ToolContext; no parameter of the tool has this name."""
    result_parser: ResultParser
    server: RemoteServer
    accepted_parameters: frozenset[str] = frozenset()
    """The parameters of the definitions that the host has accepted."""
    is_remote: ClassVar[bool] = True

    @property
    def is_changed(self) -> bool:
        """Whether the server's definition of the tool is not the accepted one."""
        return self.name in self.server.changed

    async def __call__(self, /, **arguments: Any) -> ToolResult:
        """Call the tool. Raises ToolChangedError, ToolConnectionError, InvalidResultError, ToolError."""
        context = arguments.pop(self.context_name)
        if self.is_changed:
            raise tool_changed_error(self.name)
        try:
            received = await self.server.acall_tool(self.name, arguments, context)
        except ToolTimeoutError as error:  # of the idle timeout; raised, it would be an error of the tool
            return ToolResult(error=ErrorDetail(code=error.code, message=error.message))
        result = self.result_parser.parse(received)
        return replace(result, meta={key: item for key, item in result.meta.items() if key not in RESERVED_META_KEYS})


def tool_changed_error(name: str) -> ToolChangedError:
    """Return the error about a tool whose new definition is not accepted yet."""
    message = f"The tool {name!r} is new or has changed. It is blocked until the host accepts it."
    return ToolChangedError(message, tool=name)


class ServerImport(Protocol):
    """What a toolkit has made of the tools of a server, by their names there."""

    @property
    def refused(self) -> Mapping[str, str]:
        """The tools that the toolkit cannot use, each with the reason."""

    @property
    def receives(self) -> Mapping[str, Mapping[str, str | None]]:
        """The parameters that the toolkit fills, by tool, each with its state key, or None for a preset."""

    @property
    def withheld(self) -> Mapping[str, str]:
        """What the toolkit does not pass on to clients, each with the reason."""


class RemoteServer:
    """One MCP server: its tools, and the connections through which they are called."""

    def __init__(self, target: Target, **options: Unpack[ConnectOptions]) -> None:
        """Nothing is connected before the tools are listed."""
        self.name = target.name
        self.tools: Mapping[str, WireTool] = MappingProxyType({})
        """The tools of the last listing by name, without those that were refused."""
        self.changed: frozenset[str] = frozenset()
        """The tools that are blocked until `accept`: they differ from their pins, have none although the server is
        pinned, or were quarantined."""
        self._imports: list[ServerImport] = []
        self.instructions: str | None = None
        """What the server says about itself and its tools, with invisible characters escaped, and shortened."""
        self.get_roots: GetRoots = lambda: None
        """Returns the folders that the server may use."""
        self.passes_prompts: bool = options.get("prompts", options.get("pin") is None)
        """Whether a served toolkit passes on the prompts of the server."""
        self.prompts: Mapping[str, Prompt] | None = None
        """The prompts of the last listing by name, without those that were refused; None when they may have changed."""
        self.prompts_revision = 0
        """How often the server has announced that its prompts have changed."""
        self._refused_prompts: Mapping[str, str] = MappingProxyType({})
        self.get_host_state: Callable[[], Mapping[str, Any]] = dict
        """Returns the state from which `auth` takes the credentials for listing the tools."""
        auth, pin, on_change = options.get("auth"), options.get("pin"), options.get("on_change")
        sampling = options.get("sampling")
        self._credentials_provider = auth if is_credentials_provider(auth) else None
        self._list_auth = options.get("list_auth")
        self._pins = None if pin is None else Pins(pin)
        self._idempotent = options.get("idempotent", ())
        self._resource_tool = options.get("resource_tool")
        self._idle_timeout = options.get("idle_timeout")
        self._budgets = options.get("budgets")
        self._remote_tools: weakref.WeakValueDictionary[str, RemoteTool] = weakref.WeakValueDictionary()
        """The bodies that specs use: a server that renames its tools all the time does not fill the memory."""
        self._raw_tools: dict[str, Any] = {}
        self._screening_refusals: Mapping[str, str] = MappingProxyType({})
        self._quarantined: frozenset[str] = frozenset()
        self._listing_lock = threading.Lock()
        """Held while a listing is applied or accepted; the file of pins is read and written meanwhile."""
        self._blocking_lock = threading.Lock()
        """Held while the set of blocked tools changes, so that two threads do not undo each other's change."""
        self._listeners: list[ChangeListener] = [] if on_change is None else [on_change]
        self._notifications: set[asyncio.Task[None]] = set()
        self._refresher = Refresher(self.name, self._update, self._notify)
        self._limits = options.get("limits") or Limits()
        self._pool = ConnectionPool(
            target,
            ClientSettings(
                elicitation=options.get("elicitation"),
                sampling=sampling if callable(sampling) else None,
                samples_from_client=sampling == CLIENT,
                get_roots=lambda: self.get_roots(),  # noqa: PLW0108  # it is set later
                on_connected=self._set_instructions,
                on_prompts_changed=self._forget_prompts,
                mode=options.get("mode", "auto"),
                tasks=options.get("tasks", False),
                limits=self._limits,
            ),
            verify_tool=None if pin is None else self._verify_tool,
            on_list_changed=self._refresher.schedule,
        )

    def __repr__(self) -> str:
        return f"<RemoteServer {self.name!r} of {len(self.tools)} tool{'' if len(self.tools) == 1 else 's'}>"

    def _set_instructions(self, instructions: str | None) -> None:
        text = sanitize_text((instructions or "").strip(), MAX_INSTRUCTIONS_CHARS)
        self.instructions = text or None

    @property
    def is_connected(self) -> bool:
        """Whether a connection is open now; the next call or listing opens one."""
        return self._pool.is_open

    @property
    def refused(self) -> Mapping[str, str]:
        """The tools that cannot be used, each with the reason."""
        refused_by_toolkits = {
            name: reason for imported in list(self._imports) for name, reason in imported.refused.items()
        }
        return MappingProxyType({**refused_by_toolkits, **self._screening_refusals})

    @property
    def withheld(self) -> Mapping[str, str]:
        """What a served toolkit does not pass on, with the reason: `instructions`, and `prompt NAME` of listed ones."""
        refused = {f"prompt {name}": reason for name, reason in self._refused_prompts.items()}
        by_toolkits = {name: reason for imported in list(self._imports) for name, reason in imported.withheld.items()}
        return MappingProxyType({**by_toolkits, **refused})

    @property
    def invalid_tools(self) -> Mapping[str, str]:
        """Those of `refused` that no toolkit can use, because of their definitions."""
        return self._screening_refusals

    @property
    def receives(self) -> Mapping[str, Mapping[str, str | None]]:
        """The bound values that calls send to this server: tool -> parameter -> state key, or None for a preset.

        Names are the server's. A value that is bound on a ToolSpec outside of a toolkit is not listed.
        """
        received: dict[str, dict[str, str | None]] = {}
        for imported in list(self._imports):
            for name, bound in imported.receives.items():
                received.setdefault(name, {}).update(bound)
        return MappingProxyType(received)

    def templates(
        self, *, timeout: float | None, names: Collection[str] | None = None
    ) -> dict[str, tuple[ToolTemplate, RemoteTool]]:
        """Return a template and a body for each tool, or for these. A tool for which that fails is added to `refused`.

        Raises DefinitionError for an invalid timeout, ToolLookupError for a name that no tool has.
        """
        validate_options({"timeout": timeout})
        chosen = self.tools if names is None else validate_names(names, self.tools, self.name)
        templates: dict[str, tuple[ToolTemplate, RemoteTool]] = {}
        refused = dict(self._screening_refusals)
        for name, tool in self.tools.items():
            if name not in chosen:
                continue
            try:
                templates[name] = self._build_template(tool, timeout)
            except DefinitionError as error:
                refused[name] = str(error)
        self._screening_refusals = MappingProxyType(refused)
        return templates

    def _build_template(self, tool: WireTool, timeout: float | None) -> tuple[ToolTemplate, RemoteTool]:
        name, taken = tool.name, root_parameter_names(tool.input_schema)
        result_parser = ResultParser(name, tool.output_schema)
        body = self._remote_tools.get(name)
        if body is None or body.context_name in taken:
            context_name = "context"
            while context_name in taken:
                context_name += "_"
            accepted_parameters = frozenset[str]() if body is None else body.accepted_parameters
            body = RemoteTool(name, context_name, result_parser, self, accepted_parameters)
            self._remote_tools[name] = body
        body.result_parser = result_parser
        template, _ = mcp_source.build_template(
            tool,
            {"timeout": timeout},
            body,
            context=body.context_name,
            is_repeatable=self._is_repeatable(name),
            is_caller_independent=self._credentials_provider is None,
        )
        return template, body

    async def arefresh(self) -> Changes:
        """List the server's tools and return what has changed. Raises ToolConnectionError."""
        return await background_loop.arun(self._refresher.refresh)

    def refresh(self) -> Changes:
        """List the server's tools, as `arefresh` does."""
        changes: Changes = background_loop.run(capture_outcome, self._refresher.refresh).get()
        return changes

    def accept(self, *tools: str | WireTool) -> None:
        """Accept the definitions of changed tools, of all of them by default, and unblock these tools.

        A name accepts the tool as it was last listed. A tool of `tools` is accepted only while it is still listed like
        that, so that no newer definition slips through. Raises ToolLookupError, ToolChangedError.
        """
        with self._listing_lock:
            accepted = frozenset(map(self._resolve_changed_name, tools)) or self.changed
            if self._pins is not None:
                raw_tools = [self._raw_tools[name] for name in sorted(accepted & self._raw_tools.keys())]
                self._pins.accept(self.name, raw_tools)
            with self._blocking_lock:
                for name in accepted & self.tools.keys():
                    if (body := self._remote_tools.get(name)) is not None:
                        body.accepted_parameters |= frozenset(root_parameter_names(self.tools[name].input_schema))
                self._quarantined -= accepted
                self.changed -= accepted

    @property
    def has_pins(self) -> bool:
        """Whether what the server sends is compared with a file of pins."""
        return self._pins is not None

    def pinned_definition(self, name: str) -> JsonObject | None:
        """Return the wire object of a tool as it was pinned. None: it is not known, such as of a very large tool."""
        return None if self._pins is None else self._pins.definition(self.name, name)

    def listed_definition(self, name: str) -> JsonObject:
        """Return the wire object of a tool exactly as the server has listed it last. Raises ToolLookupError."""
        if name not in self._raw_tools:
            raise ToolLookupError(f"The server {self.name!r} lists no tool {name!r}. {near_misses(name, self.tools)}")
        return to_wire(self._raw_tools[name])

    def find_changed_skills(self, skills: list[dict[str, Any]]) -> frozenset[str]:
        """Pin new skills, objects with a `name`, and return the names of those that differ from their pins."""
        return frozenset() if self._pins is None else frozenset(self._pins.check(f"{self.name} (skills)", skills))

    def accept_skills(self, *names: str) -> None:
        """Forget the pins of these skills, or of all: `Toolkit.add_skills` pins them again as they are then."""
        if self._pins is not None:
            self._pins.forget(f"{self.name} (skills)", names or None)

    def _resolve_changed_name(self, tool: str | WireTool) -> str:
        name = tool if isinstance(tool, str) else getattr(tool, "name", None)
        if not isinstance(name, str) or name not in self.changed:
            raise ToolLookupError(f"No tool {name!r} waits to be accepted. {near_misses(str(name), self.changed)}")
        if not isinstance(tool, str) and to_wire(tool) != to_wire(self.tools[name]):
            raise ToolChangedError(f"The tool {name!r} has changed again: review its current definition.", tool=name)
        return name

    def quarantine(self, name: str, reason: str = "the host has blocked it") -> None:
        """Block a tool until it is accepted, whatever is pinned; the reason is logged."""
        with self._blocking_lock:
            self._quarantine(name, reason)

    def _quarantine(self, name: str, reason: str) -> None:
        if name not in self._quarantined and len(self._quarantined) < MAX_BLOCKED_WARNINGS:
            log.warning("The MCP tool %r of %r is not called until it is accepted: %s", name, self.name, reason)
            if len(self._quarantined) == MAX_BLOCKED_WARNINGS - 1:
                log.warning("More blocked MCP tools of %r are not logged; its `changed` lists them.", self.name)
        self._quarantined |= {name}
        self.changed |= {name}

    def require_acceptance(self, name: str, parameters: frozenset[str]) -> None:
        """Block a tool until the host has accepted these parameters of it, which are bound in a toolkit."""
        with self._blocking_lock:
            body = self._remote_tools.get(name)
            if missing := parameters if body is None else parameters - body.accepted_parameters:
                self._quarantine(name, f"its parameter {min(missing)!r} is bound")

    def on_change(self, listener: ChangeListener) -> Callable[[], None]:
        """Call `listener(server, changes)` after each change.

        Return a function that removes the listener and may be called more than once.
        """
        self._listeners.append(listener)

        def remove() -> None:
            with contextlib.suppress(ValueError):
                self._listeners.remove(listener)

        return remove

    def add_import(self, imported: ServerImport) -> Callable[[], None]:
        """Report in `refused` and `receives` what a toolkit has made of the tools. Return a function that undoes it."""
        self._imports.append(imported)
        return lambda: self._imports.remove(imported)

    def close(self) -> None:
        """Close the connections. A later call is an error."""
        self._refresher.close()
        self._pool.close()

    async def aclose(self) -> None:
        """Close the connections, as `close` does."""
        self._refresher.close()
        await self._pool.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _update(self) -> Changes:
        if (problem := self._pool.target.problem) is not None:
            raise DefinitionError(problem)
        listed = await self._pool.tools(headers=await self._resolve_listing_headers())
        # in a thread: a large listing would block the loop
        changes: Changes = (await run_in_thread(lambda _: self._apply_listing(listed))).get()
        return changes

    def _apply_listing(self, listed: list[WireTool]) -> Changes:
        if len(self._quarantined) > MAX_BLOCKED_TOOLS:
            raise LimitExceededError(
                f"The tools of the MCP server {self.name!r} are not refreshed any more: it has listed more than "
                f"{MAX_BLOCKED_TOOLS} tools that are blocked. Connect to it again to forget them."
            )
        if self._resource_tool is not None:  # first: the server cannot take its name
            listed = [make_resource_tool(self._resource_tool, self.name), *listed]
        screened = screen(listed, self._budgets)
        tools = {tool.name: tool for tool in screened.tools}
        changes = compare(list(self.tools.values()), screened.tools)
        with self._listing_lock:
            changed = frozenset[str]() if self._pins is None else frozenset(self._pins.check(self.name, listed))
            changed = frozenset((changed & tools.keys()) - {self._resource_tool})
            self._log_blocked(changed - self.changed)
            raw_tools = [(to_wire(tool).get("name"), tool) for tool in reversed(listed)]  # the first of a name wins
            self._raw_tools = {name: tool for name, tool in raw_tools if isinstance(name, str)}
            with self._blocking_lock:
                self.changed = changed | frozenset(self._quarantined & tools.keys())
            self.tools, self._screening_refusals = MappingProxyType(tools), MappingProxyType(screened.refused)
        return changes

    def _log_blocked(self, names: frozenset[str]) -> None:
        if names:
            text = "MCP tools of %r are not called until they are accepted, because they are new or have changed: %s"
            log.warning(text, self.name, ", ".join(map(repr, sorted(names)[:MAX_LOGGED_NAMES])))

    async def _verify_tool(self, name: str, *, is_new_connection: bool) -> None:
        """Make sure that a tool is what was pinned. Raises ToolChangedError, ToolConnectionError."""
        now = asyncio.get_running_loop().time()
        is_old = self._pool.target.takes_headers and now - self._refresher.refreshed_at > PIN_CHECK_TTL
        if is_new_connection or is_old:
            try:
                changes = await self._refresher.update(unless_since=now)
            except ToolkitError as error:
                message = f"The pin of the tool {name!r} cannot be checked. {error}"
                raise ToolChangedError(message, tool=name) from error
            except ToolTimeoutError as error:  # of the listing, not of the call
                raise ToolConnectionError(error.message, tool=name) from error
            if changes:
                self._start_notification(changes)
        if name in self.changed:
            raise tool_changed_error(name)

    async def _notify(self, changes: Changes) -> None:
        await asyncio.shield(self._start_notification(changes))  # a listener may close the server, which ends refreshes

    def _start_notification(self, changes: Changes) -> asyncio.Task[None]:
        task = asyncio.create_task(self._call_listeners(changes))
        self._notifications.add(task)
        task.add_done_callback(self._notifications.discard)
        return task

    async def _call_listeners(self, changes: Changes) -> None:
        for listener in list(self._listeners):
            try:
                await call_host_function(listener, self, changes)
            except Exception:
                log.exception("A listener to changes of the MCP server %r failed.", self.name)

    async def acall_tool(self, name: str, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Call a tool of the server in the context of a call here, and return its result. Raises ToolCallError."""
        headers = await self._resolve_headers(context.state)
        clock = IdleClock(name, self._idle_timeout)

        def report_progress(progress: float, total: float | None, message: str | None) -> None:
            clock.restart()
            context.report_progress(progress, total, message)

        with run_call(context, clock):
            if name == self._resource_tool:
                return to_tool_result(await clock.run(self._read_resource(arguments["uri"], headers, name)))
            call = self._pool.call(
                name,
                arguments,
                headers=headers,
                on_progress=report_progress,
                is_repeatable=self._is_repeatable(name),
                meta=make_meta(),
            )
            return await clock.run(call)

    async def aread_resource(
        self, uri: str, state: Mapping[str, Any], timeout: float | None = None
    ) -> ReadResourceResult:
        """Return a resource of the server, with the credentials of a state. Raises ToolCallError."""
        return await self._read_resource(uri, await self._resolve_headers(state), "read_resource", timeout)

    async def _read_resource(
        self, uri: str, headers: Mapping[str, str] | None, tool: str, timeout: float | None = None
    ) -> ReadResourceResult:
        result: ReadResourceResult = await self._pool.request(
            lambda current: current.client.read_resource_mcp(uri),
            "Reading a resource",
            headers=headers,
            timeout=timeout,
            tool=tool,
        )
        return result

    async def alist_resources(self) -> list[Resource]:
        """List the resources of the server as it sends them. Raises as `arefresh` does."""
        return await self._list("resources", lambda client: client.list_resources_mcp)

    async def alist_prompts(self) -> Mapping[str, Prompt]:
        """List the prompts of the server, which are screened as its tools are. Raises as `arefresh` does."""
        revision = self.prompts_revision
        listed = await self._list("prompts", lambda client: client.list_prompts_mcp)
        # in a thread: a large listing would block the loop
        prompts, refused = (await run_in_thread(lambda _: screen_prompts(listed, self._budgets))).get()
        if refused and refused != self._refused_prompts:
            name, reason = next(iter(refused.items()))
            text = "%d prompts of the MCP server %r are not passed on, such as %r: %s"
            log.warning(text, len(refused), self.name, name, reason)
        self._refused_prompts = refused
        by_name = MappingProxyType({prompt.name: prompt for prompt in prompts})
        if revision == self.prompts_revision:
            self.prompts = by_name
        return by_name

    async def _list(self, kind: str, find_method: Callable[[Any], Any]) -> list[Any]:
        """Return all prompts or resources of the server; none if it has no such capability."""

        async def fetch(current: Session) -> list[Any]:
            client = current.client
            if getattr(client.server_capabilities, kind, None) is None:
                return []
            return await list_pages(
                find_method(client), lambda page: list(getattr(page, kind)), self._limits, kind, self.name
            )

        headers = await self._resolve_listing_headers()
        return await self._pool.request(fetch, f"Listing the {kind}", headers=headers, timeout=self._limits.listing)

    async def aget_prompt(
        self, name: str, arguments: dict[str, str], state: Mapping[str, Any], timeout: float | None
    ) -> GetPromptResult:
        """Return the messages of a prompt, with the credentials of a state. Raises ToolCallError."""
        result: GetPromptResult = await self._pool.request(
            lambda current: current.client.get_prompt_mcp(name, arguments),
            f"Prompt {name!r}",
            headers=await self._resolve_headers(state),
            timeout=timeout,
            tool="get_prompt",
        )
        return result

    def _forget_prompts(self) -> None:
        self.prompts = None
        self.prompts_revision += 1

    def _is_repeatable(self, name: str) -> bool:
        """Return whether the host declared the tool idempotent; the server's own claim does not count."""
        names = self._idempotent
        return names if isinstance(names, bool) else name in ([names] if isinstance(names, str) else names)

    async def _resolve_listing_headers(self) -> Mapping[str, str] | None:
        if self._list_auth is None:
            return await self._resolve_headers(self.get_host_state())
        return self._to_headers(reveal_secrets(self._list_auth), "`list_auth` has")

    async def _resolve_headers(self, state: Mapping[str, Any]) -> Mapping[str, str] | None:
        if self._credentials_provider is None:
            return None
        try:
            credentials = reveal_secrets(await call_host_function(self._credentials_provider, state))
        except Exception as error:
            raise self._credentials_error(f"`auth` raised {type(error).__name__}") from error
        return self._to_headers(credentials, "`auth` returned")

    def _to_headers(self, credentials: Any, origin: str) -> Mapping[str, str] | None:
        if isinstance(credentials, str):
            credentials = {"Authorization": f"Bearer {credentials}"}
        if credentials is None:
            return None
        if not isinstance(credentials, Mapping):
            kind = type(credentials).__name__
            raise self._credentials_error(f"{origin} a {kind}, not a token or a dict of headers")
        if not all(is_valid_header(name, value) for name, value in credentials.items()):
            raise self._credentials_error(f"{origin} headers that cannot be sent")
        return credentials

    def _credentials_error(self, reason: str) -> ToolConnectionError:
        return ToolConnectionError(f"There are no credentials for the MCP server {self.name!r}: {reason}.")


def resolve_server(server: Any, name: str | None, options: ConnectOptions) -> RemoteServer:
    """Return the one server that `server` names. Raises DefinitionError."""
    servers = resolve_servers(server, None, options)
    if len(servers) == 1:
        return servers[0] if name is None else resolve_servers(server, name, options)[0]
    named = [one for one in servers if one.name == name]
    if len(named) != 1:
        raise DefinitionError(f"There are {len(servers)} servers: {[one.name for one in servers]}. Choose one: name=….")
    return named[0]


def resolve_servers(server: Any, name: str | None, options: ConnectOptions) -> list[RemoteServer]:
    """Return the servers that `server` names, none of them connected. Raises DefinitionError."""
    if importlib.util.find_spec("fastmcp") is None:
        raise ImportError('MCP servers need fastmcp: pip install "fastmcp>=4,<5"', name="fastmcp")
    check_connect_options(options)
    auth = options.get("auth")
    targets = resolve_targets(
        server,
        name=name,
        auth=None if is_credentials_provider(auth) else auth,
        env=options.get("env"),
        inputs=options.get("inputs"),
        stderr=options.get("stderr"),
    )
    has_urls = any(target.takes_headers for target in targets)
    without_auth = cast("ConnectOptions", {key: options[key] for key in options.keys() - {"auth", "list_auth"}})  # type: ignore[literal-required]  # one of its keys
    return [  # `auth` of a file is for its URLs
        RemoteServer(target, **(options if target.takes_headers or not has_urls else without_auth))
        for target in targets
    ]
