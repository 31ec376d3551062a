"""The bindings and the options of a tool as data."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic_core import to_jsonable_python

from ahvn_tools.binding import Binding, EnvironmentVariable, WorkerResolver
from ahvn_tools.context import resolve_context, resolve_transport_context
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.execution.compiled_tool import CompiledTool
from ahvn_tools.execution.pickling import FunctionPath
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.argument_changes import ArgumentChange
from ahvn_tools.settings import ToolOptions, to_wire_annotations, to_wire_icons
from ahvn_tools.sources.langchain_injection import InjectedKey
from ahvn_tools.spec_data.fields import (
    MAX_DEPTH,
    error,
    join,
    read,
    read_names,
    read_object,
    read_path,
    read_true,
)
from ahvn_tools.spec_data.public_parts import public_bindings, public_options
from ahvn_tools.state import UNSET, StateKey
from ahvn_tools.trust import Trust

_OF_THE_SOURCE: Final = (resolve_context, resolve_transport_context)
"""Resolvers of bindings that a source makes itself, each time."""

_FIELDS: Final = ("key", "secret", "resolver", "default", "needs_value", "value")


@dataclass(frozen=True, kw_only=True)
class ResolverData:
    """What data says about a resolver."""

    function: FunctionPath | EnvironmentVariable
    is_in_worker: bool = False
    """Whether it is called where the body runs."""

    @classmethod
    def read(cls, data: Any, path: str) -> ResolverData:
        """Return what data says. Raises SourceError."""
        is_variable = isinstance(data, dict) and "variable" in data
        item = read_object(data, path, ("variable",) if is_variable else ("module", "qualname"), ("in_worker",))
        read_true(item, path, "in_worker")
        return cls(
            function=_read_variable(item, path) if is_variable else read_names(item, path),
            is_in_worker="in_worker" in item,
        )

    @classmethod
    def of(cls, resolver: Callable[..., Any], subject: str) -> ResolverData:
        """Return the data of a resolver; `subject` is what it is, for the error. Raises ToolSpecError."""
        is_in_worker = isinstance(resolver, WorkerResolver)
        function = resolver.function if isinstance(resolver, WorkerResolver) else resolver
        known = function if isinstance(function, EnvironmentVariable) else FunctionPath.of(function, subject)
        return cls(function=known, is_in_worker=is_in_worker)

    def to_data(self) -> JsonObject:
        """Return it as JSON."""
        function = self.function
        data = function.to_data() if isinstance(function, FunctionPath) else {"variable": function.name}
        return {**data, "in_worker": True} if self.is_in_worker else data

    def require_trust(self, trust: Trust) -> None:
        """Raise SourceError unless the function may be imported, or the environment variable be read."""
        if isinstance(self.function, FunctionPath):
            self.function.require_trust(trust)
        else:
            trust.require_variable(self.function.name)

    def load(self) -> Callable[..., Any]:
        """Return the resolver; its function is imported. Raises SourceError."""
        function = self.function.load() if isinstance(self.function, FunctionPath) else self.function
        return WorkerResolver(function) if self.is_in_worker else function


def _read_variable(item: JsonObject, path: str) -> EnvironmentVariable:
    name = read(item["variable"], join(path, "variable"), str)
    if not (name.isascii() and name.isidentifier()):
        raise error(f"{join(path, 'variable')!r} must be the name of an environment variable.")
    return EnvironmentVariable(name)


@dataclass(frozen=True, kw_only=True, repr=False)
class BindData:
    """What data says about one binding."""

    parameter: str
    key: StateKey | None = None
    """None: a constant, or a resolver of a credential."""
    is_secret: bool = False
    resolver: ResolverData | None = None
    default: Any = UNSET
    """The constant, or the value if no state has the key."""
    needs_value: bool = False
    """Whether there was a value, which is not in the data: the parameter's own default does not replace it."""

    @classmethod
    def read(cls, parameter: str, data: Any) -> BindData:
        """Return what data says. Raises SourceError."""
        path = join("binds", parameter)
        fields = read_object(data, path, optional=_FIELDS)
        read_true(fields, path, "secret")
        read_true(fields, path, "needs_value")
        _refuse_contradictions(fields, path)
        return cls(
            parameter=parameter,
            key=_read_key(fields["key"], join(path, "key")) if "key" in fields else None,
            is_secret="secret" in fields,
            resolver=ResolverData.read(fields["resolver"], join(path, "resolver")) if "resolver" in fields else None,
            default=fields.get("value", fields.get("default", UNSET)),
            needs_value="needs_value" in fields,
        )

    @property
    def key_text(self) -> str:
        """A key under which the parameter can be bound while the tool is made."""
        return (self.key or StateKey.from_name(self.parameter)).text

    def require_trust(self, trust: Trust) -> None:
        """Raise SourceError unless the resolver may be imported, or the environment variable be read."""
        if self.resolver is not None:
            self.resolver.require_trust(trust)

    def to_binding(self) -> Binding:
        """Return the binding; its resolver is imported. Raises SourceError."""
        if self.resolver is not None:
            resolver = self.resolver.load()
            made = Binding.create(self.parameter, self.key_text, UNSET, resolver, is_secret=self.is_secret)
            return made if self.key is not None else replace(made, key=None)
        if self.key is None:
            return Binding.constant(self.parameter, self.default, is_copied=True)
        made = Binding.create(self.parameter, self.key_text, self.default, None, is_secret=self.is_secret)
        return replace(made, is_value_removed=self.needs_value)


def _read_key(data: Any, path: str) -> StateKey:
    key = StateKey.parse(read(data, path, str))
    if len(key.steps) > MAX_DEPTH:  # a default would make a state of that depth
        raise error(f"{path!r} has more than {MAX_DEPTH} parts.")
    return key


def _refuse_contradictions(fields: JsonObject, path: str) -> None:
    if "value" in fields:
        allowed = {"value"}
    elif "resolver" in fields:
        allowed = {"key", "secret", "resolver"}
    elif "default" in fields:
        allowed = {"key", "default"}
    else:
        allowed = {"key", "secret", "needs_value"}
    for name in sorted(fields.keys() - allowed):
        raise error(
            f"{join(path, name)!r} does not go with {' and '.join(map(repr, sorted(fields.keys() & allowed)))}."
        )
    if "key" not in fields and fields.keys().isdisjoint({"value", "resolver"}):
        raise error(f"{path!r} has no key, no resolver and no value.")


def read_binds(data: Any) -> list[BindData]:
    """Return what data says about the bindings. Raises SourceError or StateKeyError."""
    return [BindData.read(parameter, item) for parameter, item in read(data, "binds", dict).items()]


def write_binds(
    compiled: CompiledTool, state: Mapping[str, Any], secrets: Collection[StateKey], *, with_values: bool
) -> JsonObject:
    """Return the bindings of a tool as data, without those that its source makes itself.

    `secrets` are the keys of secret values. Raises ToolSpecError for a binding that cannot be data, with the fix.
    """
    public, bindings = public_bindings(compiled, state, secrets), compiled.bindings
    writer = _Writer(compiled, state, with_values=with_values)
    return {name: writer.write(item, public[name]) for name, item in bindings.items() if not _is_of_the_source(item)}


def _is_of_the_source(binding: Binding) -> bool:
    if binding.key is not None:
        return isinstance(binding.key, InjectedKey)
    return binding.resolver in _OF_THE_SOURCE or (binding.is_empty and not binding.is_value_removed)


class _Writer:
    """Writes the bindings of one tool."""

    def __init__(self, compiled: CompiledTool, state: Mapping[str, Any], *, with_values: bool) -> None:
        self._tool = compiled.template.name
        self._secret_names = compiled.plan.secret_names
        self._state = state
        self._with_values = with_values

    def write(self, binding: Binding, public: Binding) -> JsonObject:
        """Return one binding as data; `public` is the same without secret values."""
        data: JsonObject = {} if binding.key is None else {"key": binding.key.text}
        if binding.is_secret:
            data["secret"] = True
        if binding.resolver is not None:
            subject = f"The resolver of {binding.parameter!r} of {self._tool!r}"
            return {**data, "resolver": ResolverData.of(binding.resolver, subject).to_data()}
        if binding.key is None:
            return {"value": self._write_constant(public)}
        if self._with_values and public.default is not UNSET and binding.parameter not in self._secret_names:
            return {**data, "default": self._to_json(public)}
        has_value = public.is_value_removed or binding.is_required or binding.may_have_value(self._state)
        return {**data, "needs_value": True} if has_value else data

    def _write_constant(self, binding: Binding) -> Any:
        head = f"Parameter {binding.parameter!r} of {self._tool!r} has a fixed"
        if binding.is_value_removed or binding.parameter in self._secret_names:
            raise ToolSpecError(
                f"{head} secret value, which is never data: bind the parameter to a state key instead, or name an "
                "environment variable as '${NAME}' if it is a credential of an HTTP tool."
            )
        if not self._with_values:
            raise ToolSpecError(
                f"{head} value, and values are not part of the data: write to_dict(values=True) to include it, or bind "
                "the parameter to a state key instead."
            )
        return self._to_json(binding)

    def _to_json(self, binding: Binding) -> Any:
        if not is_plain_json(binding.default):
            raise ToolSpecError(
                f"The value of parameter {binding.parameter!r} of {self._tool!r} is a {type(binding.default).__name__} "
                "that is not plain JSON: bind the parameter to a state key, and set the value where the tool is called."
            )
        return binding.default


def is_plain_json(value: Any) -> bool:
    """Return whether a value is the same after it was written as JSON and read again."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    pending = [value]
    while pending:
        part = pending.pop()
        if type(part) is dict:
            if not all(type(key) is str for key in part):
                return False
            pending += part.values()
        elif type(part) is list:
            pending += part
        elif type(part) not in (str, int, float, bool, type(None)):
            return False
    return True


_NAMES: Final = tuple(name for name in ToolOptions.__annotations__ if name != "binds")
"""The options in data, which has the bindings apart."""


_LISTS: Final = ("examples", "icons", "ship", "tags")
"""Options that any iterable may be, and that are lists in data."""


@dataclass(frozen=True, kw_only=True, repr=False)
class OptionsData:
    """What data says about the options of a tool."""

    values: Mapping[str, Any]
    """The options that are JSON."""
    render: FunctionPath | None = None

    @classmethod
    def read(cls, data: Any) -> OptionsData:
        """Return what data says. Raises SourceError for unknown options; a tool's source checks the values."""
        values = dict(read_object(data, "options", ("name",), _NAMES))
        for name in _LISTS:
            if values.get(name) is not None:
                read(values[name], join("options", name), list)
        if isinstance(ui := values.get("ui"), str) or (isinstance(ui, dict) and "html" in ui):
            raise error("options.ui: data has the text of a page, and names no file.")
        changes = values.get("arguments")
        for name, change in read({} if changes is None else changes, "options.arguments", dict).items():
            read_object(change, join("options.arguments", name), optional=ArgumentChange.__annotations__)
        render = read_path(values.pop("render"), "options.render") if "render" in values else None
        return cls(values=values, render=render)

    def require_trust(self, trust: Trust) -> None:
        """Raise SourceError unless the function of `render` may be imported."""
        if self.render is not None:
            self.render.require_trust(trust)

    def load(self) -> JsonObject:
        """Return the options; the function of `render` is imported. Raises SourceError."""
        return {**self.values} if self.render is None else {**self.values, "render": self.render.load()}


def write_options(compiled: CompiledTool) -> JsonObject:
    """Return the options of a tool as data. Raises ToolSpecError, which names the option that cannot be data."""
    template = compiled.template
    own = public_options(compiled, frozenset(compiled.bindings))
    options = {"name": template.name, **{name: own[name] for name in _NAMES if name in own}}
    if options.get("render") is None:
        options.pop("render", None)
    data = {}
    for name, value in options.items():
        try:
            data[name] = json.loads(json.dumps(_to_json(name, value, template.name), allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise ToolSpecError(
                f"Option {name!r} of {template.name!r} has a value without a JSON form: "
                "set another one with transform()."
            ) from error
    return data


def _to_json(name: str, value: Any, tool: str) -> Any:
    if value is None:
        return None
    match name:
        case "examples":
            return to_jsonable_python(value) or None
        case "tags":
            return sorted(set(value))
        case "ship":
            return list(value)
        case "annotations":
            return to_wire_annotations(value)
        case "icons":
            return to_wire_icons(value)
        case "ui":
            return value.to_data()
        case "render":
            return FunctionPath.of(value, f"The function of the option 'render' of {tool!r}").to_data()
        case "arguments":
            return {argument: dict(change) for argument, change in value.items()}
    return value
