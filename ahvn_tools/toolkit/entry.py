"""Entry: one tool in a toolkit: the spec that was given, and what the toolkit adds to it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypedDict

from ahvn_tools.binding import Binding
from ahvn_tools.errors import BindError, DefinitionError, ToolkitError, near_misses
from ahvn_tools.execution.call import Call, Middleware
from ahvn_tools.execution.sealed import Sealed
from ahvn_tools.middleware.postprocess import Postprocess, postprocessing
from ahvn_tools.recipe import Isolation
from ahvn_tools.sources.injection import Injected
from ahvn_tools.sources.options import isolated
from ahvn_tools.spec import ToolSpec
from ahvn_tools.state import Key
from ahvn_tools.toolkit.exclusive import Exclusive, Keys, by_parameter, exclusively

BASIC: Final = "basic"
"""The group of a tool that was put into none; always active."""

Bindings = Mapping[str, Binding]


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


class Entry:
    """One tool in a toolkit."""

    __slots__ = (
        "_kept", "_own", "_preset", "audience", "exclusive", "group", "isolation", "middleware", "name", "origin",
        "requires_approval", "spec", "tags", "timeout",
    )  # fmt: skip

    def __init__(self, spec: ToolSpec, name: str, origin: str, options: EntryOptions, keys: Keys) -> None:
        """Take a spec and what the toolkit adds; `keys` are those that the toolkit's calls hold.

        Raises ToolkitError and BindError for options that do not fit.
        """
        unknown = options.keys() - EntryOptions.__annotations__.keys()
        if unknown:
            raise ToolkitError(f"Unknown options {sorted(unknown)}; known: {', '.join(EntryOptions.__annotations__)}.")
        self.spec = spec
        self.name = _text("name", name)
        self.origin = origin
        self.group = _text("group", options.get("group", BASIC))
        self.tags = spec.tags | names_in(options.get("tags", ()))
        self.audience = names_in(options.get("audience", ()))
        self.timeout = limit(options.get("timeout"))
        self.isolation = _isolation(spec, self.name, options.get("isolation"))
        self.exclusive: Exclusive = _exclusive(spec, self.name, options.get("exclusive", False))
        self.requires_approval = options.get("requires_approval", False)
        post = options.get("postprocess")
        self.middleware: tuple[Middleware, ...] = (
            *options.get("middleware", ()),
            *([postprocessing(post)] if post is not None else []),
            *([exclusively(self.exclusive, keys)] if self.exclusive is not False else []),
        )
        self._preset = _presets(spec, name, options.get("preset", {}))
        self._own: Bindings = {}
        self._kept: tuple[Sealed, Bindings, Bindings, Sealed] | None = None

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
        if kept is not None and kept[0] is base and kept[1] is shared and kept[2] is own:
            return kept[3]
        made = self._made(base, {**shared, **own, **self._preset}, timeout)
        self._kept = base, shared, own, made
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

    def refuse_preset(self, parameter: str) -> None:
        """Raise BindError for a parameter that is preset here."""
        if parameter in self._preset:
            raise BindError(f"{parameter!r} of {self.name!r} is preset here; add the tool without that preset.")

    def _made(self, base: Sealed, bindings: Bindings, timeout: float | None) -> Sealed:
        parameters, fixed = base.recipe.inputs.parameters, base.bindings
        added = {
            name: replace(binding, is_secret=binding.is_secret or parameters[name].is_secret)
            for name, binding in bindings.items()
            if name in parameters and not (name in fixed and fixed[name].is_constant)
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
        return Sealed(recipe, {**fixed, **added})


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
    if timeout is not None and not timeout > 0:
        raise ToolkitError(f"A timeout must be more than 0 seconds, not {timeout!r}.")
    return timeout


def _text(what: str, text: str) -> str:
    if not isinstance(text, str) or not text:  # type: ignore[redundant-expr]  # a caller may give anything
        raise ToolkitError(f"The {what} of a tool is a text with something in it, not {text!r}.")
    return text


def names_in(names: str | Iterable[str]) -> frozenset[str]:
    """Return names as a set; one text is one name."""
    return frozenset([names] if isinstance(names, str) else names)


def _presets(spec: ToolSpec, name: str, preset: Mapping[str, Any]) -> Bindings:
    inputs, fixed = spec.sealed.recipe.inputs, spec.sealed.bindings
    made = {}
    for parameter, value in preset.items():
        if parameter not in inputs.parameters:
            raise BindError(
                f"{name!r} has no parameter {parameter!r} to preset. {near_misses(parameter, inputs.parameters)}"
            )
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
