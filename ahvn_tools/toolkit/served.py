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
from ahvn_tools.mcp.out import serving
from ahvn_tools.mcp.out.request import Request
from ahvn_tools.results import ToolResult
from ahvn_tools.toolkit import calls
from ahvn_tools.toolkit import search as searching
from ahvn_tools.toolkit.entry import Entry, texts
from ahvn_tools.toolkit.guest import Clients, Guest
from ahvn_tools.toolkit.meta import GroupsTool
from ahvn_tools.toolkit.selection import Selection
from ahvn_tools.toolkit.view import View

log = logging.getLogger(__name__)

State = Mapping[str, Any] | None
StateOf = Callable[[Request], State | Awaitable[State]]
Audience = str | Iterable[str] | None
AudienceOf = Callable[[Request], Audience | Awaitable[Audience]]
SessionOf = Callable[[Request], str | Awaitable[str | None] | None]


class ServerOptions(TypedDict, total=False):
    """What `to_fastmcp_server` takes."""

    name: str
    """The toolkit's by default."""
    instructions: str
    """What a client is told about the server; the notes of its active groups by default."""
    version: str
    state: StateOf
    """`(request) -> dict`, sync or async: the session state of each call, from its headers, claims or client."""
    audience: Audience | AudienceOf
    """Whom it is for, or `(request) -> audience`, sync or async, to tell by who asks. Without one, only tools that are
    for everyone are served."""
    session: SessionOf
    """`(request) -> session id`, sync or async, where the client itself says it, such as in a header; None or "" where
    it does not. `request.session_id` by default."""
    mask_errors: bool
    """False: what a tool raises is told to the client, and not only that it failed."""
    auth: Any
    """A FastMCP auth provider or token verifier, for HTTP."""
    fastmcp: Mapping[str, Any]
    """More of what FastMCP's server takes."""


def server(toolkit_name: str, view: View, options: ServerOptions) -> FastMCP:
    """Return a FastMCP server of a view. Raises ToolkitError for options that do not fit."""
    unknown = options.keys() - ServerOptions.__annotations__.keys()
    if unknown:
        raise ToolkitError(f"Unknown options {sorted(unknown)}; known: {', '.join(ServerOptions.__annotations__)}.")
    if (auth := options.get("auth")) is not None and not hasattr(auth, "verify_token"):
        raise ToolkitError(
            f"`auth` of a server is a FastMCP auth provider or token verifier, such as JWTVerifier, "
            f"not a {type(auth).__name__}."
        )
    if twice := options.get("fastmcp", {}).keys() & ("name", "instructions", "version", "auth"):
        raise ToolkitError(f"Give {sorted(twice)} beside `fastmcp`, and not in it.")
    notes = "\n\n".join(group.notes for group in view.groups().values() if group.is_active and group.notes)
    return serving.server(
        Served(view, options),
        options.get("name", toolkit_name),
        instructions=options.get("instructions", notes or None),
        version=options.get("version"),
        auth=options.get("auth"),
        **options.get("fastmcp", {}),
    )


@dataclass(frozen=True, kw_only=True)
class For(Selection):
    """Admits the tools that are for everyone, and those for one of these audiences."""

    audiences: frozenset[str] = frozenset()

    def admits(self, entry: Entry, definition: Callable[[Entry], ToolDefinition]) -> bool:  # noqa: ARG002  # not asked
        """Tell whether a tool is shown."""
        return not entry.audience or not self.audiences.isdisjoint(entry.audience)


class Served:
    """A view of a toolkit, served: each call gets a session of its own, with the state that is made for it."""

    def __init__(self, view: View, options: ServerOptions) -> None:
        """Take a view and what is asked of each request. Raises ToolkitError for options that do not fit."""
        self._view = view
        self._state = _function("state", options.get("state"))
        self._session = _function("session", options.get("session"))
        self._audience = self._for_whom(options.get("audience"))
        self._terms = calls.Terms(is_served=True, shows_errors=not options.get("mask_errors", True))
        self._clients = Clients()

    async def definitions(self, request: Request) -> Sequence[ToolDefinition]:
        """Return what is listed: all that is shown to this client or, where it can search, less."""
        view, guest = await self._seen(request, None)
        guest.client.listed = _mark(view)
        return [view.definition(entry) for entry in searching.listed(view)]

    async def find(self, name: str, request: Request) -> ToolDefinition | None:
        """Return a tool that this client may know of, in a group that is not active, too: a call tells it so."""
        view = self._view
        entry = view.catalog.entries.get(name)
        if entry is None or not view.admits(entry):
            return None
        audience = await self._audience_of(request)
        return view.definition(entry) if audience is None or audience.admits(entry, view.definition) else None

    def named(self, name: str) -> ToolDefinition | None:
        """Return a tool that is for somebody here, whoever asks."""
        view = self._view.narrowed(self._audience) if isinstance(self._audience, For) else self._view
        entry = view.catalog.entries.get(name)
        return view.definition(entry) if entry is not None and view.admits(entry) else None

    def mark(self) -> tuple[Any, ...]:
        """Return what is another whenever the list may be another for anybody."""
        return _mark(self._view)

    async def serve(self, name: str, arguments: dict[str, Any], request: Request) -> ToolResult:
        """Run a call in a session of its own, and tell the client when its list of tools is not the same any more."""
        view, guest = await self._seen(request, await self._state_of(request))
        if guest.is_unknown and isinstance(_spec(view, name), GroupsTool):
            raise ToolNotAvailableError(
                "Groups cannot be switched: the server cannot tell this client from others, and keeps nothing for it.",
                tool=name,
            )
        before = guest.client.listed or _mark(view)
        result = await self._run(view, name, arguments, request)
        now = _mark(view)
        if now != before:
            guest.client.listed = now
            await request.tell_that_tools_changed()
        return result

    async def _run(self, view: View, name: str, arguments: dict[str, Any], request: Request) -> ToolResult:
        if (progress := request.progress()) is None:  # nobody reads what the tool tells before its result
            return await calls.aexecute(view, name, arguments, self._terms)
        terms = replace(self._terms, emit=progress.emit)
        try:
            result = await calls.aexecute(view, name, arguments, terms)
            await progress.finish()
        finally:
            progress.close()
        return result

    async def _seen(self, request: Request, state: State) -> tuple[View, Guest]:
        """Return what this client sees, in a session of its own."""
        session_id = await self._session_id(request)
        guest = Guest(dict(state or {}), session_id, self._clients.of(session_id))
        view, audience = self._view.session(guest), await self._audience_of(request)
        return view if audience is None else view.narrowed(audience), guest

    async def _audience_of(self, request: Request) -> For | None:
        """Return what this client may see; None where the view itself says whom it is for."""
        if callable(self._audience):
            return For(audiences=_audiences(await _awaited(self._audience(request))))
        return self._audience

    async def _session_id(self, request: Request) -> str | None:
        if self._session is None:
            return request.session_id
        given = await _awaited(self._session(request))
        if not (given is None or isinstance(given, str)):
            raise ToolkitError(f"`session` must give a text for each request, not a {type(given).__name__}.")
        if not given:
            return None
        return given if request.session_id is None else f"{request.session_id}.{given}"

    async def _state_of(self, request: Request) -> State:
        if self._state is None:
            return None
        state = await _awaited(self._state(request))
        if not (state is None or isinstance(state, Mapping)):
            raise ToolkitError(f"`state` must give a mapping for each request, not a {type(state).__name__}.")
        return state

    def _for_whom(self, audience: Audience | AudienceOf) -> AudienceOf | For | None:
        if callable(audience):
            return audience
        is_said = audience is None and any(map(self._is_for_somebody, self._view.selections))
        return None if is_said else For(audiences=_audiences(audience))

    def _is_for_somebody(self, selection: Selection) -> bool:
        if selection.audience is not None:
            return True
        return selection.toolset is not None and self._is_for_somebody(self._view.catalog.toolset(selection.toolset))


def _mark(view: View) -> tuple[Any, ...]:
    """Return what is another whenever the list of tools may be another."""
    catalog = view.catalog
    switched = [(holder.switched, holder.finishes) for holder in view.holders]
    blocked = [imported.server.changed for imported in list(catalog.servers.values())]  # others may be added meanwhile
    return catalog.changes, catalog.rebound, catalog.offer, switched, blocked


def _spec(view: View, name: str) -> object:
    entry = view.catalog.entries.get(name)
    return None if entry is None else entry.spec


async def _awaited(given: Any) -> Any:
    return await given if inspect.isawaitable(given) else given


def _function(option: str, given: Any) -> Any:
    if not (given is None or callable(given)):
        raise ToolkitError(f"`{option}` is a function of the request, not a {type(given).__name__}.")
    return given


def _audiences(given: Any) -> frozenset[str]:
    return frozenset() if given is None else texts("audience of a server", given)
