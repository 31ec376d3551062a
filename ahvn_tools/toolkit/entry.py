"""Entry: one tool in a toolkit, which is a spec and the toolkit's options for it."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from ahvn_tools.binding import Binding, StateScopes
from ahvn_tools.encoders.loaded_classes import loaded_classes
from ahvn_tools.errors import BindError, DefinitionError, StateKeyError, ToolkitError, ToolSpecError
from ahvn_tools.execution.compiled_tool import CompiledTool
from ahvn_tools.execution.plan import Arguments
from ahvn_tools.formats.rendering.names import wire_name
from ahvn_tools.results import DIRECT, PROGRAMMATIC
from ahvn_tools.schema.inputs import Inputs
from ahvn_tools.settings import ToolOptions, given_options, read_settings, refuse_unused_ship, validate_options
from ahvn_tools.spec import ToolSpec
from ahvn_tools.state import StateKey
from ahvn_tools.template import ToolTemplate
from ahvn_tools.toolkit import entry_options
from ahvn_tools.toolkit.entry_options import BASIC_GROUP, EntryOptions, OnDuplicate, to_names
from ahvn_tools.toolkit.locks import KeyedLocks
from ahvn_tools.toolkit.server_access import ServerAccess, declared_names
from ahvn_tools.user_interface import is_for_apps

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ahvn_tools.definition import ToolDefinition
    from ahvn_tools.execution.call import Middleware
    from ahvn_tools.middleware.postprocess import Postprocess
    from ahvn_tools.toolkit.exclusive import Exclusive


log = logging.getLogger(__name__)


class ChangedSpec(ToolSpec):
    """Another spec with more options. What is bound on that spec later, or changed by its server, applies here too."""

    def __init__(self, spec: ToolSpec, options: ToolOptions) -> None:
        """Change a spec. Raises DefinitionError for options that do not fit."""
        self.original = spec
        self._options = validate_options(options)
        self._lock = threading.Lock()
        self._adapter = None
        self.error: str | None = None
        """Why the options no longer fit the spec, which has changed; then `compiled` is the last one that they fit."""
        base = spec.compiled
        self._cache = base, self._compile(base)

    @property
    def changes(self) -> ToolOptions:
        """The options that are changed."""
        return self._options  # type: ignore[return-value]  # validated, and a mapping as it was given

    @property
    def compiled(self) -> CompiledTool:  # type: ignore[override]  # computed here, an attribute of a spec
        """The template with the options, and the bindings of the spec."""
        base, compiled = self._cache
        if base is self.original.compiled:
            return compiled
        base = self.original.compiled
        try:
            compiled, self.error = self._compile(base), None
        except ToolSpecError as error:
            self.error = str(error)
            name = compiled.template.name
            log.warning("The options of the tool %r no longer fit it, and it keeps its definition: %s", name, error)
        self._cache = base, compiled
        return compiled

    def _compile(self, base: CompiledTool) -> CompiledTool:
        return base.with_options(self._options, self.original.body)

    @property
    def body(self) -> Callable[..., Any]:  # type: ignore[override]  # as above
        """The body of the spec."""
        return self.original.body

    @property
    def state_scopes(self) -> StateScopes:  # type: ignore[override]  # as above
        """The states of the spec."""
        return self.original.state_scopes

    @property
    def _secrets(self) -> frozenset[StateKey]:  # type: ignore[override]  # as above
        return self.original._secrets  # noqa: SLF001  # of another spec

    def _replace_template(self, template: ToolTemplate, body: Callable[..., Any]) -> None:
        """Let the spec become another tool."""
        self.original._replace_template(template, body)  # noqa: SLF001  # of this package

    def clone(self) -> ToolSpec:  # type: ignore[override]  # a plain spec
        """Return a copy of the spec with these options."""
        twin = self.original.clone()
        twin.compiled = self.compiled
        return twin

    def _clear_cache(self) -> None:
        self.original._clear_cache()  # noqa: SLF001  # of another spec


DELEGATES: Final = "delegates"
"""An attribute of a body that only calls another tool. The toolkit's middleware wraps that inner call alone."""

_HOW_TO_CALL: Final = {DIRECT: "directly", PROGRAMMATIC: "by a program"}

SWITCHES_GROUPS: Final = "switches_groups"
"""An attribute of a body whose parameters are the groups of the toolkit."""

NEEDS_SESSION: Final = "needs_session"
"""An attribute of a body that works on what an earlier call of the session has left, or leaves it for a later one."""

_MARKS: Final = (DELEGATES, SWITCHES_GROUPS)

READS_SKILLS: Final = "reads_skills"
"""An attribute of a body that reads the skills of the toolkit."""

CODE_TOOL: Final = "is_code_tool"
"""The attribute of functions that no program may call."""

FIND_SECRETS: Final = "find_secrets"
"""An attribute of a body: a function of the StoreView and the arguments of a call, which returns the names of those
that are secret in this call."""

Bindings = Mapping[str, Binding]

_NO_NAMES: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _CompiledCache:
    """A compiled tool and the objects that it was compiled from."""

    base: CompiledTool
    labels: object
    toolkit_bindings: Bindings
    own_bindings: Bindings
    accepted_parameters: frozenset[str]
    applied_bindings: Bindings
    compiled: CompiledTool


class Entry:
    """One tool in a toolkit."""

    executor: Executor | None = None
    """The executor of the toolkit that it comes from; the one of its own toolkit has priority."""
    inner: tuple[Any, Entry] | None = None
    """The view and the entry of the toolkit that it comes from, whose rules apply here, too."""
    rules: Any = None
    """The ToolRules of its toolkit for it, once they are needed."""
    preset_names: Collection[str] = _NO_NAMES
    """Parameters that are preset in all tools with which it was added; it may lack some of them."""
    is_of_middleware: bool = False
    """Whether a middleware has brought it: it is in every selection, because results of other tools refer to it."""

    def __init__(
        self,
        spec: ToolSpec,
        name: str,
        origin: str,
        options: EntryOptions,
        locks: KeyedLocks,
        *,
        inherited_middleware: Callable[[], tuple[Middleware, ...]] | None = None,
        server_access: ServerAccess | None = None,
        server_name: str | None = None,
    ) -> None:
        """Combine a spec with the toolkit's options; an exclusive tool uses `locks`.

        `inherited_middleware` returns the middleware of the toolkit that the spec comes from. By default, the
        `server_access` of a tool of an MCP server includes the parameters that it has now. Raises ToolkitError and
        BindError for options that do not fit.
        """
        entry_options.refuse_unknown_options(options, EntryOptions)
        options = cast("EntryOptions", given_options(options))
        self.spec = spec
        self.name = name
        self.wire_name = wire_name(name)
        """The name under which models know it."""
        self.origin = origin
        self.is_imported = isinstance(spec.body, loaded_classes("ahvn_tools.mcp.client.remote_server", "RemoteTool"))
        """Whether it comes from an MCP server that may change it."""
        self.server_access = server_access
        """What an MCP server's tool may receive; None for other tools."""
        if server_access is None and getattr(spec.body, "is_remote", False) is True:
            self.server_access = ServerAccess(
                named=frozenset(getattr(spec.body, "named", ())), accepted=declared_names(spec.compiled.template)
            )
        self.server_name = server_name
        """The MCP server with all tools of which it was added; None for other tools."""
        self.on_duplicate: OnDuplicate | None = None
        """What happens where its name is taken; None: what the toolkit says."""
        self.replaceable: Collection[Entry] | None = None
        """The tools whose names it may take with `on_duplicate="replace"`; None: any."""
        self.refusal: str | None = None
        """Why the toolkit does not use it although its server lists it: the name belongs to another tool."""
        self.delegates, self.switches_groups = (getattr(spec.body, mark, False) is True for mark in _MARKS)
        """Whether it only calls another tool of the toolkit; whether its parameters are the groups of the toolkit."""
        self.group = options.get("group", BASIC_GROUP)
        self.tags = spec.tags | to_names(options.get("tags", ()))
        self.has_changed_tags = False
        """Whether the host has changed its tags since it was added."""
        self.audience = to_names(options.get("audience", ()))
        self.settings = self._read_settings(options)
        """The settings of its calls that replace those of the spec."""
        self.exclusive: Exclusive = entry_options.validate_exclusive(spec, name, options.get("exclusive", False))
        callers = options.get("allowed_callers")
        self.allowed_callers: frozenset[Any] | None = None if callers is None else to_names(callers)
        """Who may call it for a model; None: everyone."""
        self.task = options.get("task")
        self.requires_approval = options.get("requires_approval", False)
        self._inherited_middleware = inherited_middleware
        self.option_middleware = _to_option_middleware(options)
        """The middleware that the options name, outermost first."""
        self._lock_middleware = () if self.exclusive is False else (_lock(self.exclusive, locks),)
        self._own_middleware = (*self.option_middleware, *self._lock_middleware)
        self.preset: Bindings = spec.compiled.preset_bindings(name, options.get("preset", {}))
        """The fixed parameters, each bound to a constant."""
        self.own_bindings: Bindings = {}
        """Of parameters that are bound in this toolkit only."""
        self._labels = object()
        """Another object whenever the name or the tags have changed."""
        self._cache: _CompiledCache | None = None
        self._declared_names: tuple[Inputs | None, frozenset[str]] = (None, _NO_NAMES)

    def _read_settings(self, options: EntryOptions) -> dict[str, Any]:
        """Return the settings that replace those of the spec. Raises ToolkitError for what does not fit it."""
        template, bindings = self.spec.compiled.template, self.spec.compiled.bindings
        try:
            settings = read_settings(options)
            refuse_unused_ship(self.name, settings.get("ship", ()), bindings)
        except (DefinitionError, StateKeyError) as error:
            raise ToolkitError(str(error)) from None
        if "isolation" in settings and not template.is_movable:
            raise ToolkitError(f"{self.name!r} runs in MCP or FastMCP, not in a worker process: leave out isolation.")
        merged = replace(template.settings.merge(settings), timeout=None)  # see `refuse_uninterruptible`
        if (problem := merged.find_conflict()) is not None:
            raise ToolkitError(f"{self.name!r}: {problem}")
        return settings

    @functools.cached_property
    def described_groups(self) -> dict[tuple[str, ...], tuple[ToolDefinition, ToolDefinition]]:
        """By the active groups: the definition of the tool that switches groups, and the same with their names."""
        return {}

    @property
    def reads_skills(self) -> bool:
        """Whether it reads the skills of the toolkit."""
        return getattr(self.spec.body, READS_SKILLS, False) is True

    @property
    def follows_server(self) -> bool:
        """Whether it was added with all tools of a server, which may change them: its name is free for other tools."""
        return self.server_name is not None

    def may_replace(self, other: Entry) -> bool:
        """Return whether `on_duplicate="replace"` lets it replace another tool."""
        return self.name == other.name and (self.replaceable is None or other in self.replaceable)

    @property
    def is_for_apps(self) -> bool:
        """Whether only interfaces of tools may call it, and no model."""
        meta = self.spec.compiled.template.meta
        return meta is not None and is_for_apps(meta)

    def allows(self, caller: str) -> bool:
        """Return whether a caller may call it for a model."""
        return (self.allowed_callers is None or caller in self.allowed_callers) and not self.is_for_apps

    def refuse_caller(self, caller: str) -> str | None:
        """Return why this caller may not call it, as a text for the model; None if it may."""
        if self.allows(caller):
            return None
        if self.is_for_apps:
            return f"The tool {self.name!r} is for the interface of another tool, and not for models."
        if caller == PROGRAMMATIC:
            return f"The tool {self.name!r} cannot be called by a program. Call it directly."
        return f"The tool {self.name!r} can only be called {_HOW_TO_CALL[min(self.allowed_callers or ())]}."

    def rename(self, name: str) -> None:
        """Give it another name. Models and callers know it by this one from now on."""
        self.name, self.wire_name = name, wire_name(name)
        self._compile_again()

    def set_tags(self, tags: frozenset[str]) -> None:
        """Replace its tags in this toolkit."""
        self.tags, self.has_changed_tags = tags, True
        self._compile_again()

    def _compile_again(self) -> None:
        """Compile it with its new name or tags before the next call."""
        self._labels = object()
        self.own_bindings = {**self.own_bindings}  # a compiled tool is for the mapping that it was compiled from

    @property
    def middleware(self) -> tuple[Middleware, ...]:
        """The middleware of its calls, outermost first: from the options, then inherited, then the lock."""
        if self._inherited_middleware is None:
            return self._own_middleware
        return (*self.option_middleware, *self._inherited_middleware(), *self._lock_middleware)

    def is_blocked(self, toolkit_bindings: Bindings, timeout: float | None) -> bool:
        """Return whether its MCP server describes it differently from what the host has accepted."""
        if not self.is_imported:
            return False
        self.compiled_tool(toolkit_bindings, timeout)  # this blocks a tool with a bound parameter that is new
        is_changed: bool = self.spec.body.is_changed is True  # type: ignore[attr-defined]  # a RemoteTool
        return is_changed or (isinstance(self.spec, ChangedSpec) and self.spec.error is not None)

    @property
    def has_accepted_parameters(self) -> bool:
        """Whether the host has added it, or accepted it later, as its MCP server described it."""
        return self.server_access is not None and bool(self.server_access.accepted or self._accepted_parameters)

    @functools.cached_property
    def find_secrets(self) -> Callable[..., frozenset[str]] | None:
        """What returns the names of the arguments that are secret in one call; None: the plan knows them."""
        return getattr(self.spec.body, FIND_SECRETS, None)

    def has_secret_parameter(self, name: str) -> bool:
        """Return whether it is the host's own tool and marks this parameter as secret."""
        parameter = self.spec.compiled.template.inputs.parameters.get(name)
        return parameter is not None and parameter.is_secret and self.server_access is None

    def refuse_uninterruptible(self, timeout: float | None) -> None:
        """Raise ToolkitError when a timeout applies and the body cannot be interrupted."""
        template = self.spec.compiled.template
        is_interruptible = template.is_async or template.settings.run_in_thread
        if not is_interruptible and (timeout is not None or "timeout" in self.settings):
            raise ToolkitError(
                f"{self.name!r} has run_in_thread=False, and no timeout can interrupt it in its event loop: "
                "leave out run_in_thread=False, or add it to a toolkit without a timeout."
            )

    def refuse_unsealable(self, parameters: Iterable[str]) -> None:
        """Raise BindError for parameters that the toolkit binds and that cannot be taken out of the input schema.

        A tool of a server is not refused: its calls are.
        """
        known = self.spec.compiled.template.inputs.parameters
        if self.server_access is None:
            self.spec.compiled.refuse_unsealable([name for name in parameters if name in known])

    def requires_approval_of(self, arguments: Arguments) -> bool:
        """Return whether a call with these arguments needs an approval: True, too, when the host's function fails."""
        if isinstance(self.requires_approval, bool):
            return self.requires_approval
        try:
            return bool(self.requires_approval(arguments))
        except Exception:  # noqa: BLE001  # a model wrote the arguments: the function may not have expected them
            return True

    def compiled_tool(self, toolkit_bindings: Bindings, timeout: float | None) -> CompiledTool:
        """Return the compiled tool for calls here. The toolkit replaces `toolkit_bindings` whenever they change.

        For one parameter a preset beats a binding of this entry, which beats the toolkit's, which beats the spec's.
        """
        base, own_bindings, cache = self.spec.compiled, self.own_bindings, self._cache
        if (
            cache is not None
            and cache.base is base
            and cache.toolkit_bindings is toolkit_bindings
            and cache.own_bindings is own_bindings
            and (not self.is_imported or cache.accepted_parameters is self._accepted_parameters)
        ):
            return cache.compiled
        labels, accepted_parameters = self._labels, self._accepted_parameters
        refused_names = base.refused_names
        if base.template.inputs.accepts_other_names:
            refused_names = refused_names.union(toolkit_bindings, self.preset_names)
        fixed = {**own_bindings, **self.preset}
        reaching = self._reaching_bindings(base, toolkit_bindings, fixed, accepted_parameters)
        bindings = _applicable_bindings(base, {**reaching, **fixed})
        if (
            cache is not None
            and cache.base is base
            and cache.labels is labels
            and cache.compiled.refused_names == refused_names
            and _are_same(cache.applied_bindings, bindings)
        ):
            compiled = cache.compiled  # the changed bindings concern other tools
        else:
            compiled = self._compile(base, bindings, refused_names, timeout)
        self._cache = _CompiledCache(
            base, labels, toolkit_bindings, own_bindings, accepted_parameters, bindings, compiled
        )
        return compiled

    @property
    def _accepted_parameters(self) -> frozenset[str]:
        """The parameters of the definitions that the host has accepted."""
        accepted: frozenset[str] = self.spec.body.accepted_parameters if self.is_imported else _NO_NAMES  # type: ignore[attr-defined]  # a RemoteTool
        return accepted

    def _reaching_bindings(
        self, base: CompiledTool, toolkit_bindings: Bindings, own_bindings: Bindings, accepted: frozenset[str]
    ) -> Bindings:
        """Return the toolkit's bindings that reach the tool. A tool with a bound parameter that is new is blocked."""
        if self.server_access is None:
            return toolkit_bindings
        others = {name: binding for name, binding in toolkit_bindings.items() if name not in own_bindings}
        inputs, declared = self._declared_names
        if inputs is not base.template.inputs:
            declared = declared_names(base.template)
            self._declared_names = base.template.inputs, declared
        parameters = base.template.inputs.parameters.values()
        if own_names := {p.name: p.body_name for p in parameters if p.body_name is not None}:
            accepted = frozenset(name for name in declared if own_names.get(name, name) in accepted)
        selected, unaccepted = self.server_access.select_bindings(others, base, declared, accepted)
        if unaccepted and self.is_imported:
            unaccepted = frozenset(own_names.get(name, name) for name in unaccepted)
            self.spec.body.server.require_acceptance(self.spec.body.name, unaccepted)  # type: ignore[attr-defined]  # a RemoteTool
        return selected

    def _compile(
        self, base: CompiledTool, bindings: Bindings, refused_names: frozenset[str], timeout: float | None
    ) -> CompiledTool:
        template, parameters = base.template, base.template.inputs.parameters
        added = {
            name: replace(binding, is_secret=binding.is_secret or parameters[name].is_secret)
            for name, binding in bindings.items()
        }
        settings = template.settings.merge(self.settings).merge({"timeout": timeout})
        if (
            not added
            and (self.name, self.tags, settings) == (template.name, template.tags, template.settings)
            and refused_names == base.refused_names
        ):
            return base
        changed: dict[str, Any] = {"name": self.name, "tags": self.tags}
        options = {**template.options, **changed, **template.settings.changes_of(settings)}
        template = replace(template, options=options, settings=settings, **changed)
        return CompiledTool(template, {**base.bindings, **added}, refused_names=refused_names)

    def secret_keys(self, toolkit_bindings: Bindings, timeout: float | None) -> frozenset[StateKey]:
        """Return the state keys that are secret for it, or were secret for its spec."""
        compiled = self.compiled_tool(toolkit_bindings, timeout)
        parameters = compiled.template.inputs.parameters
        keys = {b.key for b in compiled.bindings.values() if b.is_secret or parameters[b.parameter].is_secret}
        return frozenset(key for key in keys if key is not None) | self.spec._secrets  # noqa: SLF001  # of this package

    def bind(self, binding: Binding) -> None:
        """Bind a parameter in this toolkit only."""
        self.own_bindings = {**self.own_bindings, binding.parameter: binding}

    def refuse_unbinding(self, parameter: str, *, others: Bindings) -> None:
        """Raise BindError for a parameter that must be bound, unless it is preset or bound in `others` or the spec."""
        bound = {*others, *self.preset, *self.spec.compiled.bindings}
        if parameter in self.spec.compiled.template.inputs.parameters_without_schema - bound:
            raise BindError(
                f"Parameter {parameter!r} of {self.name!r} must stay bound: its type has no JSON form. "
                "Bind it again instead, or remove the tool first."
            )

    def unbind(self, parameter: str) -> None:
        """Undo `bind`."""
        self.own_bindings = {name: binding for name, binding in self.own_bindings.items() if name != parameter}

    def copy_preset_from(self, other: Entry) -> None:
        """Replace the preset by that of another entry of the same tool."""
        self.preset, self._cache = other.preset, None

    def refuse_preset(self, parameter: str) -> None:
        """Raise BindError for a parameter that is preset here."""
        if parameter in self.preset:
            raise BindError(f"{parameter!r} of {self.name!r} is preset here; add the tool without that preset.")


def _applicable_bindings(base: CompiledTool, bindings: Bindings) -> Bindings:
    """Return the bindings whose parameter the tool has and has not fixed itself."""
    parameters, fixed = base.template.inputs.parameters, base.bindings
    return {
        name: binding
        for name, binding in bindings.items()
        if name in parameters and not (name in fixed and fixed[name].is_constant)
    }


def _are_same(first: Bindings, second: Bindings) -> bool:
    return first.keys() == second.keys() and all(second[name] is binding for name, binding in first.items())


def _to_option_middleware(options: EntryOptions) -> tuple[Middleware, ...]:
    """Return the middleware that the options name, outermost first. Raises ToolkitError."""
    middleware = tuple(map(entry_options.validate_middleware, options.get("middleware", ())))
    postprocess = options.get("postprocess")
    return middleware if postprocess is None else (*middleware, _to_middleware(postprocess))


def _to_middleware(postprocess: Postprocess) -> Middleware:
    from ahvn_tools.middleware.postprocess import postprocess_middleware  # slow, and few tools need it

    return postprocess_middleware(postprocess)


def _lock(exclusive: Exclusive, locks: KeyedLocks) -> Middleware:
    from ahvn_tools.toolkit.exclusive import lock_middleware  # as above

    return lock_middleware(exclusive, locks)
