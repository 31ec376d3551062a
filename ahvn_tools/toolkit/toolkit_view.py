"""ToolkitView: a toolkit as a host or a model uses it: read, select, open sessions, call and export."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, Unpack, overload

from pydantic import BaseModel

from ahvn_tools import formats, text
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import PickleError, SourceError, ToolkitError, ToolLookupError, near_misses
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import DIRECT
from ahvn_tools.roots import Roots, to_roots
from ahvn_tools.schema.dialects.finding import Finding
from ahvn_tools.spec import ToolSpec
from ahvn_tools.state import UNSET
from ahvn_tools.toolkit import check, snapshot
from ahvn_tools.toolkit.duplicates import Duplicate
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.entry_options import validate_name
from ahvn_tools.toolkit.exported_callers import export_arguments
from ahvn_tools.toolkit.group_view import GroupView, ToolsetView
from ahvn_tools.toolkit.selection import Selection, SelectionOptions
from ahvn_tools.toolkit.sessions import SessionState
from ahvn_tools.toolkit.tool import ToolkitTool
from ahvn_tools.toolkit.toolkit_calls import ToolkitCalls
from ahvn_tools.toolkit.visibility import StoreView

if TYPE_CHECKING:
    from fastmcp import FastMCP

    from ahvn_tools.formats import FormatName, sdk_types
    from ahvn_tools.toolkit.mcp_server import ToolkitServerOptions


_HINTS = {"tools": "Iterate over it for its tools: list(kit).", "serve": "Call ahvn_tools.serve(kit)."}
"""What to use instead of attributes that a toolkit does not have."""


class ToolkitView(ToolkitCalls):
    """The tools, state, exports and calls of a toolkit, session or selection; `Toolkit` adds what changes it."""

    __slots__ = ("name",)

    name: str
    """The name of the toolkit."""

    def _with_view(self, view: StoreView) -> Self:
        """Return an object of the same class with another view of the store."""
        other = object.__new__(type(self))
        other.name, other._view = self.name, view
        return other

    def __iter__(self) -> Iterator[ToolkitTool]:
        """Yield the tools here, in the order in which they were added.

        The toolkit itself has the tools of inactive groups, too. A session or a selection has them only if it was made
        with `select(inactive=True)`. They are exported and called only while their group is active.
        """
        return (ToolkitTool.create(self._view, entry) for entry in self._view.contained_entries())

    def __len__(self) -> int:
        return sum(1 for _ in self._view.contained_entries())

    def __bool__(self) -> bool:
        """Return True: a toolkit without tools is a toolkit, too."""
        return True

    def __contains__(self, name: object) -> bool:
        entry = self._find_entry(name)
        return entry is not None and self._view.contains(entry)

    def _find_entry(self, name: object) -> Entry | None:
        return self._view.store.entries.get(name) if isinstance(name, str) else None

    def __getitem__(self, name: str) -> ToolkitTool:
        """Return one of the tools that iteration gives. Raises ToolLookupError (a KeyError) for another name."""
        entry = self._find_entry(name)
        if entry is not None and self._view.contains(entry):
            return ToolkitTool.create(self._view, entry)
        if entry is not None and self._view.is_selected(entry) and not self._view.is_active(entry.group):
            raise ToolLookupError(
                f"The tool {name!r} is in the group {entry.group!r}, which is not active here. "
                "Activate it, or use the toolkit itself or select(inactive=True)."
            )
        if entry is not None and self._view.with_all_audiences().contains(entry):
            raise ToolLookupError(
                f"The tool {name!r} is not for the audience of this session: open it with session(audience=…), or with "
                "audience=None for every audience."
            )
        known = [entry.name for entry in self._view.contained_entries()]
        raise ToolLookupError(f"There is no tool {name!r} here. {near_misses(str(name), known)}")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuse copies and pickles: sessions and active calls belong to this object."""
        raise PickleError(
            f"The toolkit {self.name!r} cannot be copied or pickled. Make another with Toolkit(…).add(toolkit), "
            "or take single tools along: toolkit[name].clone()."
        )

    def __repr__(self) -> str:
        count = len(self)
        session = f" session {self.session_id!r}" if self.session_id is not None else ""
        return f"<Toolkit {self.name!r}{session} of {count} tool{'' if count == 1 else 's'}>"

    def _repr_html_(self) -> str:
        """Return a table of the tools here, for notebooks."""
        from ahvn_tools.toolkit.html_tables import tools_table  # only a notebook needs it

        tools = (ToolkitTool.create(self._view, entry) for entry in self._view.contained_entries())
        return tools_table(repr(self), tools)

    @property
    def state(self) -> MutableMapping[str, Any]:
        """The values of bound parameters, read at each call: the session's own state, or the toolkit's.

        It is the mapping that was passed: one that cannot be changed is only read.
        """
        return self._view.session_state.state  # type: ignore[return-value]  # mutable unless the host has chosen another

    @state.setter
    def state(self, state: Mapping[str, Any]) -> None:
        self._view.session_state.state = validate_state(state)

    @property
    def session_id(self) -> str | None:
        """The id of the session; None on the toolkit itself."""
        return self._view.session_state.session_id if self._view.is_session else None

    def session(
        self,
        /,
        state: Mapping[str, Any] | None = None,
        *,
        session_id: str | None = None,
        roots: Roots | None = None,
        audience: str | None = UNSET,  # type: ignore[assignment]  # None is every audience
        **values: Any,
    ) -> Self:
        """Return the toolkit for one session: with its own state, and its own active groups.

        A call reads the session's state first, then the toolkit's, then the tool's own. The session uses `state` itself
        and no copy; `values` are put into it. Tools that are added to the toolkit later appear in the session, too.
        `roots` are the folders that tools may use here, in place of the toolkit's. `audience` is who the session is
        for, as in `select`: it has the tools for this audience and those for everyone, None has those for every
        audience. Without it, the session is for the audience of the view that it is opened on; if that names none, it
        has only tools for everyone. A value of one of these names goes into the state: `session({"audience": …})`.

        A `session_id` names one session. While it is in use, and for an hour if it is among the last 10,000, it is
        opened again with its state, active groups and background calls: `state` then replaces its own, and `values`
        are put into it, for everything that uses the session. The audience is that of the returned object.
        Without an id each session is new.

        Raises TypeError for a state that is no mapping, ToolkitError for values beside a state that cannot be changed,
        for a value named `id`, for an id or an audience that is no text, for an empty id and for roots that are no
        paths.
        """
        if "id" in values:
            raise ToolkitError(
                "`session` has no option 'id'. Did you mean session_id=…? Pass a value named 'id' in the state: "
                "session({'id': …})."
            )
        own_roots, view = None if roots is None else to_roots(roots), self._view_for(audience)
        own_state = SessionState(values if state is None else validate_state(state))
        if state is not None and values:
            own_state.mutable_state().update(values)
        if session_id is None:
            return self._with_view(view.session(own_state, roots=own_roots))
        sessions = self._view.session_state.named_sessions
        session_state, background_calls = sessions.open(validate_name("id of a session", session_id))
        if state is not None:
            session_state.state = own_state.state
        elif values:
            session_state.mutable_state().update(values)
        return self._with_view(view.session(session_state, background_calls, own_roots))

    def _view_for(self, audience: Any) -> StoreView:
        """Return the view on which to open a session for an audience."""
        if audience is UNSET:
            return self._view
        if audience is None:
            return self._view.with_all_audiences()
        return self._view.select(Selection.from_options({"audience": audience}))

    if not TYPE_CHECKING:  # a type checker would accept any attribute

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError, with similar names."""
            kind = type(self).__name__
            text = f"{kind!r} object has no attribute {name!r}"
            if not name.startswith("_"):
                known = [known for known in dir(type(self)) if not known.startswith("_")]
                hint = _HINTS.get(name) or near_misses(name, known)
                text = f"{text}. {hint}" if not hint.startswith("None") else text
            raise AttributeError(text, name=name, obj=self)

    def select(self, *, inactive: bool = False, **selection: Unpack[SelectionOptions]) -> Self:
        """Return a live view of the tools that meet all of these conditions; others cannot be called in it.

        `names`, `tags` (one of them), `groups`, `audience`, `toolset` (a saved selection), `where` (a function of the
        definition), `any_of` (at least one of these toolsets and conditions: `["reading", {"names": ["find"]}]`). Views
        nest and share state with what they are taken from. With `inactive` the view also lists and indexes the tools of
        inactive groups. It neither exports nor calls them.
        """
        chosen = Selection.from_options(selection)
        self._view.store.require_defined_groups(chosen)
        return self._with_view(self._view.select(chosen, inactive=inactive))

    @property
    def groups(self) -> dict[str, bool]:
        """The groups by name, and whether they are active here. A selection has no group of whose tools it has none."""
        return {name: group.is_active for name, group in self._view.groups().items()}

    def group(self, name: str) -> GroupView:
        """Return a group as it is here: its `name`, `description`, `notes`, `tools`, and whether it is `active`.

        Raises ToolLookupError for a group that is not here.
        """
        return GroupView(self._view, name)

    @property
    def toolsets(self) -> dict[str, ToolsetView]:
        """The toolsets by name."""
        return {name: self.toolset(name) for name in list(self._view.store.toolsets)}

    def toolset(self, name: str) -> ToolsetView:
        """Return a toolset: its `name` and `description`, and the `tools` here that are in it.

        `select(toolset=name)` is a view of them. Raises ToolLookupError for an unknown toolset.
        """
        return ToolsetView(self._view, name)

    @property
    def tags(self) -> dict[str, list[str]]:
        """The tags of the tools here in alphabetical order, each with the names of the tools that have it."""
        names: dict[str, list[str]] = {}
        for tool in self:
            for tag in tool.tags:
                names.setdefault(tag, []).append(tool.name)
        return dict(sorted(names.items()))

    @property
    def duplicates(self) -> list[Duplicate]:
        """What was done about tools whose names were taken: the last 1,000 decisions, each once, in their order."""
        return list(self._view.store.duplicates)

    @property
    def load_errors(self) -> tuple[SourceError, ...]:
        """The parts of the sources that `load` has skipped, because they cannot be loaded."""
        return self._view.store.load_errors

    @property
    def notes(self) -> str:
        """The notes of the groups that are active here, for a system prompt."""
        groups = self._view.groups().values()
        return "\n\n".join(f"## {group.name}\n{group.notes}" for group in groups if group.is_active and group.notes)

    def activate(self, *names: str) -> Self:
        """Switch groups on: for this session alone or, on the toolkit, for all sessions that have not switched them."""
        return self.set_groups(dict.fromkeys(names, True))

    def deactivate(self, *names: str) -> Self:
        """Switch groups off, as `activate` switches them on. Raises ToolkitError for the basic group."""
        return self.set_groups(dict.fromkeys(names, False))

    def set_groups(self, active: Mapping[str, bool]) -> Self:
        """Switch all of these groups or none. Raises ToolLookupError, and ToolkitError for the basic group off."""
        self._view.set_groups(active)
        return self

    def finish_with(self, tool: str, model: type[BaseModel] | None) -> Self:
        """Let a tool also take the fields of a pydantic model: in this session alone or, on the toolkit, in all.

        They are validated before the tool's own arguments, and the instance is `meta["structured"]` of the result. The
        body receives them only if it takes `**kwargs`. None undoes it; in a session it undoes the toolkit's, too.
        Raises ToolLookupError for an unknown tool, ToolkitError for a field that is also a parameter of the tool.
        """
        store = self._view.store
        entry = store.entry(tool)
        from ahvn_tools.toolkit.structured_output import StructuredOutput  # slow, and few toolkits need it

        structured_output = None if model is None else StructuredOutput(entry, model)
        store.set_structured_output(self._view.session_state.switches, entry, structured_output)
        return self

    def state_dict(self, *, strict: bool = False) -> JsonObject:
        """Return, as JSON, what this toolkit or session holds: the groups that it has switched, and its state.

        A toolkit's contains its toolsets, too, those without a function. What has no JSON form is left out and named in
        `"omitted"`; with `strict` it raises ToolkitError. A value that any tool here binds as secret is never included;
        `"omitted"` has its key.
        """
        return snapshot.state_dict(self._view, strict=strict)

    def load_state_dict(self, data: Mapping[str, Any], strict: bool = True) -> Self:
        """Restore what `state_dict` returned: switch just those groups, merge its toolsets and state into those here.

        Nothing is changed unless all of it fits. Raises ToolkitError for another shape or version and, when strict, for
        unknown parts, ToolLookupError for unknown groups; otherwise these are ignored with a warning.
        """
        snapshot.load_state_dict(self._view, data, strict=strict)
        return self

    def check(self) -> list[Finding]:
        """Return what has no effect in this toolkit, or cannot be used as it is; in a session or selection as well.

        Bindings that no tool has, presets and patterns of `add_mcp` that match nothing, tools of servers that are not
        used, empty groups and toolsets, names that are one name to a model, tools with a parameter that must be bound,
        tools that no model can call in code mode, and tools without a description.
        """
        return check.find_all(self._view)

    def lint(self, *, formats: Iterable[str] | None = None, ignore: Iterable[str] = ()) -> list[Finding]:
        """Return what `check` returns, and what is wrong with each tool here: the rules are `ahvn_tools.lint.RULES`.

        Names, descriptions, parameters, hidden characters, prompt injections, and what the formats change or refuse: of
        these `formats`, or of all. Rules in `ignore` are left out. Raises ToolSpecError for an unknown rule.

        >>> from ahvn_tools import Toolkit
        >>> def find(query: str): ...
        >>> [finding.rule for finding in Toolkit("notes").add(find).lint(formats=["openai"])]
        ['missing-description', 'undocumented-parameter']
        """
        from ahvn_tools.toolkit import lint  # only a check needs it

        return lint.find_all(self._view, formats=formats, ignore=ignore)

    def definitions(self) -> list[ToolDefinition]:
        """Return the definitions to list to a model: of each visible tool or, after `add_search`, of those it lists."""
        return [self._view.definition(entry) for entry in self._view.listed_entries()]

    @overload
    def to(
        self, format: Literal["anthropic"], /, *, read_only: bool = ..., **options: Any
    ) -> list[sdk_types.AnthropicTool]: ...
    @overload
    def to(
        self, format: Literal["gemini"], /, *, read_only: bool = ..., **options: Any
    ) -> list[sdk_types.GeminiTool]: ...
    @overload
    def to(
        self, format: Literal["mistral"], /, *, read_only: bool = ..., **options: Any
    ) -> list[sdk_types.MistralTool]: ...
    @overload
    def to(
        self, format: Literal["openai"], /, *, read_only: bool = ..., **options: Any
    ) -> list[sdk_types.OpenAITool]: ...
    @overload
    def to(
        self, format: Literal["openai-responses"], /, *, read_only: bool = ..., **options: Any
    ) -> list[sdk_types.OpenAIResponsesTool]: ...
    @overload
    def to(self, format: FormatName | str, /, *, read_only: bool = ..., **options: Any) -> list[JsonObject]: ...
    def to(self, format: str, /, *, read_only: bool = False, **options: Any) -> Any:  # noqa: A002  # the word for it
        """Return the tools in a format such as `"openai"`; the options are those of the format's `export`.

        Each export is a new object. With `read_only`, it is the same object until a tool here changes: a list that
        refuses changes at any depth with a TypeError. The `allowed_callers` of a tool are exported where the provider
        runs programs; elsewhere a tool that only programs may call is left out.

        Findings of `check` are logged as warnings, each once. Raises ToolkitError for them in a strict toolkit.
        """
        check.report_changes(self._view)
        definitions, options = export_arguments(self._view, format, options)
        if read_only:
            return self._view.store.exports.export(format, definitions, options)
        return formats.export(format, definitions, options)

    def to_prompt(self) -> str:
        """Return the tools that a model may call itself as text for it: the signature and the docstring of each."""
        entries = [entry for entry in self._view.listed_entries() if entry.allows(DIRECT)]
        return "\n".join(text.prompt(self._view.definition(entry)) for entry in entries)

    def to_fastmcp_server(self, **options: Unpack[ToolkitServerOptions]) -> FastMCP:
        """Return a FastMCP server of the visible tools; each request runs in its own session.

        `state=f` fills that session, `audience` restricts the tools (a name, or a function of the request), `auth` is
        FastMCP's. A change here is served with the next request. `ahvn_tools.serve` runs the server, and its HTTP
        endpoint refuses foreign hosts and origins; FastMCP's own `run` does not check them.
        """
        from ahvn_tools.toolkit.mcp_server import build_fastmcp_server

        return build_fastmcp_server(self.name, self._view, options)

    def search(self, query: str, k: int = 10) -> list[ToolSpec]:
        """Return at most `k` of the visible tools, best match first.

        Words are looked for in names, descriptions, parameters, tags and examples; one match is enough. Raises
        ToolkitError where SQLite has no full-text index.
        """
        return [ToolkitTool.create(self._view, entry) for entry in self._view.search(query, k)]


def validate_state(state: Any) -> Mapping[str, Any]:
    """Return a state. Raises TypeError unless it is a mapping."""
    if not isinstance(state, Mapping):
        raise TypeError(f"state must be a mapping such as a dict, not {type(state).__name__}.")
    return state
