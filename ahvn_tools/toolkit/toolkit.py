"""Toolkit: an ordered collection of tools with shared state, for many sessions."""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, TypeVar, Unpack, cast, overload

from pydantic import BaseModel

from ahvn_tools import formats, text
from ahvn_tools.binding import Binding
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import (
    PickleError,
    SourceError,
    ToolkitError,
    ToolLookupError,
    near_misses,
    suggests_options,
)
from ahvn_tools.json_types import JsonObject
from ahvn_tools.registry import ToolRegistry
from ahvn_tools.results import DIRECT, ToolResult
from ahvn_tools.roots import Roots, to_roots
from ahvn_tools.schema.annotations import Namespace, caller_locals
from ahvn_tools.schema.dialects.finding import Finding
from ahvn_tools.secret_key import SecretKey
from ahvn_tools.settings import FLAG, OUTPUT_FORM, OutputForm, ToolOptions
from ahvn_tools.spec import ToolSpec, validate_spec_class
from ahvn_tools.state import UNSET
from ahvn_tools.toolkit import calls, check, model_tools, snapshot
from ahvn_tools.toolkit.approval_store import DEFAULT_EXPIRY, ApprovalStore, to_approval_store
from ahvn_tools.toolkit.background_calls import DEFAULT_MAX_RUNNING
from ahvn_tools.toolkit.calls import CallKeywords
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.entry_factory import OtherToolkit, Rename, to_entries
from ahvn_tools.toolkit.entry_options import (
    COUNT,
    TIMEOUT,
    WAIT,
    AddOptions,
    EntryOptions,
    OnDuplicate,
    SkillOptions,
    checked,
    to_name_set,
    validate_callable,
    validate_name,
)
from ahvn_tools.toolkit.name_clashes import Duplicate
from ahvn_tools.toolkit.search import Rank, SearchListing, refuse_second_listing, refuse_taken_names
from ahvn_tools.toolkit.selection import Group, Selection, SelectionOptions, Toolset
from ahvn_tools.toolkit.sessions import SessionState
from ahvn_tools.toolkit.store import ToolStore, lookup
from ahvn_tools.toolkit.tool import GroupView, ToolkitTool, ToolsetView, export_arguments
from ahvn_tools.toolkit.visibility import StoreView

if TYPE_CHECKING:  # slow, and few toolkits need it
    from concurrent.futures import Executor

    from fastmcp import FastMCP

    from ahvn_tools.code_mode import CodeLimits, Sandbox
    from ahvn_tools.execution.call import Middleware
    from ahvn_tools.formats import FormatName, sdk_types
    from ahvn_tools.mcp.client.remote_server import RemoteServer
    from ahvn_tools.mcp.trust.changes import Changes
    from ahvn_tools.middleware.approve import Approver
    from ahvn_tools.skills.skill import Skill
    from ahvn_tools.toolkit.approval_rules import ApprovalRules, Mode
    from ahvn_tools.toolkit.background_calls import CallStatus
    from ahvn_tools.toolkit.batch import Batch, ModelAnswer
    from ahvn_tools.toolkit.conversation import Conversation
    from ahvn_tools.toolkit.conversation_loop import ConversationLoop, ConverseOptions, Event, ModelFunction, Start
    from ahvn_tools.toolkit.imported_server import ImportOptions
    from ahvn_tools.toolkit.mapped_calls import MappedCall
    from ahvn_tools.toolkit.mcp_imports import MCPImports
    from ahvn_tools.toolkit.mcp_server import ToolkitServerOptions
    from ahvn_tools.toolkit.resume import Waiting
    from ahvn_tools.toolkit.run import Decisions, Run
    from ahvn_tools.toolkit.tool_rules import RuleDecision


Function = TypeVar("Function", bound=Callable[..., Any])


_HINTS = {"tools": "Iterate over it for its tools: list(kit).", "serve": "Call ahvn_tools.serve(kit)."}
"""What to use instead of attributes that a toolkit does not have."""

_NOT_VALUES = {
    "id": "Did you mean session_id=…?",
    "groups": "Activate groups in the session: session().activate('…').",
}
"""Names that are taken for options of `session`, and what to use instead."""


Arguments = JsonObject | None
"""Arguments by parameter; None for no argument."""


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

    Its sessions and selections are Toolkits, too; a method that changes the toolkit raises ToolkitError on them.
    """

    __slots__ = ("_view", "name")

    name: str
    """The name of the toolkit."""
    _view: StoreView

    @suggests_options
    def __init__(
        self,
        name: str,
        *,
        state: Mapping[str, Any] | None = None,
        middleware: Sequence[Middleware] = (),
        approver: Approver | None = None,
        rules: ApprovalRules | None = None,
        secret_key: str | bytes | None = None,
        approval_store: str | PathLike[str] | ApprovalStore | None = None,
        approval_expiry: float | None = DEFAULT_EXPIRY,
        timeout: float | None = None,
        max_concurrency: int = 16,
        max_background: int = DEFAULT_MAX_RUNNING,
        roots: Roots | None = None,
        executor: Executor | None = None,
        on_duplicate: OnDuplicate = "raise",
        mask_errors: bool = True,
        strict: bool = False,
        output: OutputForm = "json",
        spec_class: type[ToolSpec] = ToolSpec,
    ) -> None:
        """Begin with no tool.

        - `name`: that of the toolkit, in messages and for clients of its server.
        - `state`: the values of bound parameters, for all sessions.
        - `middleware`: wraps every call, outermost first.
        - `approver`: decides on calls of tools that require an approval; without one these calls wait for `resume`.
        - `rules`: which calls run, need an approval or are denied.
        - `secret_key`: signs what waits; at least 16 bytes. It is random by default, and must be the same in all
          processes that resume each other's calls.
        - `approval_store`: the path of a SQLite file in which these processes remember which requests were decided, or
          an object with the methods of an ApprovalStore; by default this toolkit remembers them in memory.
        - `approval_expiry`: for how many seconds a request can be approved, 7 days by default; None: forever.
        - `timeout`: how many seconds any call may take without its middleware; None: no limit.
        - `max_concurrency`: how many calls of one answer run at once.
        - `max_background`: how many background calls of one session run at once.
        - `roots`: the folders, as paths or `file:` URIs, that a tool finds in its ToolContext.
        - `executor`: any of `concurrent.futures`, where the bodies of tools with `isolation="executor"` run; the host
          shuts it down.
        - `on_duplicate`: what happens to a second tool of the same name: `"raise"` ToolkitError, `"keep"` the first,
          `"replace"` it, or `"rename"` the second; `add` and `add_mcp` have this option, too.
        - `mask_errors`: False: a result contains the text of any exception, and not only of a ToolError.
        - `strict`: True: what is wrong with the toolkit, or what `check` calls an error of a text, such as a prompt
          injection, raises ToolkitError in `to`, in `add_mcp` and when it is served; a server's tool that gets such a
          text later is blocked.
        - `output`: `"raw"`: for functions that are added without `output` and `output_schema`, the value of a result is
          the object that the function returned.
        - `spec_class`: a subclass of ToolSpec, of which the toolkit makes its specs.

        Raises ToolkitError for what does not fit, and DefinitionError for an unknown `output` and for another class or
        executor.
        """
        if approver is not None:
            validate_callable("An approver", "a function of the request", approver)
        self.name = validate_name("name of a toolkit", name)
        store = ToolStore(on_duplicate, timeout, max_concurrency)
        own_state = SessionState(validate_state({} if state is None else state))
        found_roots = None if roots is None else to_roots(roots)
        self._view, store.roots = StoreView(store, (own_state,), roots=found_roots), found_roots or ()
        store.approver = approver
        if executor is not None:
            from ahvn_tools.execution.plan import validate_executor

            store.executor = validate_executor(executor)
        OUTPUT_FORM("output", output)
        store.output = output
        store.spec_class = validate_spec_class(spec_class)
        store.masks_errors = checked("mask_errors", mask_errors, FLAG)
        store.finding_log.is_strict = checked("strict", strict, FLAG)
        store.secret_key = SecretKey.create(secret_key)
        if rules is not None:
            self._set_rules(rules)
        store.approval_store = to_approval_store(approval_store)
        store.approval_expiry = checked("approval_expiry", approval_expiry, TIMEOUT)
        store.max_background = checked("max_background", max_background, COUNT)
        unheld = self._with_view(self._view.without_session())  # the store does not keep the toolkit's calls alive
        store.make_toolkit = unheld._with_view  # noqa: SLF001  # of this class
        for layer in middleware:
            self.use(layer)

    def _set_rules(self, rules: ApprovalRules) -> None:
        """Use these rules. Raises ToolkitError for anything else, and for a file that cannot be used."""
        from ahvn_tools.toolkit.approval_rules import ApprovalRules  # few toolkits have rules

        if not isinstance(rules, ApprovalRules):
            raise ToolkitError(f"Rules are an ApprovalRules(…), not a {type(rules).__name__}.")
        store = self._view.store
        store.rules, store.has_rules = rules, True
        if rules.remember is not None:
            from ahvn_tools.toolkit.remembered_rules import RuleFile

            store.rule_file = RuleFile(rules.remember, store.secret_key)

    def add(
        self,
        *things: ToolSpec | ToolRegistry | Toolkit | Callable[..., Any] | Any,
        prefix: str = "",
        rename: Rename = None,
        **options: Unpack[AddOptions],
    ) -> Self:
        """Add ToolSpecs, functions, all tools of a ToolRegistry or Toolkit, tools of FastMCP or LangChain.

        The toolkit uses a spec itself and no copy: what is bound on it later applies here. What the toolkit adds (the
        options, a `prefix` to the name, a new name from `rename`) never changes the spec. The options are those of the
        toolkit, for all of these tools, and those of `@tool`. Raises ToolkitError for a name that is taken, BindError
        for a `preset` that does not fit, DefinitionError for an option of `@tool` that does not; nothing is added then.
        `on_duplicate` decides here about names that are taken: `"raise"`, `"keep"` the other tool, `"replace"` it, or
        `"rename"` the new one, `find` to `find_2`.

        The options, with their types in `AddOptions`:

        - Who sees and calls the tools: `group`, `tags`, `audience`, `allowed_callers`, `requires_approval`.
        - Parameters: `preset` (fixed values), `binds` (parameter to state key), `arguments` (new names, descriptions
          and defaults).
        - Options of single tools, by name or pattern: `tools`, such as `{"rm_*": {"requires_approval": True}}`.
        - Calls: `timeout` in seconds, `middleware`, `postprocess`, `exclusive`, `task`, `max_items`, `max_bytes`.
        - Where bodies run: `isolation`, `ship`, `ship_secrets`, `keep_children`, `run_in_thread`.
        - The definition of one tool: `name`, `title`, `description`, `examples`, `annotations`, `meta`, `version`,
          `icons`, `ui`, `input_schema`, `output_schema`, `output`, `render`.
        - How a function is read: `parse_docstring`, `docstring_sections`, `include_long_description`,
          `description_separator`, `include_var_positional`, `include_var_keyword`, `coerce_numbers_to_str`, `convert`,
          `external`.
        """
        self._add(things, prefix, rename, options, caller_locals())
        return self

    def _add(
        self, things: tuple[Any, ...], prefix: str, rename: Rename, options: AddOptions, namespace: Namespace
    ) -> list[Entry]:
        store = self._store_for("add")
        entries = to_entries(
            tuple(OtherToolkit(name=one.name, view=one._view) if isinstance(one, Toolkit) else one for one in things),  # noqa: SLF001  # of this class
            namespace,
            options,
            store.locks,
            prefix=prefix,
            rename=rename,
            output=store.output,
            spec_class=store.spec_class,
        )
        groups: dict[str, Group] = {}
        for thing in things:
            if isinstance(thing, Toolkit | ToolkitTool):
                groups |= thing._view.groups()  # noqa: SLF001  # of this package
            if isinstance(thing, Toolkit):
                store.add_skills(thing._view.skills(inactive=True).values())  # noqa: SLF001  # of this class
        if store.skills and store.skill_reader is not None:
            entries = [entry for entry in entries if not entry.reads_skills]  # one reads all of them
        store.add(entries, groups)
        return entries

    @overload
    def tool(self, function: Function, /) -> Function: ...
    @overload
    def tool(self, /, **options: Unpack[AddOptions]) -> Callable[[Function], Function]: ...
    def tool(self, function: Callable[..., Any] | None = None, /, **options: Unpack[AddOptions]) -> Any:
        """Add the decorated function, which stays a function. Options are those of `add`."""
        namespace = caller_locals()

        def decorate(function: Function) -> Function:
            self._add((function,), "", None, options, namespace)
            return function

        return decorate if function is None else decorate(function)

    def remove(self, *names: str) -> Self:
        """Remove tools; active calls finish. Raises ToolLookupError for an unknown name, and removes none then."""
        self._store_for("remove").remove(list(names))
        return self

    @suggests_options
    def bind(
        self,
        param: str,
        state_key: str | None = None,
        default: Any = UNSET,
        *,
        resolver: Callable[..., Any] | None = None,
        secret: bool = False,
        required: bool = False,
    ) -> Self:
        """Bind a parameter in every tool that has it, now and later, as `ToolSpec.bind` does in one.

        A secret binding reaches the tools of an MCP server only where `add_mcp(…, may_receive=[…])` names the
        parameter. Another one reaches the tools that were there when the server was added; later ones wait for
        `servers[…].accept`.

        Raises BindError for a parameter that cannot be taken out of the input schema of a tool. A tool of an MCP server
        is not available then.
        """
        store = self._store_for("bind")
        for entry in list(store.entries.values()):
            entry.refuse_unsealable([param])
        binding = Binding.create(param, state_key, default, resolver, is_secret=secret, is_required=required)
        store.bind(binding.with_stored_default(self.state))
        return self

    def unbind(self, param: str) -> Self:
        """Undo `bind`. What a spec itself has bound stays bound.

        Raises BindError for a parameter that must stay bound in a tool, because its type has no JSON form.
        """
        store = self._store_for("unbind")
        for entry in list(store.entries.values()) if param in store.bindings else ():
            entry.refuse_unbinding(param, others=entry.own_bindings)
        store.unbind(param)
        return self

    def use(self, middleware: Middleware) -> Callable[[], None]:
        """Add a middleware, `async (call, next) -> ToolResult`, inside the existing ones. Return the undo function."""
        return self._store_for("use a middleware").use(middleware)

    @property
    def max_concurrency(self) -> int:
        """How many calls of one answer run at once, in each session."""
        return self._view.store.max_concurrency

    @max_concurrency.setter
    def max_concurrency(self, value: int) -> None:
        self._store_for("set max_concurrency").max_concurrency = checked("max_concurrency", value, COUNT)

    def add_group(self, name: str, description: str = "", *, active: bool = False, notes: str | None = None) -> Self:
        """Define a group of tools to switch on and off together; `notes` are for the model while it is active.

        A group of this name gets the new description, notes and default; its tools and switches stay. A toolkit that
        defines a group defines all that its tools have: define them before you add the tools. Raises ToolkitError for
        the basic group, and for tools that have a group which is not defined.
        """
        group = Group(name=name, description=description, is_active=active, notes=notes)
        self._store_for("define a group").add_group(group)
        return self

    def remove_group(self, name: str) -> Self:
        """Remove a group with its tools. Raises ToolLookupError, and ToolkitError for the basic group."""
        self._store_for("remove a group").remove_group(name)
        return self

    def groups_tool(self, **options: Unpack[ToolOptions]) -> ToolSpec:
        """Return the tool `set_groups` for a model, to be added: it switches groups for the session that calls it.

        It has one boolean parameter for each group that exists when it is listed; a group that is left out is switched
        off. The options are those of `@tool`: another `name` or `description`, for example.
        """
        return model_tools.GroupsTool(self._view.store, options)

    def add_toolset(self, name: str, description: str = "", **selection: Unpack[SelectionOptions]) -> Self:
        """Save a selection under a name, for `select(toolset=name)`; it replaces a toolset of this name.

        Raises ToolLookupError for an unknown toolset in it, ToolkitError for a toolset that is made of itself.
        """
        toolset = Toolset(name=name, description=description, selection=Selection.from_options(selection))
        self._store_for("add a toolset").add_toolset(toolset)
        return self

    def tag(self, names: str | Iterable[str], *tags: str) -> Self:
        """Add tags to a tool or to several, in this toolkit. Raises ToolLookupError for an unknown tool."""
        self._store_for("tag").change_tags(names, _to_tags(tags), frozenset())
        return self

    def untag(self, names: str | Iterable[str], *tags: str) -> Self:
        """Remove tags from a tool or from several, in this toolkit: also tags that the tool was defined with.

        Raises ToolLookupError for an unknown tool and for a tag that one of them does not have; nothing is changed
        then.
        """
        self._store_for("untag").change_tags(names, frozenset(), _to_tags(tags))
        return self

    def add_search(
        self,
        core: Iterable[str] = (),
        *,
        rank: Rank | None = None,
        search_tool: ToolOptions | None = None,
        call_tool: ToolOptions | None = None,
        **options: Unpack[EntryOptions],
    ) -> Self:
        """Add `search_tools` and `call_tool`, and list only these and the tools named in `core` to a model.

        A model finds and calls the other visible tools through these two. `rank`, `(query, definitions) -> names`, sync
        or async, replaces the search by words here and in `search`: it returns the names of the tools that fit, best
        first. `search_tool` and `call_tool` change the names and texts of the two, as options of `@tool` do. The other
        options are those of `add`, for both. Raises ToolLookupError for a name in `core` that is no tool.
        """
        if rank is not None:
            validate_callable("`rank`", "a function `(query, definitions) -> names`", rank)
        search_options: ToolOptions = {"output": "json", **(search_tool or {})}
        call_options: ToolOptions = {"output": "json", **(call_tool or {})}
        search_spec = ToolSpec.from_function(model_tools.search_tools, **search_options)
        call_spec = ToolSpec.from_function(model_tools.call_tool, **call_options)
        pair = Toolkit("search").add(search_spec).add(call_spec)
        store = self._view.store
        refuse_second_listing(store.search_listing, store.entries)
        core = self._core_of(core)
        names = tuple(entry.name for entry in self._add((pair,), "", None, cast("AddOptions", options), {}))
        store.search_listing = SearchListing(core=core, search_tool_names=names, rank=rank)
        return self

    def _core_of(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the tools to list beside a search: these, and that which reads skills, as `skills_prompt` says."""
        core, reader = self._view.store.require_names(names), self._view.store.skill_reader
        return core if reader is None else (*core, reader.name)

    def add_code_mode(
        self,
        core: Iterable[str] = (),
        *,
        limits: CodeLimits | None = None,
        sandbox: Sandbox | None = None,
        inline: bool = False,
        search_tool: ToolOptions | None = None,
        describe_tool: ToolOptions | None = None,
        run_tool: ToolOptions | None = None,
        **options: Unpack[EntryOptions],
    ) -> Self:
        """Add `search_tools`, `describe_tools` and `run_code`, and list only these and the tools in `core` to a model.

        A model calls the other visible tools as functions of a Python program. With `inline=True` there is only
        `run_code`, whose description contains the declarations of all functions. `limits` are those of one program;
        `sandbox` runs it, by default a MontySandbox (extra `code`). `search_tool`, `describe_tool` and `run_tool`
        change the names and texts of the three, as options of `@tool` do. The other options are those of `add`, for all
        of them: one session alone has code mode if it activates their `group`. Raises ToolLookupError for a name in
        `core` that is no tool, DefinitionError without the extra, and ToolkitError for a second code mode, beside
        `add_search`, and for a name that another tool has.
        """
        from ahvn_tools.toolkit.code_mode import CodeMode

        store = self._store_for("add code mode with `group=` for one session, with `tags=` for a selection,")
        refuse_second_listing(store.search_listing, store.entries)
        mode = CodeMode.create(sandbox, limits)
        specs = mode.specs(search_tool, describe_tool, run_tool)[2 if inline else 0 :]
        refuse_taken_names((spec.name for spec in specs), store.entries)
        core = self._core_of(core)
        entries = self._add(tuple(specs), "", None, cast("AddOptions", options), {})
        names = tuple(entry.name for entry in entries)
        describe = mode.inline if inline else None
        store.search_listing = SearchListing(core=core, search_tool_names=names, describe=describe)
        return self

    def add_skills(self, *sources: Any, **options: Unpack[SkillOptions]) -> Self:
        """Add skills, folders of instructions with a `SKILL.md`, and the tool `read_skill` that reads them for models.

        A source is the folder of a skill, a folder of such folders, `"package:folder"` in an installed package, or an
        MCP server: one of `servers`, or what `add_mcp` takes; such a server is added without its tools. `skills_prompt`
        has their names and descriptions for a system prompt. Skills of a `group` are read while it is active, those of
        an `audience` by that audience.

        With `trust`, the default for folders that are named by their paths, a skill that is read activates the groups
        of the tools in its `allowed-tools`, in the session that reads it. Without it, the default for packages and
        servers, it activates nothing, its name must be as the standard has it, and invisible characters of its texts
        are escaped.

        A skill of several that cannot be used is in `load_errors`. Raises SourceError for a source without a skill that
        can be used, ToolkitError for a name that is taken, ToolLookupError for a group that is not defined, and as
        `add_mcp` does; nothing is added then.
        """
        _run_async(self._add_skills, sources, options)
        return self

    async def aadd_skills(self, *sources: Any, **options: Unpack[SkillOptions]) -> Self:
        """Add skills from async code, as `add_skills` does."""
        await _arun(self._add_skills, sources, options)
        return self

    async def _add_skills(self, sources: tuple[Any, ...], options: SkillOptions) -> None:
        from ahvn_tools.toolkit import skills  # few toolkits have skills

        await skills.add(self._store_for("add skills"), self._mcp_imports(), sources, options)

    def remove_skills(self, *names: str) -> Self:
        """Remove these skills, or all. Raises ToolLookupError for an unknown name, and removes none then."""
        store = self._store_for("remove skills")
        for name in names:
            lookup("skill", name, store.skills)
        store.remove_skills(lambda one: not names or one.skill.name in names)
        return self

    @property
    def skills(self) -> dict[str, Skill]:
        """The skills here by name. The toolkit itself has those of inactive groups, too."""
        return {name: added.skill for name, added in self._view.skills(inactive=True).items()}

    def skills_prompt(self) -> str:
        """Return the names and descriptions of the skills that can be read here, for a system prompt; "" for none."""
        if not self._view.store.skills:
            return ""
        from ahvn_tools.toolkit.skills import to_prompt

        return to_prompt(self._view)

    def to_skill(
        self,
        path: str | PathLike[str],
        *,
        source: str | PathLike[str] | Iterable[str | PathLike[str]],
        description: str | None = None,
        replace: bool = False,
    ) -> dict[str, str]:
        """Write the tools that are listed to a model as a skill: a folder with a `SKILL.md`, and a file for each tool.

        Returns why each tool that is left out is, by its name: its group is inactive, or it cannot work as a command
        of its own, such as one that reads what an earlier call has left.

        It says how to call them with the command `ahvn-tools call`, which finds them in `source`: a file, a module, a
        manifest, a URL, or several. The folder is written whole or not at all; `replace` replaces a skill that is
        there. Raises ToolkitError for a folder whose name is none of a skill, for one that is there, for a source with
        credentials, and without tools; OSError.
        """
        from ahvn_tools.skills import export  # few toolkits become skills
        from ahvn_tools.toolkit.skills import tools_without_commands

        folder, left_out = Path(path).absolute(), tools_without_commands(self._view)
        definitions = [one for one in self.definitions() if one.name not in left_out]
        files = export.make_files(folder.name, definitions, export.to_sources(source), description)
        export.write_skill(folder, files, replaces=replace)
        return left_out

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
            "map calls to a pool with toolkit.session().map(executor, …), or take single tools along: "
            "toolkit[name].clone(), which has no approvals, rules and states of the toolkit."
        )

    def __repr__(self) -> str:
        count = len(self)
        session = f" session {self.session_id!r}" if self.session_id is not None else ""
        return f"<Toolkit {self.name!r}{session} of {count} tool{'' if count == 1 else 's'}>"

    def _repr_html_(self) -> str:
        """Return a table of the tools here, for notebooks: names and labels, and no value that is bound."""
        from ahvn_tools import html  # only a notebook needs it

        rows = []
        for tool in self:
            unbound = tool.compiled.plan.unbound_parameter
            parameters = html.code(", ".join(tool.params)) if unbound is None else f"{unbound.name!r} must be bound"
            tags, description = ", ".join(sorted(tool.tags)), tool.description.partition("\n")[0]
            rows.append((html.code(tool.name), parameters, html.bindings(tool.binds), tool.group, tags, description))
        columns = ("tool", "parameters", "bound", "group", "tags", "description")
        return html.lines([repr(self), html.table(columns, rows)])

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
        has only tools for everyone. A value with the name of a parameter goes into a mapping: `session({"state": …})`.

        A `session_id` names one session. While it is in use or has background calls, and for an hour if it is among the
        last 10,000 that have a state, or that have more, it is opened again with its state, active groups and
        background calls: `state` then replaces its own, and `values` are put into it, for everything that uses the
        session. The audience is that of the returned object.
        Never take an id from a client as it is: another user's id would be that user's session.
        Without an id each session is new.

        Raises TypeError for a state that is no mapping, ToolkitError for values beside a state that cannot be changed,
        for a value named `id` or `groups`, for an id or an audience that is no text, for an empty id and for roots that
        are no paths.
        """
        for name in _NOT_VALUES.keys() & values.keys():
            raise ToolkitError(
                f"`session` has no option {name!r}. {_NOT_VALUES[name]} Pass a value named {name!r} in the state: "
                f"session({{{name!r}: …}})."
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

    @property
    def approval_mode(self) -> Mode:
        """What happens to calls for which there is no rule: as this session or the toolkit says.

        Set it on a session for this session alone, None for what the toolkit says. A session cannot leave the mode
        `"read_only"` of its toolkit, and no mode changes what a rule denies.
        """
        return self._view.approval_mode

    @approval_mode.setter
    def approval_mode(self, mode: Mode | None) -> None:
        from ahvn_tools.toolkit.approval_rules import validate_mode

        view, switches = self._view, self._view.session_state.switches
        if mode is not None and validate_mode(mode) != "read_only" and view.is_session:
            outer = replace(view, session_states=view.session_states[1:])
            if outer.approval_mode == "read_only":
                raise ToolkitError(
                    "The toolkit is read-only, and a session of it is, too. Set the mode of the toolkit."
                )
        switches.approval_mode, view.store.has_rules = mode, True

    def explain(self, name: str, arguments: Arguments = None, /) -> RuleDecision:
        """Return what would happen to a call, and what decides; nothing runs, and nobody is asked.

        Raises ToolNotFoundError, ToolNotAvailableError and InvalidParametersError as a call does. Bound values that a
        function resolves are not known here.

        >>> from ahvn_tools import ApprovalRules, Toolkit
        >>> kit = Toolkit("files", rules=ApprovalRules(mode="allow", ask=["remove"])).add(print, name="remove")
        >>> kit.explain("remove").decision, kit.explain("remove").rule
        ('ask', 'remove')
        """
        return calls.explain(self._view, name, arguments)

    @property
    def remembered_rules(self) -> list[str]:
        """The calls that approvers have approved for always: of this session, or those in the file of the rules."""
        from ahvn_tools.toolkit.call_rules import remembered_rules

        return [rule.text for rule in remembered_rules(self._view)]

    def forget_rule(self, rule: str) -> Self:
        """Forget one of the `remembered_rules`: such a call is asked for again. Raises ToolLookupError."""
        from ahvn_tools.toolkit.call_rules import forget

        forget(self._view, rule)
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

    def check(self, *, formats: Iterable[str] | None = None, ignore: Iterable[str] = ()) -> list[Finding]:
        """Return what is wrong with the tools here, and what has no effect in the toolkit or cannot be used as it is.

        The rules are `ahvn_tools.lint.RULES`: names, descriptions, parameters, hidden characters, prompt injections,
        and what the formats change or refuse, of these `formats` or of all; bindings that no tool has, options of
        servers that match nothing, empty groups and toolsets, tools that no model can call. Rules in `ignore` are left
        out. Raises ToolSpecError for an unknown rule.

        >>> from ahvn_tools import Toolkit
        >>> def find(query: str): ...
        >>> [finding.rule for finding in Toolkit("notes").add(find).check(formats=["openai"])]
        ['missing-description', 'undocumented-parameter']
        """
        return check.find_all(self._view, formats=formats, ignore=ignore)

    def definitions(self) -> list[ToolDefinition]:
        """Return the definitions to list to a model: of each visible tool or, after `add_search`, of those it lists."""
        view, for_apps = self._view, self._view.store.for_apps
        return [view.definition(entry) for entry in view.listed_entries() if entry.name not in for_apps]

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

    def call(self, name: str, arguments: Arguments = None, /, **options: Unpack[CallKeywords]) -> Any:
        """Call a tool and return the value, or raise as a spec does.

        Also raises ToolNotFoundError, and ToolNotAvailableError for a tool that is not visible here. `timeout`, in
        seconds: the shortest of this, the toolkit's and the tool's own applies. Raises ToolkitError when it cannot
        interrupt the body (`run_in_thread=False`). `call_id` is for `cancel`. `roots` are the folders that a tool finds
        in its ToolContext, in place of those of the session and the toolkit. `middleware` wraps this call alone,
        outside of the toolkit's; a call that waits for an approval is resumed without it.
        """
        return calls.call(self._view, name, arguments, calls.CallOptions.create(options))

    async def acall(self, name: str, arguments: Arguments = None, /, **options: Unpack[CallKeywords]) -> Any:
        """Call a tool from async code and return the value, or raise as `call` does."""
        return await calls.acall(self._view, name, arguments, calls.CallOptions.create(options))

    def exec(self, name: str, arguments: Arguments = None, /, **options: Unpack[CallKeywords]) -> ToolResult:
        """Call a tool and return a ToolResult, also for an error of the tool."""
        return calls.execute(self._view, name, arguments, calls.CallOptions.create(options))

    async def aexec(self, name: str, arguments: Arguments = None, /, **options: Unpack[CallKeywords]) -> ToolResult:
        """Call a tool from async code and return a ToolResult, also for an error of the tool."""
        return await calls.aexecute(self._view, name, arguments, calls.CallOptions.create(options))

    def validate(self, name: str, arguments: Arguments = None, /) -> ToolResult:
        """Check the arguments of a call, and run nothing; see `ToolSpec.validate`. `explain` applies the rules."""
        return calls.validate(self._view, name, arguments, calls.DEFAULT_OPTIONS)

    def stream(
        self, name: str, arguments: Arguments = None, /, **options: Unpack[CallKeywords]
    ) -> Generator[ToolResult, None, None]:
        """Call a tool and yield one result per item as it is produced, then the whole with `is_last=True`."""
        return calls.stream(self._view, name, arguments, calls.CallOptions.create(options))

    def astream(
        self, name: str, arguments: Arguments = None, /, **options: Unpack[CallKeywords]
    ) -> AsyncGenerator[ToolResult, None]:
        """Call a tool from async code and yield results as `stream` does."""
        return calls.astream(self._view, name, arguments, calls.CallOptions.create(options))

    def cancel(self, call_id: str) -> bool:
        """Cancel the calls of this id, from any thread, and return whether any run; a session cancels its own.

        Their last result is `is_interrupted`, with the items so far as its value and the code `cancelled`; `call`
        raises CallCancelledError. An async body is cancelled. A sync body can read the cancellation in its ToolContext:
        in its caller's thread it ends when it does so, elsewhere its thread is left running. Calls of a `run` have the
        ids of the model's calls; a ToolContext, chunks, logs and results contain the ids of others.
        """
        cancelled = self._view.background_calls.cancel(call_id)
        return self._view.store.active_calls.cancel(call_id, self._view.session_state) or cancelled

    def map(
        self,
        executor: Executor,
        calls: Iterable[MappedCall],
        *,
        timeout: float | None = None,
        buffersize: int = 256,
    ) -> Generator[ToolResult, None, None]:
        """Run many calls, their bodies in the workers of an executor, and yield the results in the order of the calls.

        A call is a ToolCall, or a pair of a tool's name and its arguments. `buffersize` is how many calls are read
        ahead of the result that is yielded, and run. Everything but the body runs here: groups, state, middleware.
        Leaving the loop cancels the calls that have no result yet. `timeout`, in seconds, is that of each call. Raises
        ToolkitError for what is no call and no number, DefinitionError for what is no executor and for a tool that
        cannot run in one, SyncCallError in an async tool of a sync call: use `amap` there.
        """
        from ahvn_tools.toolkit import mapped_calls

        options = mapped_calls.to_options(executor, timeout, buffersize)
        return mapped_calls.map_calls(self._view, iter(calls), options, buffersize)

    def amap(
        self,
        executor: Executor,
        calls: Iterable[MappedCall],
        *,
        timeout: float | None = None,
        buffersize: int = 256,
    ) -> AsyncGenerator[ToolResult, None]:
        """Run many calls from async code, their bodies in the workers of an executor, as `map` does."""
        from ahvn_tools.toolkit import mapped_calls

        options = mapped_calls.to_options(executor, timeout, buffersize)
        return mapped_calls.amap_calls(self._view, iter(calls), options, buffersize)

    @suggests_options
    def run(self, answer: ModelAnswer, *, format: FormatName | str | None = None, run_in_thread: bool = True) -> Run:  # noqa: A002  # the word for it
        """Run all calls of a model's answer, in parallel, and return the messages that answer them.

        `answer` is what a format's `calls` reads; or a list of ToolCalls, and then messages are returned when `format`
        is set. Without a format, that of an SDK's object or of a dict that fits only one is found out. A call that
        cannot be run is answered with the reason. With `run_in_thread=False` the bodies of sync tools run in the
        caller's thread, one after the other. Works inside a running event loop, too.

        Raises ToolkitError for an answer that is not in the format, and for `run_in_thread=False` with a timeout.
        """
        return self._batch(answer, format, run_in_thread=run_in_thread).run()

    @suggests_options
    async def arun(
        self,
        answer: ModelAnswer | AsyncIterable[Any],
        *,
        format: FormatName | str | None = None,  # noqa: A002  # as above
        run_in_thread: bool = True,
    ) -> Run:
        """Run all calls of a model's answer from async code, as `run` does; it may be an async stream of events.

        With `run_in_thread=False` the bodies of sync tools run in the event loop, and block it.
        """
        from ahvn_tools.formats.detection import aread_events

        read = await aread_events(answer)
        return await self._batch(read, format, run_in_thread=run_in_thread).arun()

    @suggests_options
    def stream_run(
        self,
        answer: ModelAnswer,
        *,
        format: FormatName | str | None = None,  # noqa: A002  # as above
    ) -> Generator[ToolResult | Run, None, None]:
        """Run all calls of a model's answer as `run` does; yield their chunks and progress as they come, then the Run.

        Each chunk has the id of its call. A tool waits until its chunk is read; leaving the loop cancels all calls.
        """
        return self._batch(answer, format).stream()

    @suggests_options
    def astream_run(
        self,
        answer: ModelAnswer,
        *,
        format: FormatName | str | None = None,  # noqa: A002  # as above
    ) -> AsyncGenerator[ToolResult | Run, None]:
        """Run all calls of a model's answer from async code, and yield what `stream_run` yields."""
        return self._batch(answer, format).astream()

    def resume(self, waiting: Waiting, **decisions: Unpack[Decisions]) -> Run:
        """Continue the calls that waited, and return the Run, in which some may go on waiting.

        `waiting` is a Run with pending calls, the status of a background call, or one request (also as its JSON data,
        in another process); for the latter two the Run has results and no messages.

        `approved` applies to all calls that wait for an approval, or decides by call id. `arguments` are the approver's
        edits, of a request or by call id: they are merged into the model's arguments, and contain again what a saved
        request hides as secret. `reason`, a text or by call id, is for the model of a rejected call. `results` has the
        values of external calls by call id: what the function would return, or an exception, such as a ToolError, for
        a call that has failed. `always` remembers the rules of the approved requests. A tool that has changed since is
        not run: its call ends with the code `changed`.

        Raises RequestUsedError for a request that was used before. Raises ToolkitError for one that has expired or is
        of another session, for secret arguments that differ from the requested ones, and for a value that the tool
        could not have returned. Then no call has been continued, and all of them can be. A used or expired request can
        be rejected, and a used external call takes an exception: nothing runs, and the model reads that a used call may
        have run already.
        """
        from ahvn_tools.toolkit.resume import resumed_batch

        return resumed_batch(self._view, waiting, decisions).run()

    async def aresume(self, waiting: Waiting, **decisions: Unpack[Decisions]) -> Run:
        """Continue the calls that waited from async code, as `resume` does."""
        from ahvn_tools.toolkit.resume import aresumed_batch

        return await (await aresumed_batch(self._view, waiting, decisions)).arun()

    def converse(self, model: ModelFunction, messages: Start, **options: Unpack[ConverseOptions]) -> Conversation:
        """Ask a model and run its calls until it answers without any, and return the conversation.

        `model` is a function of messages and tools that returns an answer, sync, async or as a stream of events, such
        as `formats.openai.model(client, model="…")`. `messages` are those so far in its format, a text of the user, or
        a conversation to go on with; one that waits goes on with the options of `resume`. The conversation also stops
        after `max_turns` answers (20), at a call of a tool with `finish_with`, when a tool ends the session, and when a
        call waits for an approval or its result. A malformed answer is asked for again, `max_retries` times (2).
        `format` is that of a model which does not name its own: without both, the tools are written for OpenAI.

        Raises what the model raises; `Conversation.from_error` returns the conversation up to there. Raises
        MalformedAnswerError after too many retries and for an answer that cannot be read, and ToolkitError as `run` and
        `resume` do.
        """
        return self._conversation_loop(model, messages, options).run()

    async def aconverse(
        self, model: ModelFunction, messages: Start, **options: Unpack[ConverseOptions]
    ) -> Conversation:
        """Ask a model and run its calls from async code, as `converse` does. A sync model runs in a worker thread."""
        return await self._conversation_loop(model, messages, options).arun()

    def stream_converse(
        self, model: ModelFunction, messages: Start, **options: Unpack[ConverseOptions]
    ) -> Generator[Event, None, None]:
        """Converse as `converse` does, and yield what happens: for a user interface.

        That is a TextDelta for each piece of text, the ToolCalls of each answer, the chunks of their tools and their
        results, both ToolResults, and at the end the Conversation. Of a conversation that waited, the calls that go on
        come first, as the model has made them. Leaving the loop ends the request and all calls.
        """
        return self._conversation_loop(model, messages, options).stream()

    def astream_converse(
        self, model: ModelFunction, messages: Start, **options: Unpack[ConverseOptions]
    ) -> AsyncGenerator[Event, None]:
        """Converse from async code, and yield what `stream_converse` yields."""
        return self._conversation_loop(model, messages, options).astream()

    def _conversation_loop(self, model: ModelFunction, messages: Start, options: ConverseOptions) -> ConversationLoop:
        from ahvn_tools.toolkit.conversation_loop import ConversationLoop  # few toolkits converse

        return ConversationLoop(self, model, messages, options)

    def _batch(self, answer: ModelAnswer, format: str | None, *, run_in_thread: bool = True) -> Batch:  # noqa: A002  # as above
        from ahvn_tools.toolkit.batch import parse_answer

        return parse_answer(self._view, answer, format, run_in_thread=run_in_thread)

    def start(self, name: str, arguments: Arguments = None, /, **options: Unpack[CallKeywords]) -> str:
        """Start a call in the background and return its id, at once, from sync and async code.

        It runs as `aexec` would run it, with the context variables of its starter. It belongs to this session and ends
        with it: when nothing refers to the session any more, its calls are cancelled and their results dropped. An id
        that is passed must not be that of a call that runs; the result of a finished one is replaced.

        Raises ToolNotFoundError, ToolNotAvailableError, LimitExceededError while `max_background` calls of this session
        run, and ToolkitError for options that do not fit. Errors of the call itself are in its status.
        """
        return calls.start(self._view, name, arguments, calls.CallOptions.create(options))

    def status(self, call_id: str) -> CallStatus:
        """Return what is known of a background call of this session; of a finished one, with its result.

        A session keeps the results of its last 100 finished calls, each for an hour. Raises ToolLookupError for an id
        that is unknown, of another session, or no longer kept.
        """
        return self._view.background_calls.get(call_id).status()

    def wait(self, call_id: str, timeout: float | None = None) -> CallStatus:
        """Wait for the end of a background call and return its status; after `timeout` seconds, that of a running call.

        Raises ToolLookupError as `status` does.
        """
        call, seconds = self._view.background_calls.get(call_id), checked("timeout", timeout, WAIT)
        if call.is_running:
            _run_async(call.wait, seconds)
        return call.status()

    async def await_(self, call_id: str, timeout: float | None = None) -> CallStatus:
        """Wait for the end of a background call from async code, as `wait` does.

        Cancelling the task that waits does not cancel the call.
        """
        call, seconds = self._view.background_calls.get(call_id), checked("timeout", timeout, WAIT)
        if call.is_running:
            await _arun(call.wait, seconds)
        return call.status()

    def background_calls(self) -> list[CallStatus]:
        """Return the status of each background call of this session, in the order in which they were started."""
        return self._view.background_calls.statuses()

    def background_tools(
        self,
        *,
        start_call: ToolOptions | None = None,
        call_status: ToolOptions | None = None,
        wait_for_call: ToolOptions | None = None,
        cancel_call: ToolOptions | None = None,
    ) -> list[ToolSpec]:
        """Return four tools for a model, to be added: `start_call`, `call_status`, `wait_for_call`, `cancel_call`.

        They act for the session that calls them, on the tools that it sees. The options change the name and the texts
        of each, as those of `@tool` do: the texts refer to the other tools by their names.
        """
        options = (start_call, call_status, wait_for_call, cancel_call)
        functions = model_tools.BACKGROUND_TOOLS
        return [
            ToolSpec.from_function(function, **(own or {})) for function, own in zip(functions, options, strict=True)
        ]

    def _store_for(self, action: str) -> ToolStore:
        """Return the store to change it. Raises ToolkitError on a session or a selection."""
        self._view.refuse_change(action)
        return self._view.store

    def add_mcp(
        self, server: Any, *, name: str | None = None, timeout: float | None = 30, **options: Unpack[ImportOptions]
    ) -> Self:
        """Add the tools of an MCP server, or of all servers of an `mcp.json`; `servers` describes each.

        `server` is a URL, a command as a string or as a list of words, an `mcp.json` (its path or its data), the path
        of a script, a FastMCP server, client or transport, or what `mcp.connect` returned. `name` is for `remove_mcp`
        and messages; `timeout`, in seconds, applies to each call. A tool whose name is taken is refused, unless
        `on_duplicate` is `"rename"` (`find` to `server_find`) or `"replace"`. `may_receive` names the parameters that
        secret bindings may fill, and any binding in later tools.

        Raises ToolConnectionError when no server can be reached, ToolkitError, ToolLookupError and BindError for what
        does not fit; nothing is added then.
        """
        imports = self._mcp_imports("add an MCP server")
        _run_async(imports.add, server, name, timeout, options)
        return self

    async def aadd_mcp(
        self, server: Any, *, name: str | None = None, timeout: float | None = 30, **options: Unpack[ImportOptions]
    ) -> Self:
        """Add the tools of an MCP server from async code, as `add_mcp` does."""
        await _arun(self._mcp_imports("add an MCP server").add, server, name, timeout, options)
        return self

    def remove_mcp(self, name: str | None = None) -> Self:
        """Remove an MCP server, or all of them, with its tools, and close it. Raises ToolLookupError."""
        _run_async(self._mcp_imports("remove an MCP server").remove, name)
        return self

    async def aremove_mcp(self, name: str | None = None) -> Self:
        """Remove an MCP server, or all of them, from async code, as `remove_mcp` does."""
        await _arun(self._mcp_imports("remove an MCP server").remove, name)
        return self

    def refresh_mcp(self, name: str | None = None) -> dict[str, Changes]:
        """List the tools of an MCP server, or of all of them, again, and return what has changed, by server.

        What is bound here stays bound, what was removed here stays removed. Raises ToolLookupError, and for a server
        that is named ToolConnectionError.
        """
        changes: dict[str, Changes] = _run_async(self._mcp_imports().refresh, name)
        return changes

    async def arefresh_mcp(self, name: str | None = None) -> dict[str, Changes]:
        """List the tools of an MCP server, or of all of them, again from async code, as `refresh_mcp` does."""
        changes: dict[str, Changes] = await _arun(self._mcp_imports().refresh, name)
        return changes

    @property
    def servers(self) -> dict[str, RemoteServer]:
        """The MCP servers by name: the tools of each, which of them wait to be accepted, and what it receives."""
        return {name: imported.server for name, imported in self._view.store.imported_servers.items()}

    def _mcp_imports(self, action: str | None = None) -> MCPImports:
        """Return the MCP servers, for an action that only the toolkit itself allows."""
        from ahvn_tools.toolkit.mcp_imports import MCPImports  # few toolkits have a server

        store = self._view.store if action is None else self._store_for(action)
        toolkit_state = self._view.session_states[-1]
        return MCPImports(store, lambda: toolkit_state.state, self._view.roots)


def _to_tags(tags: tuple[str, ...]) -> frozenset[str]:
    if not tags:
        raise ToolkitError('Name at least one tag after the tool: tag("find", "read").')
    return to_name_set("tags of a tool", tags)


def validate_state(state: Any) -> Mapping[str, Any]:
    """Return a state. Raises TypeError unless it is a mapping."""
    if not isinstance(state, Mapping):
        raise TypeError(f"state must be a mapping such as a dict, not {type(state).__name__}.")
    return state


def _run_async(function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
    """Run an async function on the background loop and return its value."""
    from ahvn_tools.execution import background_loop
    from ahvn_tools.execution.runner import capture_outcome

    return background_loop.run(capture_outcome, function, *arguments).get()


async def _arun(function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Any:
    """Run an async function on the background loop from async code, and return its value."""
    from ahvn_tools.execution import background_loop

    return await background_loop.arun(function, *arguments)
