"""Served: a toolkit as a server's catalog: who is shown what, with which state, and what becomes of a call."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from fastmcp import FastMCP

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolkitError, ToolNotAvailableError
from ahvn_tools.mcp.server import app
from ahvn_tools.mcp.server.request import Request
from ahvn_tools.results import ToolResult
from ahvn_tools.toolkit import calls
from ahvn_tools.toolkit import search as searching
from ahvn_tools.toolkit.entry import Entry, to_name_set
from ahvn_tools.toolkit.search_tools import GroupsTool
from ahvn_tools.toolkit.selection import Selection
from ahvn_tools.toolkit.sessions import ClientStates, RequestSession
from ahvn_tools.toolkit.visibility import StoreView

log = logging.getLogger(__name__)

RequestState = Mapping[str, Any] | None
StateResolver = Callable[[Request], RequestState | Awaitable[RequestState]]
Audience = str | Iterable[str] | None
AudienceResolver = Callable[[Request], Audience | Awaitable[Audience]]
SessionResolver = Callable[[Request], str | Awaitable[str | None] | None]


class ToolkitServerOptions(TypedDict, total=False):
    """What `to_fastmcp_server` takes."""

    name: str
    """The toolkit's by default."""
    instructions: str
    """What a client is told about the server; the notes of its active groups by default."""
    version: str
    state: StateResolver
    """`(request) -> dict`, sync or async: the session state of each call, from its headers, claims or client."""
    audience: Audience | AudienceResolver
    """Whom it is for, or `(request) -> audience`, sync or async, to tell by who asks. Without one, only tools that are
    for everyone are served."""
    session: SessionResolver
    """`(request) -> session id`, sync or async, where the client itself says it, such as in a header; None or "" where
    it does not. `request.session_id` by default."""
    mask_errors: bool
    """False: what a tool raises is told to the client, and not only that it failed."""
    auth: Any
    """A FastMCP auth provider or token verifier, for HTTP."""
    fastmcp: Mapping[str, Any]
    """More of what FastMCP's server takes."""


def build_fastmcp_server(toolkit_name: str, view: StoreView, options: ToolkitServerOptions) -> FastMCP:
    """Return a FastMCP server of a view. Raises ToolkitError for options that do not fit."""
    unknown = options.keys() - ToolkitServerOptions.__annotations__.keys()
    if unknown:
        raise ToolkitError(
            f"Unknown options {sorted(unknown)}; known: {', '.join(ToolkitServerOptions.__annotations__)}."
        )
    if (auth := options.get("auth")) is not None and not hasattr(auth, "verify_token"):
        raise ToolkitError(
            f"`auth` of a server is a FastMCP auth provider or token verifier, such as JWTVerifier, "
            f"not a {type(auth).__name__}."
        )
    if twice := options.get("fastmcp", {}).keys() & ("name", "instructions", "version", "auth"):
        raise ToolkitError(f"Give {sorted(twice)} beside `fastmcp`, and not in it.")
    notes = "\n\n".join(group.notes for group in view.groups().values() if group.is_active and group.notes)
    return app.build_server(
        ToolkitServer(view, options),
        options.get("name", toolkit_name),
        instructions=options.get("instructions", notes or None),
        version=options.get("version"),
        auth=options.get("auth"),
        **options.get("fastmcp", {}),
    )


@dataclass(frozen=True, kw_only=True)
class AudienceFilter(Selection):
    """Admits the tools that are for everyone, and those for one of these audiences."""

    audiences: frozenset[str] = frozenset()

    def matches(self, entry: Entry, definition: Callable[[Entry], ToolDefinition]) -> bool:  # noqa: ARG002  # not asked
        """Tell whether a tool is shown."""
        return not entry.audience or not self.audiences.isdisjoint(entry.audience)


class ToolkitServer:
    """A view of a toolkit, served: each call gets a session of its own, with the state that is made for it."""

    def __init__(self, view: StoreView, options: ToolkitServerOptions) -> None:
        """Take a view and what is asked of each request. Raises ToolkitError for options that do not fit."""
        self._view = view
        self._state_resolver = _validate_function("state", options.get("state"))
        self._session_resolver = _validate_function("session", options.get("session"))
        self._audience = self._to_audience_filter(options.get("audience"))
        self._call_options = calls.CallOptions(is_served=True, shows_errors=not options.get("mask_errors", True))
        self._client_states = ClientStates()

    async def definitions(self, request: Request) -> Sequence[ToolDefinition]:
        """Return what is listed: all that is shown to this client or, where it can search, less."""
        view, guest = await self._open_session(request, None)
        guest.client_state.listed_revision = _list_revision(view)
        return [view.definition(entry) for entry in searching.listed_entries(view)]

    async def find(self, name: str, request: Request) -> ToolDefinition | None:
        """Return a tool that this client may know of, in a group that is not active, too: a call tells it so."""
        view = self._view
        entry = view.store.entries.get(name)
        if entry is None or not view.is_selected(entry):
            return None
        audience = await self._resolve_audience(request)
        return view.definition(entry) if audience is None or audience.matches(entry, view.definition) else None

    def find_for_any_client(self, name: str) -> ToolDefinition | None:
        """Return a tool that is for somebody here, whoever asks."""
        view = self._view.select(self._audience) if isinstance(self._audience, AudienceFilter) else self._view
        entry = view.store.entries.get(name)
        return view.definition(entry) if entry is not None and view.is_selected(entry) else None

    def get_revision(self) -> tuple[Any, ...]:
        """Return what is another whenever the list may be another for anybody."""
        return _list_revision(self._view)

    async def call_tool(self, name: str, arguments: dict[str, Any], request: Request) -> ToolResult:
        """Run a call in a session of its own, and tell the client when its list of tools is not the same any more."""
        view, guest = await self._open_session(request, await self._resolve_state(request))
        if guest.is_anonymous and isinstance(_find_spec(view, name), GroupsTool):
            raise ToolNotAvailableError(
                "Groups cannot be switched: the server cannot tell this client from others, and keeps nothing for it.",
                tool=name,
            )
        before = guest.client_state.listed_revision or _list_revision(view)
        result = await self._run(view, name, arguments, request)
        now = _list_revision(view)
        if now != before:
            guest.client_state.listed_revision = now
            await request.send_tool_list_changed()
        return result

    async def _run(self, view: StoreView, name: str, arguments: dict[str, Any], request: Request) -> ToolResult:
        if (
            progress := request.create_progress_reporter()
        ) is None:  # nobody reads what the tool tells before its result
            return await calls.aexecute(view, name, arguments, self._call_options)
        terms = replace(self._call_options, emit=progress.emit)
        try:
            result = await calls.aexecute(view, name, arguments, terms)
            await progress.drain()
        finally:
            progress.close()
        return result

    async def _open_session(self, request: Request, state: RequestState) -> tuple[StoreView, RequestSession]:
        """Return what this client sees, in a session of its own."""
        session_id = await self._resolve_session_id(request)
        guest = RequestSession(dict(state or {}), session_id, self._client_states.get(session_id))
        view, audience = self._view.session(guest), await self._resolve_audience(request)
        return view if audience is None else view.select(audience), guest

    async def _resolve_audience(self, request: Request) -> AudienceFilter | None:
        """Return what this client may see; None where the view itself says whom it is for."""
        if callable(self._audience):
            return AudienceFilter(audiences=_to_audience_set(await _await_if_needed(self._audience(request))))
        return self._audience

    async def _resolve_session_id(self, request: Request) -> str | None:
        if self._session_resolver is None:
            return request.session_id
        given = await _await_if_needed(self._session_resolver(request))
        if not (given is None or isinstance(given, str)):
            raise ToolkitError(f"`session` must give a text for each request, not a {type(given).__name__}.")
        if not given:
            return None
        return given if request.session_id is None else f"{request.session_id}.{given}"

    async def _resolve_state(self, request: Request) -> RequestState:
        if self._state_resolver is None:
            return None
        state = await _await_if_needed(self._state_resolver(request))
        if not (state is None or isinstance(state, Mapping)):
            raise ToolkitError(f"`state` must give a mapping for each request, not a {type(state).__name__}.")
        return state

    def _to_audience_filter(self, audience: Audience | AudienceResolver) -> AudienceResolver | AudienceFilter | None:
        if callable(audience):
            return audience
        is_said = audience is None and any(map(self._has_audience, self._view.selections))
        return None if is_said else AudienceFilter(audiences=_to_audience_set(audience))

    def _has_audience(self, selection: Selection) -> bool:
        if selection.audience is not None:
            return True
        return selection.toolset is not None and self._has_audience(self._view.store.toolset(selection.toolset))


def _list_revision(view: StoreView) -> tuple[Any, ...]:
    """Return what is another whenever the list of tools may be another."""
    catalog = view.store
    switched = [(holder.group_overrides, holder.structured_outputs) for holder in view.session_states]
    blocked = [
        imported.server.changed for imported in list(catalog.imported_servers.values())
    ]  # others may be added meanwhile
    return catalog.tools_revision, catalog.bindings_revision, catalog.search_listing, switched, blocked


def _find_spec(view: StoreView, name: str) -> object:
    entry = view.store.entries.get(name)
    return None if entry is None else entry.spec


async def _await_if_needed(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _validate_function(option: str, value: Any) -> Any:
    if not (value is None or callable(value)):
        raise ToolkitError(f"`{option}` is a function of the request, not a {type(value).__name__}.")
    return value


def _to_audience_set(value: Any) -> frozenset[str]:
    return frozenset() if value is None else to_name_set("audience of a server", value)
