"""Entry: one tool in a toolkit: the spec that was given, and what the toolkit adds to it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypedDict

from ahvn_tools.binding import Binding, bindable_parameters
from ahvn_tools.errors import BindError, DefinitionError, ToolkitError, near_misses
from ahvn_tools.execution.call import Call, Middleware
from ahvn_tools.execution.compiled import CompiledTool
from ahvn_tools.mcp.client.remote_tool import RemoteTool
from ahvn_tools.middleware.postprocess import Postprocess, postprocess_middleware
from ahvn_tools.sources.injection import InjectedBody
from ahvn_tools.sources.options import check_isolation
from ahvn_tools.spec import ToolSpec
from ahvn_tools.state import StateKey
from ahvn_tools.template import Isolation, is_duration
from ahvn_tools.toolkit.locks import Exclusive, KeyedLocks, key_by_parameter, lock_middleware

BASIC_GROUP: Final = "basic"
"""The group of a tool that was put into none; always active."""

DELEGATES: Final = "delegates"
"""Marks a body that does nothing but call another tool: what stands around that call stands around it."""

Bindings = Mapping[str, Binding]
InheritedMiddleware = Callable[[], tuple[Middleware, ...]] | None


class EntryOptions(TypedDict, total=False):
    """What `add` takes for the tools that it adds."""

    group: str
    """The one group that they are in, `"basic"` by default."""
    tags: Collection[str]
    """More tags, beside their own."""
    audience: str | Collection[str]
    """Who may see and call them; everyone by default."""
    preset: Mapping[str, Any]
    """Parameters that are fixed here: parameter -> value, bound and sealed."""
    middleware: Sequence[Middleware]
    """What stands around the calls of these tools, inside of the toolkit's own, outermost first."""
    postprocess: Postprocess
    """`(call, result) -> ToolResult | None`, sync or async, on every chunk and result; None keeps it."""
    requires_approval: bool | Callable[[dict[str, Any]], bool]
    """Whether a call has to be allowed by somebody; a function decides by the arguments."""
    exclusive: Exclusive
    """True: a call runs alone among those of one answer. A parameter's name, or a function of the arguments: calls of
    this toolkit with the same key never run at once."""
    timeout: float
    """Seconds that a call may take; the shortest of this, the tool's own and the toolkit's holds."""
    isolation: Isolation | None
    """`"process"`: the bodies run in worker processes, whatever the tools themselves say."""


@dataclass(frozen=True, slots=True)
class _CompiledCache:
    """What the calls of a tool go by, and what it was made of."""

    base: CompiledTool
    toolkit_bindings: Bindings
    entry_bindings: Bindings
    applied_bindings: Bindings
    compiled: CompiledTool


class Entry:
    """One tool in a toolkit."""

    __slots__ = (
        "_cache",
        "_entry_bindings",
        "_inherited_middleware",
        "_lock_middleware",
        "_option_middleware",
        "_own_middleware",
        "_preset",
        "audience",
        "delegates",
        "exclusive",
        "group",
        "is_imported",
        "isolation",
        "name",
        "origin",
        "requires_approval",
        "spec",
        "tags",
        "timeout",
    )  # fmt: skip

    def __init__(
        self,
        spec: ToolSpec,
        name: str,
        origin: str,
        options: EntryOptions,
        locks: KeyedLocks,
        *,
        inherited_middleware: InheritedMiddleware = None,
    ) -> None:
        """Take a spec and what the toolkit adds; `keys` are those that the toolkit's calls hold.

        `around` tells what stands around the spec's calls where it is from.

        Raises ToolkitError and BindError for options that do not fit.
        """
        unknown = options.keys() - EntryOptions.__annotations__.keys()
        if unknown:
            raise ToolkitError(f"Unknown options {sorted(unknown)}; known: {', '.join(EntryOptions.__annotations__)}.")
        self.spec = spec
        self.name = name
        self.origin = origin
        self.is_imported = isinstance(spec.body, RemoteTool)
        """Whether it comes from a server."""
        self.delegates = getattr(spec.body, DELEGATES, False) is True
        """Whether it does nothing but call another tool of the toolkit."""
        self.group = validate_name("group of a tool", options.get("group", BASIC_GROUP))
        self.tags = spec.tags | to_name_set("tags of a tool", options.get("tags", ()))
        self.audience = to_name_set("audience of a tool", options.get("audience", ()))
        self.timeout = validate_timeout(options.get("timeout"))
        self.isolation = _validate_isolation(spec, self.name, options.get("isolation"))
        self.exclusive: Exclusive = _validate_exclusive(spec, self.name, options.get("exclusive", False))
        self.requires_approval = options.get("requires_approval", False)
        if not (isinstance(self.requires_approval, bool) or callable(self.requires_approval)):
            raise ToolkitError(f"`requires_approval` of {name!r} is True, False or a function of the arguments.")
        post = options.get("postprocess")
        self._inherited_middleware = inherited_middleware
        self._option_middleware: tuple[Middleware, ...] = (
            *map(validate_middleware, options.get("middleware", ())),
            *([postprocess_middleware(_validate_postprocess(name, post))] if post is not None else []),
        )
        self._lock_middleware = () if self.exclusive is False else (lock_middleware(self.exclusive, locks),)
        self._own_middleware = (*self._option_middleware, *self._lock_middleware)
        self._preset = _to_preset_bindings(spec, name, options.get("preset", {}))
        self._entry_bindings: Bindings = {}
        self._cache: _CompiledCache | None = None

    @property
    def middleware(self) -> tuple[Middleware, ...]:
        """What stands around its calls, outermost first: what is given here, then what is so where it is from."""
        if self._inherited_middleware is None:
            return self._own_middleware
        return (*self._option_middleware, *self._inherited_middleware(), *self._lock_middleware)

    @property
    def is_changed(self) -> bool:
        """Whether it comes from a server that tells something else of it than was accepted."""
        return self.is_imported and self.spec.body.is_changed is True  # type: ignore[attr-defined]  # a Remote

    def refuse_uninterruptible(self, timeout: float | None) -> None:
        """Raise ToolkitError for a body that no timeout can stop, where one is to hold: here or in the toolkit."""
        recipe = self.spec.compiled.template
        is_stoppable = recipe.is_async or recipe.run_in_thread
        if not is_stoppable and (timeout is not None or self.timeout is not None):
            raise ToolkitError(
                f"{self.name!r} was made with run_in_thread=False, and no timeout can interrupt it in its loop: "
                "leave out run_in_thread=False, or add it to a toolkit without a timeout."
            )

    def requires_approval_for(self, call: Call) -> bool:
        """Tell whether a call needs an approval; a function of the host's that fails does not let it through."""
        if isinstance(self.requires_approval, bool):
            return self.requires_approval
        try:
            return bool(self.requires_approval(call.arguments))
        except Exception:  # noqa: BLE001  # arguments are a model's: the function may not have expected them
            return True

    def compiled_tool(self, toolkit_bindings: Bindings, timeout: float | None) -> CompiledTool:
        """Return what calls go by here. `shared` are the toolkit's bindings: another mapping whenever they change.

        For one parameter a preset beats what is bound here, which beats the toolkit's binding, which beats the spec's.
        """
        base, own, kept = self.spec.compiled, self._entry_bindings, self._cache
        if (
            kept is not None
            and kept.base is base
            and kept.toolkit_bindings is toolkit_bindings
            and kept.entry_bindings is own
        ):
            return kept.compiled
        added = self._applicable_bindings(base, {**toolkit_bindings, **own, **self._preset})
        if kept is not None and kept.base is base and _are_same(kept.applied_bindings, added):
            made = kept.compiled  # what was bound or unbound is in other tools
        else:
            made = self._compile(base, added, timeout)
        self._cache = _CompiledCache(base, toolkit_bindings, own, added, made)
        return made

    def secret_keys(self, toolkit_bindings: Bindings, timeout: float | None) -> frozenset[StateKey]:
        """Return the state keys that are secret for it, or were for its spec."""
        sealed = self.compiled_tool(toolkit_bindings, timeout)
        parameters = sealed.template.inputs.parameters
        keys = {b.key for b in sealed.bindings.values() if b.is_secret or parameters[b.parameter].is_secret}
        return frozenset(key for key in keys if key is not None) | self.spec._secrets  # noqa: SLF001  # of its own kin

    def bind(self, binding: Binding) -> None:
        """Bind a parameter in this toolkit only."""
        self._entry_bindings = {**self._entry_bindings, binding.parameter: binding}

    def unbind(self, parameter: str) -> None:
        """Take back what `bind` did."""
        self._entry_bindings = {name: binding for name, binding in self._entry_bindings.items() if name != parameter}

    @property
    def has_entry_bindings(self) -> bool:
        """Whether anything is bound in this toolkit only."""
        return bool(self._entry_bindings)

    def copy_preset_from(self, other: Entry) -> None:
        """Take over what is preset in an entry that was made of the tool as it is now."""
        self._preset, self._cache = other._preset, None

    def refuse_preset(self, parameter: str) -> None:
        """Raise BindError for a parameter that is preset here."""
        if parameter in self._preset:
            raise BindError(f"{parameter!r} of {self.name!r} is preset here; add the tool without that preset.")

    @staticmethod
    def _applicable_bindings(base: CompiledTool, bindings: Bindings) -> Bindings:
        """Return those bindings that are about this tool."""
        parameters, fixed = base.template.inputs.parameters, base.bindings
        return {
            name: binding
            for name, binding in bindings.items()
            if name in parameters and not (name in fixed and fixed[name].is_constant)
        }

    def _compile(self, base: CompiledTool, bindings: Bindings, timeout: float | None) -> CompiledTool:
        parameters = base.template.inputs.parameters
        added = {
            name: replace(binding, is_secret=binding.is_secret or parameters[name].is_secret)
            for name, binding in bindings.items()
        }
        limits = [seconds for seconds in (base.template.timeout, self.timeout, timeout) if seconds is not None]
        changes = {
            "name": self.name,
            "tags": self.tags,
            "timeout": min(limits, default=None),
            "isolation": self.isolation or base.template.isolation,
        }
        changed = {key: value for key, value in changes.items() if getattr(base.template, key) != value}
        if not added and not changed:
            return base
        recipe = replace(base.template, options={**base.template.options, **changed}, **changed)  # type: ignore[arg-type]  # fields of a recipe
        return CompiledTool(recipe, {**base.bindings, **added})


def _are_same(some: Bindings, others: Bindings) -> bool:
    return some.keys() == others.keys() and all(others[name] is binding for name, binding in some.items())


def _validate_exclusive(spec: ToolSpec, name: str, exclusive: Any) -> Exclusive:
    """Return what keeps calls apart. Raises ToolkitError for what names no parameter that a call gives."""
    shown = spec.definition.input_schema.get("properties", {}) if isinstance(exclusive, str) else {}
    if isinstance(exclusive, str) and exclusive not in shown:
        raise ToolkitError(
            f"{name!r} has no argument {exclusive!r} to be exclusive by. {near_misses(exclusive, shown)}"
        )
    if not (isinstance(exclusive, bool | str) or callable(exclusive)):
        kind = type(exclusive).__name__
        raise ToolkitError(f"`exclusive` of {name!r} is True, a parameter's name or a function, not a {kind}.")
    return key_by_parameter(exclusive, shown[exclusive]) if isinstance(exclusive, str) else exclusive


def _validate_isolation(spec: ToolSpec, name: str, isolation: Isolation | None) -> Isolation | None:
    """Return where bodies run. Raises ToolkitError for a body that cannot go to a process of its own."""
    if isolation is None:
        return None
    try:
        check_isolation("isolation", isolation)
    except DefinitionError as error:
        raise ToolkitError(str(error)) from None
    recipe = spec.compiled.template
    if "tool" in recipe.rebuild_arguments or isinstance(spec.body, InjectedBody):
        raise ToolkitError(
            f"{name!r} is run by MCP or FastMCP and cannot go to a process of its own: leave out isolation."
        )
    if not recipe.run_in_thread:
        raise ToolkitError(
            f"{name!r} was made with run_in_thread=False, and so stays in its loop: leave out isolation."
        )
    return isolation


def validate_timeout(timeout: float | None) -> float | None:
    """Return a limit in seconds. Raises ToolkitError for one that no call could keep."""
    if timeout is not None and not (is_duration(timeout) and timeout > 0):
        raise ToolkitError(f"A timeout must be more than 0 seconds, not {timeout!r}. Leave it out for none.")
    return timeout


def validate_name(what: str, text: Any) -> str:
    """Return a name. Raises ToolkitError for what is no text, or an empty one."""
    if not isinstance(text, str) or not text:
        raise ToolkitError(f"The {what} is a text with something in it, not {text!r}.")
    return text


def to_name_set(what: str, names: Any) -> frozenset[str]:
    """Return names as a set; one text is one name. Raises ToolkitError for anything that is no name."""
    given = [names] if isinstance(names, str) else names
    if not isinstance(given, Iterable):
        raise ToolkitError(f"The {what} are names, not {names!r}.")
    return frozenset(validate_name(f"name among the {what}", name) for name in given)


def validate_middleware(middleware: Middleware) -> Middleware:
    """Return a middleware. Raises ToolkitError for what cannot be one."""
    if not callable(middleware):
        raise ToolkitError(f"A middleware is `async (call, next) -> ToolResult`, not a {type(middleware).__name__}.")
    return middleware


def _validate_postprocess(name: str, postprocess: Postprocess) -> Postprocess:
    if not callable(postprocess):
        raise ToolkitError(f"`postprocess` of {name!r} is a function `(call, result) -> ToolResult | None`.")
    return postprocess


def _to_preset_bindings(spec: ToolSpec, name: str, preset: Mapping[str, Any]) -> Bindings:
    inputs, fixed = spec.compiled.template.inputs, spec.compiled.bindings
    if not isinstance(preset, Mapping):
        raise ToolkitError(f"The preset of {name!r} is a mapping, parameter -> value, not a {type(preset).__name__}.")
    made = {}
    for parameter, value in preset.items():
        if parameter not in inputs.parameters:
            near = near_misses(parameter, bindable_parameters(inputs.parameters, fixed))
            raise BindError(f"{name!r} has no parameter {parameter!r} to preset. {near}")
        if parameter in fixed and fixed[parameter].is_constant:
            raise BindError(f"{parameter!r} of {name!r} was fixed when the tool was made; leave it out of the preset.")
        check = inputs.bound_value_validator(parameter)
        try:
            checked = value if check is None else check(value)
        except Exception:  # noqa: BLE001  # a validator's own error would show the value
            expected = inputs.parameters[parameter].expected
            raise BindError(f"The preset of {parameter!r} of {name!r} does not fit {expected!r}.") from None
        made[parameter] = Binding.constant(parameter, checked, is_secret=inputs.parameters[parameter].is_secret)
    return made
