"""ToolkitServer: a toolkit as the tools of an MCP server, with the state, audience and session of each request."""

from __future__ import annotations

import functools
import logging
import weakref
from collections import ChainMap
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Final, Literal, TypedDict, TypeVar

from fastmcp import FastMCP
from mcp_types import Prompt, ReadResourceResult

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolkitError, ToolNotAvailableError, clip
from ahvn_tools.execution.runner import run_before_body
from ahvn_tools.execution.threads import call_host_function
from ahvn_tools.mcp.client.remote_results import MAX_URI_CHARS
from ahvn_tools.mcp.server.app import ServedToolsServer
from ahvn_tools.mcp.server.components import GetPrompt
from ahvn_tools.mcp.server.request import Request
from ahvn_tools.middleware.truncate import TruncatedBlocks
from ahvn_tools.results import ToolResult
from ahvn_tools.settings import is_count
from ahvn_tools.skills import SKILL_SCHEME
from ahvn_tools.toolkit import calls, check, served_prompts
from ahvn_tools.toolkit.code_mode import is_program_tool
from ahvn_tools.toolkit.elicitation import Elicitation
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.entry_options import refuse_unknown_options, to_name_set, validate_callable
from ahvn_tools.toolkit.selection import Selection
from ahvn_tools.toolkit.served_caller import ContinuedCalls, continued_call_id
from ahvn_tools.toolkit.served_interfaces import find_interfaces, list_pages, read_from_server, with_served_uris
from ahvn_tools.toolkit.sessions import CANNOT_SWITCH, ClientState, ClientStates, SessionState
from ahvn_tools.toolkit.visibility import StoreView
from ahvn_tools.user_interface import SCHEME
from ahvn_tools.version import __version__

log = logging.getLogger(__name__)

RequestState = Mapping[str, Any] | None
StateResolver = Callable[[Request], RequestState | Awaitable[RequestState]]
Audience = str | Iterable[str] | None
AudienceResolver = Callable[[Request], Audience | Awaitable[Audience]]
SessionResolver = Callable[[Request], str | Awaitable[str | None] | None]

Resolved = TypeVar("Resolved")

MAX_INSTRUCTIONS_CHARS: Final = 32_000
"""The instructions that are made of notes and of those of servers are cut after this many characters."""

MAX_LINKS: Final = 10_000
"""Resources to which tools have referred clients; the oldest are forgotten first."""

_TOO_SLOW: Final = "the `state`, `audience` or `session` function of its server took too long"


class ToolkitServerOptions(TypedDict, total=False):
    """The options of `to_fastmcp_server`."""

    name: str
    """The toolkit's name by default."""
    instructions: str
    """What the server says about itself to a client; by default the notes of its active groups, of those that every
    client may see, the instructions of the MCP servers whose tools every client may see, and the names and descriptions
    of the skills that every client may read."""
    version: str
    """That of this package by default."""
    state: StateResolver
    """`(request) -> dict`, sync or async: the session state of each call, from its headers, claims or client."""
    audience: Audience | AudienceResolver
    """The audience to serve, or `(request) -> audience`, sync or async, to decide for each request. Without one, only
    tools that are for everyone are served."""
    session: SessionResolver
    """`(request) -> session id`, sync or async, where the client itself sends it, such as in a header; None or "" where
    it does not. `request.session_id` by default, which otherwise follows it after a dot: two users share no session."""
    mask_errors: bool
    """False: the client receives the text of an exception, and not only that the tool failed. By default as the
    toolkit's."""
    tasks: bool | str | None
    """True or `"memory://"`: clients may call tools that have the option `task` as MCP tasks, which are stored in
    memory; the URL of a Redis: they are stored there. Needs the extra `tasks`. None and False: there are no tasks."""
    tasks_per_client: int
    """How many tasks of one client over HTTP may wait or run: by default half as many as run at once."""
    auth: Any
    """A FastMCP auth provider or token verifier, for HTTP."""
    fastmcp: Mapping[str, Any]
    """More options of FastMCP's server."""


def build_fastmcp_server(toolkit_name: str, view: StoreView, options: ToolkitServerOptions) -> FastMCP:
    """Return a FastMCP server of a view.

    Raises ToolkitError for options that do not fit, DefinitionError for a tool with a parameter that must be bound.
    """
    refuse_unknown_options(options, ToolkitServerOptions)
    whole_view = view.with_all_audiences()  # `audience` may name those of a tool that a session leaves out
    check.report_changes(whole_view)
    check.warn_of_missing_approver(whole_view, whole_view.selected_entries(), is_served=True)
    tasks = options.get("tasks")
    for entry in whole_view.listed_entries():
        view.compiled_tool(entry).require_bound()
        if entry.task == "required" and tasks in (None, False):
            raise ToolkitError(
                f"{entry.name!r} only runs as a task: serve it with tasks=True, or add it with task='optional'."
            )
    if (per_client := options.get("tasks_per_client")) is not None and not is_count(per_client):
        raise ToolkitError(f"`tasks_per_client` of a server must be a whole number, at least 1, not {per_client!r}.")
    if (auth := options.get("auth")) is not None and not hasattr(auth, "verify_token"):
        raise ToolkitError(
            f"`auth` of a server is a FastMCP auth provider or token verifier, such as JWTVerifier, "
            f"not a {type(auth).__name__}."
        )
    if misplaced := options.get("fastmcp", {}).keys() & ("name", "instructions", "version", "auth"):
        raise ToolkitError(f"Pass {sorted(misplaced)} as options of the server, not inside `fastmcp`.")
    server = ToolkitServer(view, options)
    return ServedToolsServer(
        server,
        options.get("name", toolkit_name),
        instructions=options.get("instructions", _make_instructions(server.view_for_any_client())),
        version=options.get("version", __version__),
        tasks=tasks,
        tasks_per_client=per_client,
        auth=auth,
        **options.get("fastmcp", {}),
    )


def _make_instructions(view: StoreView) -> str | None:
    """Return the notes of the active groups, and the instructions of the MCP servers that have tools in a view."""
    notes = [group.notes for group in view.groups().values() if group.is_active and group.notes]
    used = {entry.server_name for entry in view.selected_entries()}
    for name, imported in view.store.imported_servers.items():
        if name in used and (text := imported.passed_instructions) is not None:
            notes.append(f"Instructions of the MCP server {name!r} for its tools:\n{text}")
    if view.store.skills:
        from ahvn_tools.toolkit.skills import to_prompt  # few toolkits have skills

        notes.append(to_prompt(view))
    return clip("\n\n".join(filter(None, notes)), MAX_INSTRUCTIONS_CHARS) or None


@dataclass(slots=True)
class _Preparation:
    """What the host's functions have returned for one request before its call."""

    seconds: float = 0.0
    """How long they took."""
    audience: Selection | None = None


class ToolkitServer:
    """A served view of a toolkit: each call runs in its own session, with the state of its request."""

    def __init__(self, view: StoreView, options: ToolkitServerOptions) -> None:
        """Serve a view. Raises ToolkitError for options that do not fit."""
        self._view = view
        self._has_resolvers = any(callable(options.get(option)) for option in ("state", "session", "audience"))
        for option in ("state", "session"):
            if (resolver := options.get(option)) is not None:
                validate_callable(f"`{option}`", "a function of the request", resolver)
        self._options = options
        audience = options.get("audience")
        if audience is None and view.names_audience():
            self._audience: AudienceResolver | None = None
        else:
            audience = view.store.audience if audience is None else audience
            self._audience = audience if callable(audience) else None
            self._view = view.with_all_audiences()  # of which each request selects those of its audience
            if self._audience is None:
                self._view = self._view.select(_to_audience_selection(audience))
        self._call_options = calls.CallOptions(is_served=True, masks_errors=options.get("mask_errors"))
        self._client_states = ClientStates()
        self._links: dict[tuple[str | None, str], Entry] = {}
        """The tools that have referred a client to a resource, by the client and the URI."""
        self._continued_calls = ContinuedCalls(view.store.secret_key)
        self._preparations: weakref.WeakKeyDictionary[Request, _Preparation] = weakref.WeakKeyDictionary()

    async def definitions(self, request: Request) -> Sequence[ToolDefinition]:
        """Return the definitions to list: of every tool that this client may see or, when it can search, fewer."""
        view, client = await self._open_session(request, reads_state=False)
        client.listed_revision = _list_revision(view)
        definitions = [(entry, view.definition(entry)) for entry in view.listed_entries()]
        return with_served_uris(definitions, find_interfaces(view))

    async def find(self, name: str, request: Request) -> ToolDefinition | None:
        """Return a tool that this client may see, also in an inactive group: its call explains that."""
        view = self._view
        entry = view.store.entries.get(name)
        if entry is None or not view.is_selected(entry):
            return None
        audience, _ = await self._prepare_call(entry, request, self._resolve_audience)
        view = view if audience is None else view.select(audience)
        return view.definition(entry) if view.is_selected(entry) else None

    def view_for_any_client(self) -> StoreView:
        """Return the view that every client has: without the tools that are only for the audience of some."""
        return self._view if self._audience is None else self._view.select(_to_audience_selection(None))

    def find_for_any_client(self, name: str) -> ToolDefinition | None:
        """Return a tool that any client may see."""
        view, entry = self._view, self._view.store.entries.get(name)
        return view.definition(entry) if entry is not None and view.is_selected(entry) else None

    def get_revision(self) -> tuple[Any, ...]:
        """Return a value that differs whenever the tool list of any client may have changed."""
        return _list_revision(self._view)

    def get_prompts_revision(self) -> tuple[Any, ...]:
        """Return a value that differs whenever the list of prompts of any client may have changed."""
        return served_prompts.revision(self._view)

    async def list_prompts(self, request: Request) -> list[tuple[Prompt, GetPrompt]]:
        """Return the prompts of the servers of which this client may see a tool."""
        view, client, state = await self._open_session_for_reading(request)
        client.prompts_revision = served_prompts.revision(view)
        return await served_prompts.list_prompts(view, state)

    async def find_prompt(self, name: str, request: Request) -> tuple[Prompt, GetPrompt] | None:
        """Return a prompt that this client may see; None if there is none."""
        if not self._view.store.imported_servers:
            return None
        view, _, state = await self._open_session_for_reading(request)
        return await served_prompts.find_prompt(view, state, name)

    async def _open_session_for_reading(self, request: Request) -> tuple[StoreView, ClientState, Mapping[str, Any]]:
        """Return a session, the state of its client, and the state from which credentials are taken."""
        view, client = await self._open_session(request)
        return view, client, ChainMap(*(dict(scope.state) for scope in view.session_states))

    def task_mode(self, name: str) -> Literal["forbidden", "optional", "required"] | None:
        """Return whether calls of a tool may be tasks; None if no tool of that name is served."""
        entry = self._view.store.entries.get(name)
        return None if entry is None or not self._view.is_selected(entry) else entry.task or "forbidden"

    def task_tools(self) -> list[ToolDefinition]:
        """Return the tools whose calls may be tasks, for any client."""
        return [self._view.definition(e) for e in self._view.selected_entries() if e.task is not None]

    async def call_tool(self, name: str, arguments: dict[str, Any], request: Request) -> ToolResult:
        """Run a call in its own session, and notify the client when its list of tools has changed."""
        entry = self._view.store.entries.get(name)

        (view, client), seconds = await self._prepare_call(entry, request, self._open_session)
        if client.is_anonymous and entry is not None and entry.switches_groups:
            log.warning("%s Serve with tokens, or say with session=… which requests belong together.", CANNOT_SWITCH)
            raise ToolNotAvailableError(CANNOT_SWITCH, tool=name)
        before = client.listed_revision or _list_revision(view)
        result = await self._run(view, name, arguments, request, seconds)
        if entry is not None and _is_kept(result) and view.definition(entry).output_schema is None:
            result = replace(result, structured_content=None)  # MCP requires it where there is an output schema
        if entry is not None and entry.server_name is not None:
            self._remember_links(request, entry, result)
        now = _list_revision(view)
        if now != before and not request.is_of_task:  # a task has no connection to its client
            client.listed_revision = now
            await request.send_tool_list_changed()
        if client.prompts_revision is None or request.is_of_task:
            return result
        if client.prompts_revision != (prompts := served_prompts.revision(view)):
            client.prompts_revision = prompts
            await request.send_prompt_list_changed()
        return result

    def _remember_links(self, request: Request, entry: Entry, result: ToolResult) -> None:
        for block in result.blocks or ():
            if block.type == "resource_link" and len(block.uri) <= MAX_URI_CHARS:
                self._links.setdefault((request.session_id, block.uri), entry)  # no other server can replace it
                if len(self._links) > MAX_LINKS:
                    self._links.pop(next(iter(self._links)))

    async def find_resource(self, uri: str, request: Request) -> Callable[[], Awaitable[ReadResourceResult]] | None:
        """Return what reads a resource; None if there is none.

        That is the page of a tool, a file of a skill, or what a tool of a server has referred the client to.
        """
        if uri.startswith((SCHEME, SKILL_SCHEME)):
            view, _, state = await self._open_session_for_reading(request)
            if (page := find_interfaces(view).get(uri)) is not None:
                return functools.partial(page.read, view, state)
            if view.store.skills:
                from ahvn_tools.toolkit import served_skills  # few toolkits have skills

                if (found := served_skills.find_file(view, uri)) is not None:
                    return functools.partial(served_skills.read_file, *found, state)
        entry = self._links.get((request.session_id, uri))
        if entry is None or await self.find(entry.name, request) is None:
            return None
        if entry.server_name not in self._view.store.imported_servers:
            return None
        view, _, state = await self._open_session_for_reading(request)
        return functools.partial(read_from_server, view, entry, uri, state)

    async def list_resources(self, request: Request) -> list[tuple[str, Mapping[str, Any]]]:
        """Return the URI and the fields of the pages of the tools that this client may see, and of its skills."""
        view, _ = await self._open_session(request, reads_state=False)
        pages = await list_pages(view)
        if not view.store.skills:
            return pages
        from ahvn_tools.toolkit.served_skills import list_skills  # few toolkits have skills

        return [*pages, *list_skills(view)]

    async def _run(
        self, view: StoreView, name: str, arguments: dict[str, Any], request: Request, seconds: float | None
    ) -> ToolResult:
        options = self._call_options if seconds is None else replace(self._call_options, seconds=seconds)
        entry = view.store.entries.get(name)
        may_ask = (
            entry is not None
            and (view.compiled_tool(entry).plan.takes_context or view.has_rules(entry))
            and request.can_elicit
        )
        if entry is not None and may_ask and continued_call_id(request) is None:
            if request.is_repeated_for_answers and is_program_tool(entry.spec):
                return await self._run_program(view, name, arguments, request, options)
            elicitation = Elicitation(request, arguments, view.store.secret_key)
            options = replace(options, question_approver=elicitation.approver, approved_questions=elicitation.approved)
        return await self._run_call(view, name, arguments, request, options)

    async def _run_program(
        self, view: StoreView, name: str, arguments: dict[str, Any], request: Request, options: calls.CallOptions
    ) -> ToolResult:
        """Run a program whose questions the client answers with another request, which continues it."""
        from ahvn_tools.toolkit.program_elicitation import ProgramElicitation  # few toolkits run programs

        elicitation = ProgramElicitation(view, request, arguments)
        resumed = await elicitation.resume()
        if isinstance(resumed, ToolResult):
            return resumed
        if resumed is not None and not resumed.programs:
            return resumed.known_results[0]
        if resumed is not None:
            program = resumed.programs[0]
            options = replace(options, id=program.program.call_id, is_approved=True, resumed_program=program)
        return elicitation.ask(await self._run_call(view, name, arguments, request, options))

    async def _run_call(
        self, view: StoreView, name: str, arguments: dict[str, Any], request: Request, options: calls.CallOptions
    ) -> ToolResult:
        if view.store.imported_servers:  # which may ask the client
            return await self._continued_calls.run(
                request,
                name,
                arguments,
                lambda emit: calls.aexecute(view, name, arguments, replace(options, emit=emit)),
            )
        if (progress := request.create_progress_reporter()) is None:  # the client reads no progress
            return await calls.aexecute(view, name, arguments, options)
        try:
            result = await calls.aexecute(view, name, arguments, replace(options, emit=progress.emit))
            await progress.drain()
        finally:
            progress.close()
        return result

    async def _prepare_call(
        self, entry: Entry | None, request: Request, start: Callable[[Request], Coroutine[Any, Any, Any]]
    ) -> tuple[Any, float | None]:
        """Return what `start(request)` returns within the timeout of a call, and the seconds left; None for all."""
        plan = None if entry is None else self._view.compiled_tool(entry).plan
        if plan is None or plan.timeout is None or not self._has_resolvers:
            return await start(request), None
        preparation, started = self._preparation(request), perf_counter()
        seconds = plan.timeout - preparation.seconds
        value, _ = await run_before_body(plan.with_seconds(seconds), functools.partial(start, request), _TOO_SLOW)
        preparation.seconds += perf_counter() - started
        return value, plan.timeout - preparation.seconds

    def _preparation(self, request: Request) -> _Preparation:
        return self._preparations.setdefault(request, _Preparation())

    async def _open_session(self, request: Request, *, reads_state: bool = True) -> tuple[StoreView, ClientState]:
        """Return a session for this request, with its state unless that is not needed, and the state of its client."""
        state: RequestState = await self._resolve("state", Mapping, request) if reads_state else None
        session_id = await self._resolve_session_id(request)
        client = self._client_states.get(session_id)
        background_calls = self._client_states.background_calls(session_id, request.on_disconnect)
        view = self._view.session(SessionState(dict(state or {}), session_id, client), background_calls)
        audience = await self._resolve_audience(request)
        return view if audience is None else view.select(audience), client

    async def _resolve_audience(self, request: Request) -> Selection | None:
        """Return the audience of this client, the same one at each step; None when the view itself has one."""
        if self._audience is None:
            return None
        preparation = self._preparation(request)
        if preparation.audience is None:
            preparation.audience = _to_audience_selection(await call_host_function(self._audience, request))
        return preparation.audience

    async def _resolve_session_id(self, request: Request) -> str | None:
        if self._options.get("session") is None:
            return request.session_id
        session_id = await self._resolve("session", str, request)
        if not session_id or request.session_id is None:
            return session_id or None
        return f"{session_id}.{request.session_id}"  # two users who name one session have two

    async def _resolve(
        self, option: Literal["state", "session"], kind: type[Resolved], request: Request
    ) -> Resolved | None:
        """Return what the host's function returns for a request; None without a function."""
        resolver: Any = self._options.get(option)
        value = None if resolver is None else await call_host_function(resolver, request)
        if not (value is None or isinstance(value, kind)):
            expected = kind.__name__.lower()
            raise ToolkitError(f"`{option}` must return a {expected} for each request, not a {type(value).__name__}.")
        return value


def _is_kept(result: ToolResult) -> bool:
    """Return whether `keep_large` has kept a result, and the model reads an outline."""
    return isinstance(result.blocks, TruncatedBlocks) and "handle" in result.meta.get("kept", {})


def _list_revision(view: StoreView) -> tuple[Any, ...]:
    """Return a value that differs whenever the list of tools may have changed."""
    store = view.store
    revision: list[Any] = [store.tools_revision, store.bindings_revision, store.search_listing]
    for session in view.session_states:
        switches = session.switches
        revision += (switches.group_overrides, switches.structured_outputs, switches.approval_mode)
    for imported in list(store.imported_servers.values()):  # a copy: a server may be added at the same time
        revision += (imported.server.changed,)
    return tuple(revision)


def _to_audience_selection(audience: Any) -> Selection:
    return Selection(audiences=to_name_set("audience of a server", () if audience is None else audience))
