"""Toolkit: an ordered collection of tools with shared state, for many sessions; here with all that changes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, cast, overload

from ahvn_tools.binding import Binding
from ahvn_tools.errors import ToolkitError, suggests_options
from ahvn_tools.registry import ToolRegistry
from ahvn_tools.roots import Roots, to_roots
from ahvn_tools.schema.annotations import Namespace, caller_locals
from ahvn_tools.secret_key import SecretKey
from ahvn_tools.settings import OUTPUT_FORM, OutputForm, ToolOptions
from ahvn_tools.spec import ToolSpec, validate_spec_class
from ahvn_tools.state import UNSET
from ahvn_tools.toolkit import model_tools
from ahvn_tools.toolkit.approval_options import DEFAULT_EXPIRY, to_approval_store, validate_expiry
from ahvn_tools.toolkit.approval_store import ApprovalStore
from ahvn_tools.toolkit.background_calls import DEFAULT_MAX_RUNNING, validate_max_background
from ahvn_tools.toolkit.duplicates import OnDuplicate
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.entry_factory import Rename, to_entries
from ahvn_tools.toolkit.entry_options import (
    AddOptions,
    EntryOptions,
    to_name_set,
    validate_callable,
    validate_flag,
    validate_max_concurrency,
    validate_name,
    validate_timeout,
)
from ahvn_tools.toolkit.group import Group
from ahvn_tools.toolkit.search_listing import SearchListing, refuse_second_listing, refuse_taken_names
from ahvn_tools.toolkit.search_rank import Rank
from ahvn_tools.toolkit.selection import Selection, SelectionOptions, Toolset
from ahvn_tools.toolkit.sessions import SessionState
from ahvn_tools.toolkit.store import ToolStore
from ahvn_tools.toolkit.tool import ToolkitTool
from ahvn_tools.toolkit.toolkit_servers import ToolkitServers
from ahvn_tools.toolkit.toolkit_view import validate_state
from ahvn_tools.toolkit.visibility import StoreView

if TYPE_CHECKING:  # slow, and few toolkits need it
    from concurrent.futures import Executor

    from ahvn_tools.code_mode import CodeLimits, Sandbox
    from ahvn_tools.execution.call import Middleware
    from ahvn_tools.middleware.approve import Approver

Function = TypeVar("Function", bound=Callable[..., Any])


class Toolkit(ToolkitServers):
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

    __slots__ = ()

    @suggests_options
    def __init__(
        self,
        name: str,
        *,
        state: Mapping[str, Any] | None = None,
        middleware: Sequence[Middleware] = (),
        approver: Approver | None = None,
        secret_key: str | bytes | None = None,
        approval_store: str | PathLike[str] | ApprovalStore | None = None,
        approval_expiry: float | None = DEFAULT_EXPIRY,
        timeout: float | None = None,
        middleware_timeout: float | None = None,
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

        `middleware` wraps every call, outermost first. `approver` decides on calls of tools that require an approval;
        without one these calls wait for `resume`. `secret_key` (at least 16 bytes) signs what waits; it is random by
        default, and must be the same in all processes that resume each other's calls. `approval_store` is the path of
        a SQLite file in which these processes remember which requests were decided, or an object with the methods of
        an ApprovalStore; by default this toolkit remembers them in memory. `approval_expiry` is for how many seconds a
        request can be approved (7 days; None: forever). `timeout` is how many seconds any call may take without its
        middleware, `middleware_timeout` how many its middleware may take. `max_concurrency` is how many calls of one
        answer run at once, `max_background` how many background calls of one session run at once. `roots` are the
        folders, as paths or `file:` URIs, that a tool finds in its ToolContext. `executor`, any of
        `concurrent.futures`, is where the bodies of tools with `isolation="executor"` run; the host shuts it down.
        `on_duplicate` decides about a second tool of the same name: `"raise"` ToolkitError, `"keep"` the first,
        `"replace"` it, or `"rename"` the second; `add` and `add_mcp` have this option, too. `mask_errors=False` lets a
        result contain the text of any exception, and not only of a ToolError. With `strict` a finding of `check` raises
        ToolkitError in `to`, in `add_mcp` and when the toolkit is served. `output="raw"` applies to functions that are
        added without `output` and `output_schema`: the value of a result is the object that the function returned.
        `spec_class`, a subclass of ToolSpec, is the class of the specs that the toolkit makes. Raises ToolkitError, and
        DefinitionError for an unknown `output` and for another class or executor, for what does not fit.
        """
        if approver is not None:
            validate_callable("An approver", "a function of the request", approver)
        self.name = validate_name("name of a toolkit", name)
        store = ToolStore(on_duplicate, timeout, max_concurrency)
        own_state = SessionState(validate_state({} if state is None else state))
        self._view = StoreView(store, (own_state,), roots=None if roots is None else to_roots(roots))
        store.approver = approver
        if executor is not None:
            from ahvn_tools.execution.executor_option import validate_executor

            store.executor = validate_executor(executor)
        OUTPUT_FORM("output", output)
        store.output = output
        store.spec_class = validate_spec_class(spec_class)
        store.masks_errors = validate_flag("mask_errors", mask_errors)
        store.finding_log.is_strict = validate_flag("strict", strict)
        store.middleware_timeout = validate_timeout(middleware_timeout)
        store.secret_key = SecretKey.create(secret_key)
        store.approval_store = to_approval_store(approval_store)
        store.approval_expiry = validate_expiry(approval_expiry)
        store.max_background = validate_max_background(max_background)
        unheld = self._with_view(self._view.without_session())  # the store does not keep the toolkit's calls alive
        store.make_toolkit = unheld._with_view  # noqa: SLF001  # of this class
        for layer in middleware:
            self.use(layer)

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
          and defaults, by tool), `describe` (new descriptions, by tool).
        - Calls: `timeout` in seconds, `middleware`, `postprocess`, `exclusive`, `task`, `max_items`, `max_bytes`.
        - Where bodies run: `isolation`, `ship`, `ship_secrets`, `keep_children`, `run_in_thread`.
        - The definition of one tool: `name`, `title`, `description`, `examples`, `annotations`, `meta`, `version`,
          `icons`, `input_schema`, `output_schema`, `output`, `render`.
        - How a function is read: `parse_docstring`, `docstring_sections`, `include_long_description`,
          `description_separator`, `include_var_positional`, `include_var_keyword`, `coerce_numbers_to_str`, `convert`.
        """
        self._add(things, prefix, rename, options, caller_locals())
        return self

    def _add(
        self, things: tuple[Any, ...], prefix: str, rename: Rename, options: AddOptions, namespace: Namespace
    ) -> list[Entry]:
        store = self._store_for("add")
        entries = to_entries(
            things,
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
    ) -> Self:
        """Bind a parameter in every tool that has it, now and later, as `ToolSpec.bind` does in one.

        A secret binding reaches the tools of an MCP server only where `add_mcp(…, binds=[…])` names the parameter.
        Another one reaches the tools that were there when the server was added; later ones wait for
        `servers[…].accept`.

        Raises BindError for a parameter that cannot be taken out of the input schema of a tool. A tool of an MCP server
        is not available then.
        """
        store = self._store_for("bind")
        for entry in list(store.entries.values()):
            entry.refuse_unsealable([param])
        binding = Binding.create(param, state_key, default, resolver, is_secret=secret)
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
        self._store_for("set max_concurrency").max_concurrency = validate_max_concurrency(value)

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
        core = store.require_names(core)
        names = tuple(entry.name for entry in self._add((pair,), "", None, cast("AddOptions", options), {}))
        store.search_listing = SearchListing(core=core, search_tool_names=names, rank=rank)
        return self

    @property
    def has_code_mode(self) -> bool:
        """Whether the toolkit has a tool with which a model runs programs."""
        from ahvn_tools.toolkit.code_mode import is_code_tool

        return any(is_code_tool(entry.spec) for entry in self._view.store.entries.values())

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
        core = store.require_names(core)
        entries = self._add(tuple(specs), "", None, cast("AddOptions", options), {})
        names = tuple(entry.name for entry in entries)
        describe = mode.inline if inline else None
        store.search_listing = SearchListing(core=core, search_tool_names=names, describe=describe)
        return self


def _to_tags(tags: tuple[str, ...]) -> frozenset[str]:
    if not tags:
        raise ToolkitError('Name at least one tag after the tool: tag("find", "read").')
    return to_name_set("tags of a tool", tags)
