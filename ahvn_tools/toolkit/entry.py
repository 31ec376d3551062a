"""Entry: one tool in a toolkit: the spec that was given, and what the toolkit adds to it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypedDict

from ahvn_tools.binding import Binding, open_to_bind
from ahvn_tools.errors import BindError, DefinitionError, ToolkitError, near_misses
from ahvn_tools.execution.call import Call, Middleware
from ahvn_tools.execution.sealed import Sealed
from ahvn_tools.mcp.remote import Remote
from ahvn_tools.middleware.postprocess import Postprocess, postprocessing
from ahvn_tools.recipe import Isolation, is_waited
from ahvn_tools.sources.injection import Injected
from ahvn_tools.sources.options import isolated
from ahvn_tools.spec import ToolSpec
from ahvn_tools.state import Key
from ahvn_tools.toolkit.exclusive import Exclusive, Keys, by_parameter, exclusively

BASIC: Final = "basic"
"""The group of a tool that was put into none; always active."""

PASSES_ON: Final = "passes_on"
"""Marks a body that does nothing but call another tool: what stands around that call stands around it."""

Bindings = Mapping[str, Binding]
Around = Callable[[], tuple[Middleware, ...]] | None


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
class _Kept:
    """What the calls of a tool go by, and what it was made of."""

    base: Sealed
    shared: Bindings
    own: Bindings
    added: Bindings
    made: Sealed


class Entry:
    """One tool in a toolkit."""

    __slots__ = (
        "_around", "_given", "_innermost", "_kept", "_own", "_own_middleware", "_preset", "audience", "exclusive",
        "group", "is_imported", "isolation", "name", "origin", "passes_on", "requires_approval", "spec", "tags",
        "timeout",
    )  # fmt: skip

    def __init__(
        self, spec: ToolSpec, name: str, origin: str, options: EntryOptions, keys: Keys, *, around: Around = None
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
        self.is_imported = isinstance(spec.body, Remote)
        """Whether it comes from a server."""
        self.passes_on = getattr(spec.body, PASSES_ON, False) is True
        """Whether it does nothing but call another tool of the toolkit."""
        self.group = named("group of a tool", options.get("group", BASIC))
        self.tags = spec.tags | texts("tags of a tool", options.get("tags", ()))
        self.audience = texts("audience of a tool", options.get("audience", ()))
        self.timeout = limit(options.get("timeout"))
        self.isolation = _isolation(spec, self.name, options.get("isolation"))
        self.exclusive: Exclusive = _exclusive(spec, self.name, options.get("exclusive", False))
        self.requires_approval = options.get("requires_approval", False)
        if not (isinstance(self.requires_approval, bool) or callable(self.requires_approval)):
            raise ToolkitError(f"`requires_approval` of {name!r} is True, False or a function of the arguments.")
        post = options.get("postprocess")
        self._around = around
        self._given: tuple[Middleware, ...] = (
            *map(runnable, options.get("middleware", ())),
            *([postprocessing(_function(name, post))] if post is not None else []),
        )
        self._innermost = () if self.exclusive is False else (exclusively(self.exclusive, keys),)
        self._own_middleware = (*self._given, *self._innermost)
        self._preset = _presets(spec, name, options.get("preset", {}))
        self._own: Bindings = {}
        self._kept: _Kept | None = None

    @property
    def middleware(self) -> tuple[Middleware, ...]:
        """What stands around its calls, outermost first: what is given here, then what is so where it is from."""
        if self._around is None:
            return self._own_middleware
        return (*self._given, *self._around(), *self._innermost)

    @property
    def is_changed(self) -> bool:
        """Whether it comes from a server that tells something else of it than was accepted."""
        return self.is_imported and self.spec.body.is_changed is True  # type: ignore[attr-defined]  # a Remote

    def refuse_endless(self, timeout: float | None) -> None:
        """Raise ToolkitError for a body that no timeout can stop, where one is to hold: here or in the toolkit."""
        recipe = self.spec.sealed.recipe
        is_stoppable = recipe.is_async or recipe.run_in_thread
        if not is_stoppable and (timeout is not None or self.timeout is not None):
            raise ToolkitError(
                f"{self.name!r} was made with run_in_thread=False, and no timeout can interrupt it in its loop: "
                "leave out run_in_thread=False, or add it to a toolkit without a timeout."
            )

    def has_to_be_allowed(self, call: Call) -> bool:
        """Tell whether a call needs an approval; a function of the host's that fails does not let it through."""
        if isinstance(self.requires_approval, bool):
            return self.requires_approval
        try:
            return bool(self.requires_approval(call.arguments))
        except Exception:  # noqa: BLE001  # arguments are a model's: the function may not have expected them
            return True

    def sealed(self, shared: Bindings, timeout: float | None) -> Sealed:
        """Return what calls go by here. `shared` are the toolkit's bindings: another mapping whenever they change.

        For one parameter a preset beats what is bound here, which beats the toolkit's binding, which beats the spec's.
        """
        base, own, kept = self.spec.sealed, self._own, self._kept
        if kept is not None and kept.base is base and kept.shared is shared and kept.own is own:
            return kept.made
        added = self._added(base, {**shared, **own, **self._preset})
        if kept is not None and kept.base is base and _are_same(kept.added, added):
            made = kept.made  # what was bound or unbound is in other tools
        else:
            made = self._made(base, added, timeout)
        self._kept = _Kept(base, shared, own, added, made)
        return made

    def secret_keys(self, shared: Bindings, timeout: float | None) -> frozenset[Key]:
        """Return the state keys that are secret for it, or were for its spec."""
        sealed = self.sealed(shared, timeout)
        parameters = sealed.recipe.inputs.parameters
        keys = {b.key for b in sealed.bindings.values() if b.is_secret or parameters[b.parameter].is_secret}
        return frozenset(key for key in keys if key is not None) | self.spec._secrets  # noqa: SLF001  # of its own kin

    def bind(self, binding: Binding) -> None:
        """Bind a parameter in this toolkit only."""
        self._own = {**self._own, binding.parameter: binding}

    def unbind(self, parameter: str) -> None:
        """Take back what `bind` did."""
        self._own = {name: binding for name, binding in self._own.items() if name != parameter}

    @property
    def is_bound_here(self) -> bool:
        """Whether anything is bound in this toolkit only."""
        return bool(self._own)

    def take_preset(self, other: Entry) -> None:
        """Take over what is preset in an entry that was made of the tool as it is now."""
        self._preset, self._kept = other._preset, None

    def refuse_preset(self, parameter: str) -> None:
        """Raise BindError for a parameter that is preset here."""
        if parameter in self._preset:
            raise BindError(f"{parameter!r} of {self.name!r} is preset here; add the tool without that preset.")

    @staticmethod
    def _added(base: Sealed, bindings: Bindings) -> Bindings:
        """Return those bindings that are about this tool."""
        parameters, fixed = base.recipe.inputs.parameters, base.bindings
        return {
            name: binding
            for name, binding in bindings.items()
            if name in parameters and not (name in fixed and fixed[name].is_constant)
        }

    def _made(self, base: Sealed, bindings: Bindings, timeout: float | None) -> Sealed:
        parameters = base.recipe.inputs.parameters
        added = {
            name: replace(binding, is_secret=binding.is_secret or parameters[name].is_secret)
            for name, binding in bindings.items()
        }
        limits = [seconds for seconds in (base.recipe.timeout, self.timeout, timeout) if seconds is not None]
        changes = {
            "name": self.name,
            "tags": self.tags,
            "timeout": min(limits, default=None),
            "isolation": self.isolation or base.recipe.isolation,
        }
        changed = {key: value for key, value in changes.items() if getattr(base.recipe, key) != value}
        if not added and not changed:
            return base
        recipe = replace(base.recipe, options={**base.recipe.options, **changed}, **changed)  # type: ignore[arg-type]  # fields of a recipe
        return Sealed(recipe, {**base.bindings, **added})


def _are_same(some: Bindings, others: Bindings) -> bool:
    return some.keys() == others.keys() and all(others[name] is binding for name, binding in some.items())


def _exclusive(spec: ToolSpec, name: str, exclusive: Any) -> Exclusive:
    """Return what keeps calls apart. Raises ToolkitError for what names no parameter that a call gives."""
    shown = spec.definition.input_schema.get("properties", {}) if isinstance(exclusive, str) else {}
    if isinstance(exclusive, str) and exclusive not in shown:
        raise ToolkitError(
            f"{name!r} has no argument {exclusive!r} to be exclusive by. {near_misses(exclusive, shown)}"
        )
    if not (isinstance(exclusive, bool | str) or callable(exclusive)):
        kind = type(exclusive).__name__
        raise ToolkitError(f"`exclusive` of {name!r} is True, a parameter's name or a function, not a {kind}.")
    return by_parameter(exclusive, shown[exclusive]) if isinstance(exclusive, str) else exclusive


def _isolation(spec: ToolSpec, name: str, isolation: Isolation | None) -> Isolation | None:
    """Return where bodies run. Raises ToolkitError for a body that cannot go to a process of its own."""
    if isolation is None:
        return None
    try:
        isolated("isolation", isolation)
    except DefinitionError as error:
        raise ToolkitError(str(error)) from None
    recipe = spec.sealed.recipe
    if "tool" in recipe.hints or isinstance(spec.body, Injected):
        raise ToolkitError(
            f"{name!r} is run by MCP or FastMCP and cannot go to a process of its own: leave out isolation."
        )
    if not recipe.run_in_thread:
        raise ToolkitError(
            f"{name!r} was made with run_in_thread=False, and so stays in its loop: leave out isolation."
        )
    return isolation


def limit(timeout: float | None) -> float | None:
    """Return a limit in seconds. Raises ToolkitError for one that no call could keep."""
    if timeout is not None and not (is_waited(timeout) and timeout > 0):
        raise ToolkitError(f"A timeout must be more than 0 seconds, not {timeout!r}. Leave it out for none.")
    return timeout


def named(what: str, text: Any) -> str:
    """Return a name. Raises ToolkitError for what is no text, or an empty one."""
    if not isinstance(text, str) or not text:
        raise ToolkitError(f"The {what} is a text with something in it, not {text!r}.")
    return text


def texts(what: str, names: Any) -> frozenset[str]:
    """Return names as a set; one text is one name. Raises ToolkitError for anything that is no name."""
    given = [names] if isinstance(names, str) else names
    if not isinstance(given, Iterable):
        raise ToolkitError(f"The {what} are names, not {names!r}.")
    return frozenset(named(f"name among the {what}", name) for name in given)


def runnable(middleware: Middleware) -> Middleware:
    """Return a middleware. Raises ToolkitError for what cannot be one."""
    if not callable(middleware):
        raise ToolkitError(f"A middleware is `async (call, next) -> ToolResult`, not a {type(middleware).__name__}.")
    return middleware


def _function(name: str, postprocess: Postprocess) -> Postprocess:
    if not callable(postprocess):
        raise ToolkitError(f"`postprocess` of {name!r} is a function `(call, result) -> ToolResult | None`.")
    return postprocess


def _presets(spec: ToolSpec, name: str, preset: Mapping[str, Any]) -> Bindings:
    inputs, fixed = spec.sealed.recipe.inputs, spec.sealed.bindings
    if not isinstance(preset, Mapping):
        raise ToolkitError(f"The preset of {name!r} is a mapping, parameter -> value, not a {type(preset).__name__}.")
    made = {}
    for parameter, value in preset.items():
        if parameter not in inputs.parameters:
            near = near_misses(parameter, open_to_bind(inputs.parameters, fixed))
            raise BindError(f"{name!r} has no parameter {parameter!r} to preset. {near}")
        if parameter in fixed and fixed[parameter].is_constant:
            raise BindError(f"{parameter!r} of {name!r} was fixed when the tool was made; leave it out of the preset.")
        check = inputs.check(parameter)
        try:
            checked = value if check is None else check(value)
        except Exception:  # noqa: BLE001  # a validator's own error would show the value
            expected = inputs.parameters[parameter].expected
            raise BindError(f"The preset of {parameter!r} of {name!r} does not fit {expected!r}.") from None
        made[parameter] = Binding.constant(parameter, checked, is_secret=inputs.parameters[parameter].is_secret)
    return made
