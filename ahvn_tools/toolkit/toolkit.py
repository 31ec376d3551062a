"""Toolkit: an ordered collection of ToolSpecs, with one state, for many sessions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Mapping, MutableMapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, Unpack, overload

from pydantic import BaseModel

from ahvn_tools import formats, text
from ahvn_tools.binding import Binding
from ahvn_tools.definition import JsonObject, ToolDefinition
from ahvn_tools.errors import PickleError, ToolkitError, ToolLookupError, near_misses
from ahvn_tools.execution import background_loop
from ahvn_tools.execution.call import Middleware
from ahvn_tools.execution.runner import capture_outcome
from ahvn_tools.middleware.approve import ApprovalRequest, Approver
from ahvn_tools.registry import ToolRegistry
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.schema.annotations import Namespace, caller_locals
from ahvn_tools.sources.options import ToolOptions
from ahvn_tools.spec import ToolSpec
from ahvn_tools.state import UNSET
from ahvn_tools.toolkit import calls, entry_factory, search_tools, snapshot
from ahvn_tools.toolkit import search as searching
from ahvn_tools.toolkit.batch import Batch, resumed_batch
from ahvn_tools.toolkit.entry import EntryOptions, validate_name
from ahvn_tools.toolkit.run_result import Run
from ahvn_tools.toolkit.selection import Selection, SelectionOptions
from ahvn_tools.toolkit.store import Group, SearchListing, ToolStore, validate_max_concurrency
from ahvn_tools.toolkit.structured_output import StructuredOutput
from ahvn_tools.toolkit.tool import ToolkitTool
from ahvn_tools.toolkit.visibility import SessionState, StoreView

if TYPE_CHECKING:
    from fastmcp import FastMCP

    from ahvn_tools.mcp.client.remote_server import RemoteServer
    from ahvn_tools.mcp.trust.changes import Changes
    from ahvn_tools.toolkit.mcp_imports import ImportOptions, MCPImports
    from ahvn_tools.toolkit.mcp_server import ToolkitServerOptions

Function = TypeVar("Function", bound=Callable[..., Any])


class Toolkit:
    """Many tools as one collection: label them, select from them, bind session context, run what a model asks for.

    >>> kit = Toolkit("notes", state={"user": "host"})
    >>> @kit.tool(tags={"read"})
    ... def notes_of(user: str, topic: str) -> str:
    ...     '''Find notes.'''
    ...     return f"{user}: {topic}"
    >>> kit.bind("user")
    <Toolkit 'notes' of 1 tool>
    >>> ann, bob = kit.session(user="ann"), kit.session(user="bob")
    >>> ann.call("notes_of", {"topic": "tea"}), bob.call("notes_of", {"topic": "tea"})
    ('ann: tea', 'bob: tea')
    """

    __slots__ = ("_view", "name")

    def __init__(
        self,
        name: str,
        *,
        state: MutableMapping[str, Any] | None = None,
        middleware: Sequence[Middleware] = (),
        approver: Approver | None = None,
        timeout: float | None = None,
        max_concurrency: int = 16,
        roots: str | PathLike[str] | Iterable[str | PathLike[str]] = (),
        on_duplicate: str = "raise",
    ) -> None:
        """Begin with no tool.

        `middleware` stands around every call, outermost first. `approver` decides on calls of tools that require an
        approval; without one these calls wait for `resume`. `timeout` is how many seconds any call may take,
        `max_concurrency` how many calls of one answer run at once, `roots` are folders that a tool finds in its
        ToolContext. `on_duplicate` says what a second tool of one name does: `"raise"` ToolkitError, `"keep"` the
        first, or `"replace"` it.
        """
        if not (approver is None or callable(approver)):
            raise ToolkitError(f"An approver is a function of the request, not a {type(approver).__name__}.")
        self.name = validate_name("name of a toolkit", name)
        catalog = ToolStore(on_duplicate, timeout, max_concurrency)
        self._view = StoreView(
            store=catalog, session_states=(SessionState(_validate_state({} if state is None else state)),)
        )
        catalog.approver = approver
        catalog.make_toolkit = self._with_view
        folders = [roots] if isinstance(roots, str | PathLike) else roots
        catalog.roots = tuple(Path(root).resolve() for root in folders)
        for layer in middleware:
            self.use(layer)

    # the collection

    def add(
        self,
        thing: ToolSpec | ToolRegistry | Toolkit | Callable[..., Any] | Any,
        *,
        prefix: str = "",
        rename: Mapping[str, str] | str | None = None,
        **options: Unpack[EntryOptions],
    ) -> Self:
        """Add a ToolSpec, a function, all tools of a ToolRegistry or of another Toolkit, or a FastMCP tool.

        The given spec is kept: what is bound on it later is seen here. What the toolkit adds (the options, a `prefix`
        to the name, a new name from `rename`) never touches it. Raises ToolkitError for a name that is taken, BindError
        for a `preset` that does not fit; nothing is added then.
        """
        return self._add(thing, prefix, rename, options, caller_locals())

    def _add(
        self,
        thing: Any,
        prefix: str,
        rename: Mapping[str, str] | str | None,
        options: EntryOptions,
        namespace: Namespace,
    ) -> Self:
        self._view.refuse_change("add")
        view = thing._view if isinstance(thing, Toolkit) else None  # noqa: SLF001  # of its own kin
        named: ToolOptions = {"name": rename} if isinstance(rename, str) else {}
        specs = (
            entry_factory.to_specs(thing, namespace, named)
            if view is None
            else entry_factory.specs_from_view(view, thing.name)
        )
        entries = entry_factory.to_entries(specs, prefix, rename, options, self._view.store.locks)
        self._view.store.add(entries, {} if view is None else view.groups())
        return self

    @overload
    def tool(self, function: Function, /) -> Function: ...
    @overload
    def tool(self, /, **options: Unpack[EntryOptions]) -> Callable[[Function], Function]: ...
    def tool(self, function: Callable[..., Any] | None = None, /, **options: Unpack[EntryOptions]) -> Any:
        """Add the decorated function, which stays a function. Options are those of `add`."""
        namespace = caller_locals()

        def decorate(function: Function) -> Function:
            self._add(function, "", None, options, namespace)
            return function

        return decorate if function is None else decorate(function)

    def remove(self, *names: str) -> Self:
        """Remove tools; calls in flight finish. Raises ToolLookupError for an unknown name, and removes none then."""
        self._view.refuse_change("remove")
        self._view.store.remove(list(names))
        return self

    def __iter__(self) -> Iterator[ToolSpec]:
        """Yield the tools that are shown here, in the order in which they were added."""
        return (ToolkitTool(self._view, entry) for entry in self._view.visible_entries())

    def __len__(self) -> int:
        return sum(1 for _ in self._view.visible_entries())

    def __bool__(self) -> bool:
        """A toolkit is one, with or without tools."""
        return True

    def __contains__(self, name: object) -> bool:
        entry = self._view.store.entries.get(name) if isinstance(name, str) else None
        return entry is not None and self._view.is_visible(entry)

    def __getitem__(self, name: str) -> ToolSpec:
        """Return a tool as it is seen here. Raises ToolLookupError (a KeyError) for one that is not shown."""
        entry = self._view.store.entries.get(name) if name in self else None
        if entry is None:
            known = [entry.name for entry in self._view.visible_entries()]
            raise ToolLookupError(f"There is no tool {name!r} here. {near_misses(str(name), known)}")
        return ToolkitTool(self._view, entry)

    # MCP servers

    def add_mcp(
        self, server: Any, *, name: str | None = None, timeout: float | None = 30, **options: Unpack[ImportOptions]
    ) -> Self:
        """Add the tools of an MCP server, or of all servers of an `mcp.json`; `servers` has what can be said of each.

        `server` is a URL, a command as a text or as a list of words, an `mcp.json` (a path, or what it holds), a path
        of a script, a FastMCP server, a client, or what `mcp.connect` gave. `name` is for `remove_mcp` and messages;
        `timeout`, in seconds, is for each call. A name that is taken is an error, whatever `on_duplicate` says.

        Raises ToolConnectionError when no server can be reached, ToolkitError, ToolLookupError and BindError for what
        does not fit; nothing is added then.
        """
        self._view.refuse_change("add an MCP server")
        background_loop.run(capture_outcome, self._mcp_imports.add, server, name, timeout, options).get()
        return self

    async def aadd_mcp(
        self, server: Any, *, name: str | None = None, timeout: float | None = 30, **options: Unpack[ImportOptions]
    ) -> Self:
        """Add the tools of an MCP server from async code, as `add_mcp` does."""
        self._view.refuse_change("add an MCP server")
        await background_loop.arun(self._mcp_imports.add, server, name, timeout, options)
        return self

    def remove_mcp(self, name: str) -> Self:
        """Remove an MCP server with its tools, and close it. Raises ToolLookupError."""
        self._view.refuse_change("remove an MCP server")
        background_loop.run(capture_outcome, self._mcp_imports.remove, name).get()
        return self

    async def aremove_mcp(self, name: str) -> Self:
        """Remove an MCP server from async code, as `remove_mcp` does."""
        self._view.refuse_change("remove an MCP server")
        await background_loop.arun(self._mcp_imports.remove, name)
        return self

    def refresh_mcp(self, name: str | None = None) -> dict[str, Changes]:
        """Ask an MCP server, or all of them, for their tools again, and return what has changed, by server.

        What is bound here stays bound, what was removed here stays removed. Raises ToolLookupError, and for a server
        that is named ToolConnectionError.
        """
        changes: dict[str, Changes] = background_loop.run(capture_outcome, self._mcp_imports.refresh, name).get()
        return changes

    async def arefresh_mcp(self, name: str | None = None) -> dict[str, Changes]:
        """Ask an MCP server, or all of them, for their tools again from async code, as `refresh_mcp` does."""
        return await background_loop.arun(self._mcp_imports.refresh, name)

    @property
    def servers(self) -> dict[str, RemoteServer]:
        """The MCP servers by name: what each tells, what of it is refused, what has to be accepted."""
        return self._mcp_imports.servers

    @property
    def _mcp_imports(self) -> MCPImports:
        from ahvn_tools.toolkit.mcp_imports import MCPImports  # few toolkits have a server

        own = self._view.session_states[-1]
        return MCPImports(self._view.store, lambda: own.state)

    # state and bindings

    @property
    def state(self) -> MutableMapping[str, Any]:
        """The values that bound parameters are read from, at each call: a session's own, or the toolkit's."""
        return self._view.session_state.state

    @state.setter
    def state(self, state: MutableMapping[str, Any]) -> None:
        self._view.session_state.state = _validate_state(state)

    @property
    def session_id(self) -> str | None:
        """The id of the session; None on the toolkit itself."""
        return self._view.session_state.session_id if self._view.is_session else None

    def bind(
        self,
        param: str,
        state_key: str | None = None,
        default: Any = UNSET,
        *,
        resolver: Callable[..., Any] | None = None,
        secret: bool = False,
    ) -> Self:
        """Bind a parameter in every tool that has it, now and later, as `ToolSpec.bind` does in one."""
        self._view.refuse_change("bind")
        binding = Binding.create(param, state_key, default, resolver, is_secret=secret)
        binding.store_default(default, self.state)
        self._view.store.bind(binding)
        return self

    def unbind(self, param: str) -> Self:
        """Take back what `bind` did. What a spec has bound by itself stays bound."""
        self._view.refuse_change("unbind")
        self._view.store.unbind(param)
        return self

    @property
    def max_concurrency(self) -> int:
        """How many calls of one answer run at once, in every session alike."""
        return self._view.store.max_concurrency

    @max_concurrency.setter
    def max_concurrency(self, value: int) -> None:
        self._view.refuse_change("set max_concurrency")
        self._view.store.max_concurrency = validate_max_concurrency(value)

    def session(
        self, state: MutableMapping[str, Any] | None = None, /, *, session_id: str | None = None, **values: Any
    ) -> Toolkit:
        """Return the toolkit for one session: with a state of its own, and its own active groups.

        Lookup goes from the session's state to the toolkit's, then to the tool's own. `state` is kept, not copied;
        `values` are put into it. Tools that are added to the toolkit later are there, too.
        """
        if state is None:
            return self._with_view(self._view.session(SessionState(values, session_id)))
        _validate_state(state).update(values)
        return self._with_view(self._view.session(SessionState(state, session_id)))

    # groups and selections

    def group(self, name: str, description: str = "", *, active: bool = False, notes: str | None = None) -> Self:
        """Define a group of tools that is switched on and off as one; `notes` are for the model while it is active."""
        self._view.refuse_change("define a group")
        self._view.store.define_group(Group(name=name, description=description, is_active=active, notes=notes))
        return self

    def remove_group(self, name: str) -> Self:
        """Remove a group with its tools. Raises ToolLookupError, and ToolkitError for the basic group."""
        self._view.refuse_change("remove a group")
        self._view.store.remove_group(name)
        return self

    @property
    def groups(self) -> dict[str, bool]:
        """The groups by name, and whether they are active here."""
        return {name: group.is_active for name, group in self._view.groups().items()}

    def activate(self, *names: str) -> Self:
        """Switch groups on, for this session alone or, on the toolkit, for all that have not switched them."""
        return self.set_groups(dict.fromkeys(names, True))

    def deactivate(self, *names: str) -> Self:
        """Switch groups off, as `activate` switches them on. Raises ToolkitError for the basic group."""
        return self.set_groups(dict.fromkeys(names, False))

    def set_groups(self, active: Mapping[str, bool]) -> Self:
        """Switch all of these groups or none. Raises ToolLookupError, and ToolkitError for the basic group off."""
        self._view.store.set_groups(self._view.session_state, active)
        return self

    @property
    def notes(self) -> str:
        """The notes of the groups that are active here, for a system prompt."""
        groups = self._view.groups().values()
        return "\n\n".join(f"## {group.name}\n{group.notes}" for group in groups if group.is_active and group.notes)

    def select(self, **selection: Unpack[SelectionOptions]) -> Toolkit:
        """Return a live view of those tools that all of these conditions admit; others cannot be called in it.

        `names`, `tags` (one of them), `groups`, `audience`, `toolset` (a saved selection), `where` (a function of the
        definition). Views nest and share state with what they are taken from.
        """
        return self._with_view(self._view.select(Selection.from_options(selection)))

    def toolset(self, name: str, **selection: Unpack[SelectionOptions]) -> Self:
        """Save a selection under a name, for `select(toolset=name)`."""
        self._view.refuse_change("save a toolset")
        self._view.store.save_toolset(name, Selection.from_options(selection))
        return self

    def use(self, middleware: Middleware) -> Callable[[], None]:
        """Add a middleware, `async (call, next) -> ToolResult`, inside of those that are there. Return the undo."""
        self._view.refuse_change("use a middleware")
        return self._view.store.use(middleware)

    # for the model

    def definitions(self) -> list[ToolDefinition]:
        """Return what a model is shown, tool by tool: every tool that is shown here, unless `add_search` was called."""
        return [self._view.definition(entry) for entry in searching.listed_entries(self._view)]

    def to(self, format: str, /, **options: Any) -> list[JsonObject]:  # noqa: A002  # the word for it
        """Return the tools as a format writes them down, such as `"openai"`; the options are those of its `export`."""
        return formats.get(format).export(self.definitions(), **options)

    def to_prompt(self) -> str:
        """Return the tools as a list for a model: of each its call and its docstring."""
        return "\n".join(text.prompt(definition) for definition in self.definitions())

    # for large toolkits

    def search(self, query: str, k: int = 10) -> list[ToolSpec]:
        """Return at most `k` of the tools that are shown here, those first that fit the query best.

        Words are looked for in names, descriptions, parameters, tags and examples; one that fits is enough. Raises
        ToolkitError where SQLite has no full-text index.
        """
        return [ToolkitTool(self._view, entry) for entry in searching.search_entries(self._view, query, k)]

    def add_search(self, core: Iterable[str] = (), **options: Unpack[EntryOptions]) -> Self:
        """Add `search_tools` and `call_tool`, and list a model no more than these and the tools named in `core`.

        The others are found and called through the pair: all that the view or session shows that is asked. Options are
        those of `add`. Raises ToolLookupError for a name in `core` that is no tool.
        """
        pair = Toolkit("search").add(search_tools.search_tools).add(search_tools.call_tool)
        core = self._view.store.require_names(core)
        self.add(pair, **options)
        self._view.store.search_listing = SearchListing(core=core, search_tool_names=tuple(tool.name for tool in pair))
        return self

    def groups_tool(self) -> ToolSpec:
        """Return the tool `set_groups` for a model, to be added: it switches groups for the session that calls it.

        It takes one boolean for each group that there is when it is shown; those left out are switched off.
        """
        return search_tools.GroupsTool(self._view.store)

    def finish_with(self, tool: str, model: type[BaseModel] | None) -> Self:
        """Let a tool take the fields of a pydantic model, too, here alone: in this session or, on the toolkit, in all.

        They are checked before the tool's own arguments, and the instance is `meta["structured"]` of the result. The
        body gets them only if it takes `**kwargs`. None takes it back, and in a session the toolkit's, too. Raises
        ToolLookupError for an unknown tool, ToolkitError for a field that the tool has as well (seed 001).
        """
        entry = self._view.store.entry(tool)
        self._view.store.set_structured_output(
            self._view.session_state, entry, None if model is None else StructuredOutput(entry, model)
        )
        return self

    # for MCP clients

    def to_fastmcp_server(self, **options: Unpack[ToolkitServerOptions]) -> FastMCP:
        """Return a FastMCP server of what is shown here: each request runs in a session of its own.

        `state=f` fills that session, `audience` says whom it is for (a name, or a function of the request), `auth` is
        FastMCP's. What changes here is served with the next request. `ahvn_tools.serve` runs it, with its HTTP door
        guarded against foreign hosts and origins; FastMCP's own `run` leaves that open.
        """
        from ahvn_tools.toolkit.mcp_server import build_fastmcp_server

        return build_fastmcp_server(self.name, self._view, options)

    # what is kept

    def state_dict(self, *, strict: bool = False) -> JsonObject:
        """Return, as JSON, what this toolkit or session holds: the groups that it has switched and its state.

        A toolkit's has its toolsets, too, those without a function. What has no JSON form is left out and named in
        `"omitted"`; when strict, it is a ToolkitError. What any tool here has bound as secret never leaves.
        """
        return snapshot.state_dict(self._view, strict=strict)

    def load_state_dict(self, data: Mapping[str, Any], strict: bool = True) -> Self:
        """Put back what `state_dict` gave: just those groups are switched, its toolsets and state go over what is here.

        Nothing is changed unless all of it fits. Raises ToolkitError for another shape or version and, when strict, for
        unknown parts, ToolLookupError for unknown groups; otherwise these are ignored with a warning.
        """
        snapshot.load_state_dict(self._view, data, strict=strict)
        return self

    # calls

    def call(
        self,
        name: str,
        arguments: JsonObject | None = None,
        /,
        *,
        timeout: float | None = None,
        call_id: str | None = None,
    ) -> Any:
        """Call a tool and return the value, or raise as a spec does.

        Besides, ToolNotFoundError, and ToolNotAvailableError for a tool that is not shown here. `timeout`, in seconds:
        the shortest of this, the toolkit's and the tool's own holds. Raises ToolkitError where a body in its
        loop (`run_in_thread=False`) could not be interrupted. `call_id` is for `cancel`.
        """
        return calls.call(self._view, name, arguments, calls.CallOptions.create(timeout, call_id))

    async def acall(
        self,
        name: str,
        arguments: JsonObject | None = None,
        /,
        *,
        timeout: float | None = None,
        call_id: str | None = None,
    ) -> Any:
        """Call a tool from async code and return the value, or raise as `call` does."""
        return await calls.acall(self._view, name, arguments, calls.CallOptions.create(timeout, call_id))

    def exec(
        self,
        name: str,
        arguments: JsonObject | None = None,
        /,
        *,
        timeout: float | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Call a tool and return a ToolResult, whatever comes of it."""
        return calls.execute(self._view, name, arguments, calls.CallOptions.create(timeout, call_id))

    async def aexec(
        self,
        name: str,
        arguments: JsonObject | None = None,
        /,
        *,
        timeout: float | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Call a tool from async code and return a ToolResult, whatever comes of it."""
        return await calls.aexecute(self._view, name, arguments, calls.CallOptions.create(timeout, call_id))

    def stream(
        self,
        name: str,
        arguments: JsonObject | None = None,
        /,
        *,
        timeout: float | None = None,
        call_id: str | None = None,
    ) -> Generator[ToolResult, None, None]:
        """Call a tool and yield one result per item as it is made, then the whole with `is_last=True`."""
        return calls.stream(self._view, name, arguments, calls.CallOptions.create(timeout, call_id))

    def astream(
        self,
        name: str,
        arguments: JsonObject | None = None,
        /,
        *,
        timeout: float | None = None,
        call_id: str | None = None,
    ) -> AsyncGenerator[ToolResult, None]:
        """Call a tool from async code and yield results as `stream` does."""
        return calls.astream(self._view, name, arguments, calls.CallOptions.create(timeout, call_id))

    def cancel(self, call_id: str) -> bool:
        """Cancel the calls of this id, from any thread, and tell whether there are any; a session cancels its own.

        Their last result is `is_interrupted`, with the items so far as its value and the code `cancelled`; `call`
        raises CallCancelledError. An async body is cancelled. A sync one is told by its ToolContext: where it runs in
        its caller's thread it ends when it looks, elsewhere its thread is left behind. Calls of a `run` have the ids
        of the model's calls; a ToolContext, chunks, logs and results tell the id of others.
        """
        return self._view.store.active_calls.cancel(call_id, self._view.session_state)

    def run(self, answer: Any, *, format: str | None = None) -> Run:  # noqa: A002  # the word for it
        """Run all calls of a model's answer, in parallel, and return the messages that answer them.

        `answer` is what a format's `calls` reads; or a list of ToolCalls, and then messages are made when `format` is
        given. A call that cannot be run is answered with why. Works inside a running event loop, too.
        """
        return self._batch(answer, format).run()

    async def arun(self, answer: Any, *, format: str | None = None) -> Run:  # noqa: A002  # as above
        """Run all calls of a model's answer from async code, as `run` does."""
        return await self._batch(answer, format).arun()

    def resume(
        self,
        waiting: Run | ApprovalRequest | Mapping[str, Any],
        *,
        approved: bool | Mapping[str, bool],
        arguments: Mapping[str, Any] | None = None,
    ) -> Run:
        """Run or reject the calls that waited to be allowed, and return the finished Run.

        `waiting` is a Run with pending calls, or one request (its JSON data will do, in another process, too); then
        the Run has results and no messages. `approved` is for all of a Run's calls, or says it by call id. `arguments`
        are the approver's own, in the place of the model's: of a request, or by call id; what a request hides as secret
        has to be among them. A tool that has changed since is not run: its call ends with the code `changed`.

        Raises ToolkitError for a request of another session, and for arguments that are not those that were asked for.
        """
        return self._resumed_batch(waiting, approved, arguments).run()

    async def aresume(
        self,
        waiting: Run | ApprovalRequest | Mapping[str, Any],
        *,
        approved: bool | Mapping[str, bool],
        arguments: Mapping[str, Any] | None = None,
    ) -> Run:
        """Run or reject, from async code, the calls that waited to be allowed, as `resume` does."""
        return await self._resumed_batch(waiting, approved, arguments).arun()

    def _resumed_batch(
        self,
        waiting: Run | ApprovalRequest | Mapping[str, Any],
        approved: bool | Mapping[str, bool],
        arguments: Mapping[str, Any] | None,
    ) -> Batch:
        return resumed_batch(
            self._view, waiting, approved=approved, arguments=arguments, max_concurrency=self.max_concurrency
        )

    def _batch(self, answer: Any, format: str | None) -> Batch:  # noqa: A002  # as above
        return Batch(
            view=self._view,
            calls=self._parse_calls(answer, format),
            format=format,
            max_concurrency=self.max_concurrency,
        )

    def _parse_calls(self, answer: Any, format: str | None) -> Sequence[ToolCall]:  # noqa: A002  # as above
        if format is not None:
            formats.get(format)  # an unknown one is an error before anything has run
        if isinstance(answer, ToolCall):
            return [answer]
        if isinstance(answer, list | tuple) and all(isinstance(call, ToolCall) for call in answer):
            return answer
        if format is None:
            raise ToolkitError('Say which format the answer is in: run(answer, format="openai").')
        return formats.get(format).calls(answer, self._view.definitions())

    def _with_view(self, view: StoreView) -> Toolkit:
        """Return the toolkit as another view shows it."""
        other = object.__new__(type(self))
        other.name, other._view = self.name, view
        return other

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuse to be copied or pickled: sessions and calls in flight belong to this one."""
        raise PickleError(
            f"The toolkit {self.name!r} cannot be copied or pickled. Make another with Toolkit(…).add(toolkit), "
            "or take single tools along: toolkit[name].clone()."
        )

    def __repr__(self) -> str:
        count = len(self)
        session = f" session {self.session_id!r}" if self.session_id is not None else ""
        return f"<Toolkit {self.name!r}{session} of {count} tool{'' if count == 1 else 's'}>"


def _validate_state(state: Any) -> MutableMapping[str, Any]:
    if not isinstance(state, MutableMapping):
        raise TypeError(f"state must be a mapping such as a dict, not {type(state).__name__}.")
    return state
