"""ToolkitTool: a tool of a toolkit as a ToolSpec, with the toolkit's name, bindings and calls."""

from __future__ import annotations

import functools
import inspect
import threading
import types
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, Unpack

from ahvn_tools import formats
from ahvn_tools.binding import Binding, StateScopes
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import PickleError, ToolkitError
from ahvn_tools.execution.compiled_tool import CompiledTool
from ahvn_tools.formats.rendering.names import to_list
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import DIRECT, ToolResult
from ahvn_tools.settings import ToolOptions
from ahvn_tools.spec import ToolSpec
from ahvn_tools.state import StateKey
from ahvn_tools.toolkit import calls, check
from ahvn_tools.toolkit.entry import ChangedSpec, Entry
from ahvn_tools.toolkit.entry_options import EntryOptions
from ahvn_tools.toolkit.model_tools import GroupsTool
from ahvn_tools.toolkit.server_access import ServerAccess, declared_names
from ahvn_tools.toolkit.visibility import StoreView

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from ahvn_tools.execution.call import Middleware
    from ahvn_tools.langchain import SpecTool
    from ahvn_tools.toolkit.tool_rules import RuleDecision


class ToolkitTool(ToolSpec):
    """A tool of a toolkit, session or selection. Its calls run there.

    `bind` binds in that toolkit only, and stores a default in its state. On a session or a selection it raises
    ToolkitError.
    """

    @classmethod
    def create(cls, view: StoreView, entry: Entry) -> ToolkitTool:
        """Return a tool that has the methods and attributes of a host's own class of specs, too."""
        return _tool_class(type(_original(entry.spec)))(view, entry)  # type: ignore[arg-type]  # mypy doubts that classes are hashable

    def __init__(self, view: StoreView, entry: Entry) -> None:
        self._view = view
        self._entry = entry
        self._lock = threading.Lock()
        self._adapter = None

    @property
    def compiled(self) -> CompiledTool:  # type: ignore[override]  # computed here, an attribute of a spec
        """The template, bindings and plan in this toolkit."""
        return self._view.compiled_tool(self._entry)

    @property
    def body(self) -> Callable[..., Any]:  # type: ignore[override]  # as above
        """The body of the spec that was added."""
        return self._entry.spec.body

    @property
    def _secrets(self) -> frozenset[StateKey]:  # type: ignore[override]  # as above
        return self._view.store.secrets.known | self._entry.spec._secrets  # noqa: SLF001  # of another spec

    @property
    def state_scopes(self) -> StateScopes:  # type: ignore[override]  # as above
        """The states that bound parameters are looked up in: the session's, the toolkit's, then the spec's."""
        return calls.state_scopes(self._view, self._entry)

    @property
    def definition(self) -> ToolDefinition:
        """The definition for models in this toolkit."""
        return self._view.definition(self._entry)

    def to_langchain(self, **options: Any) -> SpecTool:
        """Return a LangChain tool, as a spec does. A tool that needs an approval which nobody can give is logged."""
        from ahvn_tools.toolkit.check import warn_of_missing_approver  # few toolkits need it

        warn_of_missing_approver(self._view, [self._entry])
        return super().to_langchain(**options)

    @property
    def group(self) -> str:
        """The group of the tool."""
        return self._entry.group

    @property
    def audience(self) -> frozenset[str]:
        """The audiences that may see and call the tool; empty: everyone."""
        return self._entry.audience

    @property
    def origin(self) -> str:
        """Where the tool comes from, as messages about it say."""
        return self._entry.origin

    @property
    def labels(self) -> EntryOptions:
        """The options with which the tool was added, as far as another toolkit that takes it keeps them.

        They are `group`, `audience`, `requires_approval`, `exclusive`, `task` and, unless everyone may call the tool,
        `allowed_callers`.

        >>> from ahvn_tools import Toolkit
        >>> kit = Toolkit("files").add(len, name="size").add(print, name="remove", requires_approval=True)
        >>> [tool.name for tool in kit if tool.labels["requires_approval"]]
        ['remove']
        """
        entry = self._entry
        return {
            "group": entry.group,
            "audience": entry.audience,
            "requires_approval": entry.requires_approval,
            "exclusive": entry.exclusive,
            "task": entry.task,
            **({} if entry.allowed_callers is None else {"allowed_callers": entry.allowed_callers}),
        }

    @property
    def approval(self) -> RuleDecision | None:
        """What happens to all calls by `requires_approval`, the rules and the mode; None: it depends on the arguments.

        >>> from ahvn_tools import ApprovalRules, Toolkit
        >>> kit = Toolkit("files", rules=ApprovalRules(mode="allow", ask=["remove"])).add(print, name="remove")
        >>> kit["remove"].approval.reason
        'The rule remove asks for it.'
        """
        view, entry = self._view, self._entry
        if not view.has_rules(entry):
            required = entry.requires_approval
            return None if callable(required) else view.rules_for(entry).decision_without_rules(required)
        from ahvn_tools.toolkit.call_rules import CallRules  # slow, and few toolkits have rules

        return CallRules(view, entry, None).decision_on_all_calls()

    @property
    def server_access(self) -> ServerAccess | None:
        """What the MCP server of the tool may receive in another toolkit that takes it now."""
        access = self._entry.server_access
        return None if access is None else replace(access, accepted=declared_names(self.compiled.template))

    @property
    def server_name(self) -> str | None:
        """The MCP server with all tools of which the tool was added; None for other tools."""
        return self._entry.server_name

    @property
    def is_of_middleware(self) -> bool:
        """Whether a middleware has brought it."""
        return self._entry.is_of_middleware

    @property
    def executor(self) -> Executor | None:
        """Where the body runs if the tool has `isolation="executor"`."""
        return self._view.store.executor or self._entry.executor

    def _export_options(self, format: str, options: dict[str, Any]) -> dict[str, Any]:  # noqa: A002  # the word for it
        """Return the options of an export, with who may call the tool, where the provider is told."""
        callers = self._entry.allowed_callers
        if callers is None or not takes_callers(format):
            return options
        return {**options, "allowed_callers": sorted(callers)}

    def effective_middleware(self) -> tuple[Middleware, ...]:
        """Return the middleware of its calls, outermost first; another toolkit that takes the tool runs it, too."""
        return (*self._view.store.middleware, *self._entry.middleware)

    @property
    def state(self) -> MutableMapping[str, Any]:
        """The state of the toolkit or session that the tool belongs to."""
        return self._view.session_state.state  # type: ignore[return-value]  # mutable unless the host has chosen another

    @state.setter
    def state(self, state: Mapping[str, Any]) -> None:
        raise ToolkitError(
            f"The state of a tool in a toolkit cannot be set to a {type(state).__name__}: set `toolkit.state`."
        )

    def _refuse_constant(self, param: str) -> None:
        self._entry.refuse_preset(param)
        super()._refuse_constant(param)

    def _add_binding(self, binding: Binding, default: Any) -> None:  # noqa: ARG002  # the binding has a copy of it
        self._view.refuse_change("bind")
        self._view.store.bind(binding.with_stored_default(self.state), self._entry)

    def unbind(self, param: str) -> Self:
        """Remove a binding that was made here. Bindings of the toolkit and of the spec stay.

        Raises ToolkitError on a session or a selection, BindError for a preset parameter and for one that must stay
        bound, because its type has no JSON form.
        """
        self._view.refuse_change("unbind")
        self._entry.refuse_preset(param)
        if param in self._entry.own_bindings:
            self._entry.refuse_unbinding(param, others=self._view.store.bindings)
        self._view.store.unbind(param, self._entry)
        return self

    def transform(self, *, preset: Mapping[str, Any] | None = None, **_options: Unpack[ToolOptions]) -> NoReturn:  # noqa: ARG002  # as of a spec
        """Refuse: a copy would lose what the toolkit demands of the tool. Raises ToolkitError."""
        raise ToolkitError(
            f"{self.name!r} belongs to a toolkit. Change it where it is added, with the options of `add`, "
            "or change its `clone()`, which belongs to no toolkit."
        )

    def clone(self) -> ToolSpec:  # type: ignore[override]  # a copy belongs to no toolkit
        """Return a spec outside of the toolkit, with the same bindings and the state of the spec that was added.

        It has no approvals, rules, middleware and states of the toolkit and its sessions.
        """
        twin = self._entry.spec.clone()
        twin.compiled = self.compiled
        twin._secrets |= self._view.store.secrets.known  # noqa: SLF001  # of another spec
        return twin

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuse to be pickled: a toolkit and its states stay in their process."""
        raise PickleError(
            f"{self.name!r} belongs to a toolkit, which cannot be pickled: pickle `tool.clone()`, which has its "
            "bindings and the state of the spec that was added, and no approvals, rules and states of the toolkit."
        )

    def to_dict(self, *, values: bool = False) -> NoReturn:  # noqa: ARG002  # as of a spec
        """Refuse: the data would lose what the toolkit demands of the tool. Raises ToolkitError."""
        raise ToolkitError(
            f"{self.name!r} belongs to a toolkit: write a manifest of the toolkit, or write `tool.clone().to_dict()`."
        )

    def _clear_cache(self) -> None:
        """Compile the spec again; the toolkit compiles its own form from that."""
        self._entry.spec._clear_cache()  # noqa: SLF001  # of another spec

    def call(self, /, *args: Any, **arguments: Any) -> Any:
        """Call in the toolkit and return the value, or raise as a spec does, or ToolNotAvailableError."""
        return calls.call(self._view, self._entry.name, arguments, _call_options(args))

    __call__ = call

    async def acall(self, /, *args: Any, **arguments: Any) -> Any:
        """Call in the toolkit and return the value, or raise as `call` does."""
        return await calls.acall(self._view, self._entry.name, arguments, _call_options(args))

    def exec(self, /, *args: Any, **arguments: Any) -> ToolResult:
        """Call in the toolkit and return a ToolResult."""
        return calls.execute(self._view, self._entry.name, arguments, _call_options(args))

    async def aexec(self, /, *args: Any, **arguments: Any) -> ToolResult:
        """Call in the toolkit and return a ToolResult."""
        return await calls.aexecute(self._view, self._entry.name, arguments, _call_options(args))

    def validate(self, /, *args: Any, **arguments: Any) -> ToolResult:
        """Check arguments as a call in the toolkit does, and run nothing; see `ToolSpec.validate`."""
        return calls.validate(self._view, self._entry.name, arguments, _call_options(args))

    def exec_as(self, call_id: str, arguments: JsonObject) -> ToolResult:
        """Call as `exec` does, under the id that a LangChain graph has given the call."""
        return calls.execute(self._view, self._entry.name, arguments, calls.CallOptions(id=call_id))

    async def aexec_as(self, call_id: str, arguments: JsonObject) -> ToolResult:
        """Call as `aexec` does, under an id."""
        return await calls.aexecute(self._view, self._entry.name, arguments, calls.CallOptions(id=call_id))

    def stream(self, /, *args: Any, **arguments: Any) -> Generator[ToolResult, None, None]:
        """Call in the toolkit and yield one result per item, then the whole."""
        return calls.stream(self._view, self._entry.name, arguments, _call_options(args))

    def astream(self, /, *args: Any, **arguments: Any) -> AsyncGenerator[ToolResult, None]:
        """Call in the toolkit and yield results as `stream` does."""
        return calls.astream(self._view, self._entry.name, arguments, _call_options(args))

    def submit(self, executor: Executor, /, *args: Any, **arguments: Any) -> Future[ToolResult]:
        """Start a call in the toolkit whose body runs in a worker of an executor; as a spec does, with its middleware.

        The state is read when the call starts, which may be after this returns.
        """
        from ahvn_tools.toolkit import mapped_calls  # few calls need it

        return mapped_calls.submit(self._view, executor, self._entry.name, args, arguments)

    async def _serve(self, arguments: JsonObject) -> ToolResult:
        """Run the call of an MCP client."""
        return await calls.aexecute(self._view, self._entry.name, arguments, calls.CallOptions(is_served=True))


def _original(spec: ToolSpec) -> ToolSpec:
    """Return the host's own spec, without what toolkits have changed."""
    while isinstance(spec, ChangedSpec | ToolkitTool):
        spec = spec.original if isinstance(spec, ChangedSpec) else spec._entry.spec  # noqa: SLF001  # of another tool
    return spec


@functools.cache
def _tool_class(spec_class: type[ToolSpec]) -> type[ToolkitTool]:
    """Return ToolkitTool or, for the host's own class of specs, a subclass of both."""
    if spec_class is ToolSpec:
        return ToolkitTool
    bases = (ToolkitTool,) if issubclass(spec_class, GroupsTool) else (ToolkitTool, spec_class)
    members = {"__doc__": ToolkitTool.__doc__, "__module__": __name__, "__getattr__": _attribute_of_original}
    name = f"Toolkit{spec_class.__name__}"
    return types.new_class(name, bases, exec_body=lambda body: body.update(members))


def _attribute_of_original(tool: ToolkitTool, name: str) -> Any:
    """Return an attribute that only the host's own spec has, such as one that its constructor has set."""
    return getattr(_original(tool), name)


def _call_options(positional: tuple[Any, ...]) -> calls.CallOptions:
    return calls.CallOptions(positional=positional) if positional else calls.DEFAULT_OPTIONS


class GroupView:
    """A group of tools. Each attribute is read when you ask for it; it raises ToolLookupError for a removed group."""

    __slots__ = ("_view", "name")

    def __init__(self, view: StoreView, name: str) -> None:
        """Raises ToolLookupError for a group that is not here."""
        self._view = view
        self.name = view.group(name).name

    @property
    def description(self) -> str:
        """What the group is for."""
        return self._view.group(self.name).description

    @property
    def notes(self) -> str | None:
        """The notes for a model while the group is active."""
        return self._view.group(self.name).notes

    @property
    def active(self) -> bool:
        """Whether the group is active here."""
        return self._view.is_active(self._view.group(self.name).name)

    @property
    def tools(self) -> list[ToolSpec]:
        """The tools of the group here, active or not. They can be called only while the group is active."""
        name = self._view.group(self.name).name
        return [ToolkitTool.create(self._view, entry) for entry in self._view.usable_entries() if entry.group == name]

    def __repr__(self) -> str:
        return f"<group {self.name!r} of {_count(self.tools)}, {'active' if self.active else 'inactive'}>"


class ToolsetView:
    """A toolset, a selection that was saved under a name. Each attribute is read when you ask for it."""

    __slots__ = ("_view", "name")

    def __init__(self, view: StoreView, name: str) -> None:
        """Raises ToolLookupError for an unknown toolset."""
        self._view = view
        self.name = view.store.toolset(name).name

    @property
    def description(self) -> str:
        """What the toolset is for."""
        return self._view.store.toolset(self.name).description

    @property
    def tools(self) -> list[ToolSpec]:
        """The tools here that are in the toolset, those of inactive groups among them."""
        selected = self._view.select(self._view.store.toolset(self.name).selection)
        entries = filter(self._view.is_selected, selected.usable_entries())  # a session may not be for its audience
        return [ToolkitTool.create(self._view, entry) for entry in entries]

    def __repr__(self) -> str:
        return f"<toolset {self.name!r} of {_count(self.tools)}>"


def _count(tools: list[ToolSpec]) -> str:
    return f"{len(tools)} tool{'' if len(tools) == 1 else 's'}"


_OPTION: Final = "allowed_callers"


def takes_callers(format: str) -> bool:  # noqa: A002  # the word for it
    """Return whether the provider of a format is told who may call a tool."""
    return _has_option(formats.get(format).export)


@functools.lru_cache(maxsize=64)
def _has_option(export: Callable[..., Any]) -> bool:
    return _OPTION in inspect.signature(export).parameters


def export_arguments(
    view: StoreView,
    format: str,  # noqa: A002  # the word for it
    options: dict[str, Any],
) -> tuple[list[ToolDefinition], dict[str, Any]]:
    """Return the definitions and the options for an export of the tools of a view.

    What a tool says has priority over the option for all tools. A format without programs lacks the tools that only
    programs may call. A tool of an MCP server for which the export would raise is reported and left out: a server must
    not break the export of the other tools.
    """
    for_apps = view.store.for_apps
    entries = [entry for entry in view.listed_entries() if entry.name not in for_apps]
    own = {entry.name: sorted(entry.allowed_callers) for entry in entries if entry.allowed_callers is not None}
    if own and not takes_callers(format):
        entries, own = [entry for entry in entries if entry.allows(DIRECT)], {}
    given: Any = options.get(_OPTION)
    is_for_all = given is not None and not isinstance(given, Mapping)
    for_all = dict.fromkeys((entry.name for entry in entries), to_list(given)) if is_for_all else {}
    servers = [entry for entry in entries if entry.server_name is not None]
    refused = _find_refused(view, format, servers, {**for_all, **own}, options) if servers else ()
    definitions = [view.definition(entry) for entry in entries if entry.name not in refused]
    if not own and not refused:
        return definitions, options
    callers = {**(for_all if is_for_all else given or {}), **own}
    return definitions, {**options, _OPTION: {name: callers[name] for name in callers if name not in refused}}


def _find_refused(
    view: StoreView,
    format: str,  # noqa: A002  # the word for it
    entries: Iterable[Entry],
    callers: Mapping[str, Sequence[str]],
    options: Mapping[str, Any],
) -> Collection[str]:
    """Report the tools among these for which an export with these options raises. Return their names."""
    find = getattr(formats.get(format), "refusal", None)
    if find is None or not (callers or options):
        return ()
    others = {name: value for name, value in options.items() if name != _OPTION}
    reasons = {entry: find(view.definition(entry), callers.get(entry.name, ()), **others) for entry in entries}
    refused = {entry: reason for entry, reason in reasons.items() if reason is not None}
    view.store.finding_log.report(check.not_exported(entry, format, reason) for entry, reason in refused.items())
    return {entry.name for entry in refused}
