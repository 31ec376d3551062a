"""The data of a tool: written, and read again without running anything that is not trusted."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Self

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from ahvn_tools import definition_lock
from ahvn_tools.binding import Binding, EnvironmentVariable, WorkerResolver
from ahvn_tools.context import resolve_context, resolve_transport_context
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import SourceError, ToolSpecError, near_misses, quote_name
from ahvn_tools.execution.compiled_tool import CompiledTool
from ahvn_tools.execution.pickling import FunctionPath, is_program
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.argument_changes import ArgumentChange
from ahvn_tools.settings import ToolOptions, to_wire_annotations, to_wire_icons
from ahvn_tools.sources import code as code_source
from ahvn_tools.sources import function as function_source
from ahvn_tools.sources.http.body import HTTPBody
from ahvn_tools.sources.http.checks import check_request
from ahvn_tools.sources.http.request import HTTPOptions, HTTPRequest
from ahvn_tools.sources.injection import function_of
from ahvn_tools.sources.json_schema import external_body
from ahvn_tools.sources.langchain_injection import ConfigKey, InjectedKey
from ahvn_tools.spec_data.public_parts import public_bindings, public_options, secret_keys
from ahvn_tools.state import UNSET, StateKey
from ahvn_tools.template import ToolTemplate
from ahvn_tools.trust import Trust

_WORDS: Final[Mapping[type, str]] = {
    dict: "an object", list: "a list", str: "a text", bool: "true or false", int: "a whole number",
}  # fmt: skip

MAX_DEPTH: Final = 200
"""How deep data is nested at most. Validators and copies of deeper data fail at their own limits."""


def error(problem: str) -> SourceError:
    """Return the error about data of a tool."""
    return SourceError(f"This is not the data of a tool as to_dict() writes it: {problem}")


def read_json(value: Any) -> JsonObject:
    """Return a copy of data, which nobody else can change. Raises SourceError for what is no object, or too deep."""
    try:
        plain = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as reason:
        raise error(f"it is not JSON ({type(reason).__name__}). Pass what json.loads() returns.") from reason
    if _is_too_deep(plain):
        raise error(f"it is nested deeper than {MAX_DEPTH} levels.")
    checked: JsonObject = read(plain, "", dict)
    return checked


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        parts = [part for part in level if isinstance(part, dict | list)]
        level = [member for part in parts for member in (part.values() if isinstance(part, dict) else part)]
    return any(isinstance(part, dict | list) for part in level)


def join(path: str, name: object) -> str:
    """Return the path of a member, as errors name it."""
    return f"{path}.{name}" if path else str(name)


def read_object(value: Any, path: str, required: Collection[str] = (), optional: Collection[str] = ()) -> JsonObject:
    """Return an object that has all required fields and no unknown ones. Raises SourceError."""
    read(value, path, dict)
    known = [*required, *optional]
    for name in value:
        if name not in known:
            raise error(f"unknown field {quote_name(join(path, name))}. {near_misses(name, known)}")
    for name in required:
        if name not in value:
            raise error(f"the field {join(path, name)!r} is missing. Write the data again with to_dict().")
    checked: JsonObject = value
    return checked


def read_true(fields: JsonObject, path: str, name: str) -> None:
    """Raise SourceError for a field that is there and not true: its absence means false."""
    if fields.get(name, True) is not True:
        raise error(f"{join(path, name)!r} can only be true: leave it out instead.")


def read(value: Any, path: str, kind: type) -> Any:
    """Return a value that is of one JSON type. Raises SourceError."""
    if type(value) is not kind:
        raise error(f"{quote_name(path) if path else 'it'} must be {_WORDS[kind]}, not {type(value).__name__}.")
    return value


def read_path(data: Any, path: str) -> FunctionPath:
    """Return the import path that data has. Raises SourceError."""
    return read_names(read_object(data, path, ("module", "qualname")), path)


def read_names(data: JsonObject, path: str) -> FunctionPath:
    """Return the import path that two fields of an object have. Raises SourceError."""
    for name in ("module", "qualname"):
        parts = read(data[name], join(path, name), str).split(".")
        if not all(part.isidentifier() for part in parts):
            raise error(f"{join(path, name)!r} must be names joined by dots.")
    if is_program(data["module"]):
        raise error(f"{join(path, 'module')!r} is __main__, which is another program here: use a module.")
    return FunctionPath(data["module"], data["qualname"])


Function = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class CodeData:
    """What data says about the code of a tool: where a function is imported from, a request, or a text."""

    path: FunctionPath | None = None
    request: HTTPBody | None = None
    """A request, which runs no code of its own."""
    source: str | None = None
    """The text of the code."""
    source_function: str | None = None
    """The name of the tool's function in the text."""
    docstring: str | None = None
    """The docstring that replaces the function's."""
    is_external: bool = False
    """Whether there is no code, because the results come from outside."""
    has_types: bool = True
    """Whether the function's annotations validate its arguments, and not the option `input_schema` alone."""

    def require_trust(self, trust: Trust) -> None:
        """Raise SourceError unless the code may be run, or requests may be sent there."""
        if self.is_external:
            return
        trusted = self.path or self.request
        if trusted is not None:
            trusted.require_trust(trust)
        else:
            trust.require_code()

    def load(self, options: Mapping[str, Any]) -> Function:
        """Return the function: import it, or run the text. Raises SourceError."""
        if self.is_external:
            return external_body
        if self.path is not None:
            function: Function = self.path.load()
            return function
        if self.request is not None:
            return self.request
        try:
            _, body = code_source.build_template(str(self.source), self.source_function, None, options)
        except ToolSpecError:
            raise
        except (Exception, SystemExit) as reason:
            raise SourceError(f"The code in the data cannot be run: {type(reason).__name__}: {reason}") from reason
        return function_of(body)


def write_code(template: ToolTemplate, body: Any) -> JsonObject:
    """Return where the code of a tool is. Raises ToolSpecError, with the fix, for a tool whose code is not data."""
    function, name = function_of(body), template.name
    if isinstance(function, HTTPBody):
        return {"kind": "http", **write_body(function)}
    if template.rebuild is not function_source.build_template:
        raise ToolSpecError(_explain_foreign(template))
    if function is external_body:
        return {"kind": "external"}
    if template.source is None:
        path = FunctionPath.of(function, f"The function of {name!r}")
        kind = "function" if template.rebuild_arguments["has_types"] else "schema"
        docstring = template.rebuild_arguments["docstring"]
        return {"kind": kind, **path.to_data(), **({} if docstring is None else {"docstring": docstring})}
    if template.source_function is None:
        raise ToolSpecError(
            f"The code of {name!r} uses values of `env`, which are not data: define them in the code, or import them."
        )
    return {"kind": "code", "text": template.source, "function": template.source_function}


def _explain_foreign(template: ToolTemplate) -> str:
    head = f"{template.name!r} is not data:"
    if template.tool is not None:
        return f"{head} it is a FastMCP tool. Make it with ToolSpec.from_function from the function of that tool."
    if "context" in template.rebuild_arguments:
        return (
            f"{head} it is a tool of an MCP server. Send a manifest with the server, or connect in the other "
            "process: ToolSpec.from_server(mcp.connect(…))."
        )
    return f"{head} it is a LangChain tool. Make it with ToolSpec.from_langchain in the other process."


def read_code(data: Any) -> CodeData:
    """Return where the code is. Raises SourceError and DefinitionError."""
    kind = read(read(data, "code", dict).get("kind"), "code.kind", str)
    if kind not in _CODE_READERS:
        raise error(f"unknown kind {quote_name(kind)} of 'code'. {near_misses(kind, _CODE_READERS)}")
    return _CODE_READERS[kind](data)


def _read_path(data: JsonObject) -> CodeData:
    read_object(data, "code", ("kind", "module", "qualname"), ("docstring",))
    docstring = read(data["docstring"], "code.docstring", str) if "docstring" in data else None
    path = read_names(data, "code")
    return CodeData(path=path, has_types=data["kind"] == "function", docstring=docstring)


def _read_text(data: JsonObject) -> CodeData:
    read_object(data, "code", ("kind", "text", "function"))
    function = read(data["function"], "code.function", str)
    return CodeData(source=read(data["text"], "code.text", str), source_function=function)


def _read_request(data: JsonObject) -> CodeData:
    return CodeData(request=read_body(data), has_types=False)


def _read_external(data: JsonObject) -> CodeData:
    read_object(data, "code", ("kind",))
    return CodeData(is_external=True, has_types=False)


_CODE_READERS: Final[Mapping[str, Callable[[JsonObject], CodeData]]] = {
    "function": _read_path,
    "schema": _read_path,
    "code": _read_text,
    "http": _read_request,
    "external": _read_external,
}


@dataclass(frozen=True, kw_only=True)
class _RequestData:
    """What an HTTPBody is made of."""

    name: str
    request: HTTPRequest
    sending: HTTPOptions
    hidden: tuple[str, ...]
    wants_json: bool
    is_remote: bool
    named: tuple[str, ...]
    origin: Annotated[str, Field(min_length=1)]


@functools.cache
def _adapter() -> TypeAdapter[_RequestData]:
    return TypeAdapter(_RequestData)


def write_body(body: HTTPBody) -> JsonObject:
    """Return the fields of the data."""
    fields = {
        name: getattr(body, name)
        for name in ("name", "request", "hidden", "wants_json", "is_remote", "named", "origin")
    }
    data = _RequestData(**fields, sending=body.options)
    written = _adapter().validate_json(_adapter().dump_json(data, warnings=False))  # whole seconds become floats
    return dict(_adapter().dump_python(written, mode="json"))


def read_body(data: JsonObject) -> HTTPBody:
    """Return the body that data describes; nothing is sent. Raises SourceError and DefinitionError."""
    fields = {name: value for name, value in data.items() if name != "kind"}
    try:
        item = _adapter().validate_json(json.dumps(fields), strict=True)
    except ValidationError as reason:
        first = reason.errors(include_input=False, include_url=False)[0]
        raise error(f"{join('code', '.'.join(map(str, first['loc'])))!r}: {first['msg']}.") from None
    _require_same_body(fields, _adapter().dump_python(item, mode="json"), "code")
    check_request(item.name, item.request, item.hidden, item.sending)
    return HTTPBody(
        item.name,
        item.request,
        item.sending,
        hidden=item.hidden,
        wants_json=item.wants_json,
        is_remote=item.is_remote,
        named=item.named,
        origin=item.origin,
    )


def _require_same_body(given: Any, written: Any, path: str) -> None:
    """Raise SourceError for data that is not what `write_body` writes of the same body."""
    if isinstance(given, dict) and isinstance(written, dict):
        read_object(given, path, tuple(written))
        for name, value in given.items():
            _require_same_body(value, written[name], join(path, name))
    elif isinstance(given, list) and isinstance(written, list) and len(given) == len(written):
        for index, value in enumerate(given):
            _require_same_body(value, written[index], join(path, index))
    elif repr(given) != repr(written):
        raise error(f"{path!r} is not as to_dict() writes it.")


_OF_THE_SOURCE: Final = (resolve_context, resolve_transport_context)
"""Resolvers of bindings that a source makes itself, each time."""

_BIND_FIELDS: Final = ("key", "secret", "resolver", "default", "needs_value", "value")


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
        fields = read_object(data, path, optional=_BIND_FIELDS)
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
    writer = _BindWriter(compiled, state, with_values=with_values)
    return {name: writer.write(item, public[name]) for name, item in bindings.items() if not _is_of_the_source(item)}


def _is_of_the_source(binding: Binding) -> bool:
    if binding.key is not None:
        return isinstance(binding.key, InjectedKey | ConfigKey)
    return binding.resolver in _OF_THE_SOURCE or (binding.is_empty and not binding.is_value_removed)


class _BindWriter:
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


_OPTION_NAMES: Final = tuple(name for name in ToolOptions.__annotations__ if name != "binds")
"""The options in data, which has the bindings apart."""


_LIST_OPTIONS: Final = ("examples", "icons", "ship", "tags")
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
        values = dict(read_object(data, "options", ("name",), _OPTION_NAMES))
        for name in _LIST_OPTIONS:
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
    options = {"name": template.name, **{name: own[name] for name in _OPTION_NAMES if name in own}}
    if options.get("render") is None:
        options.pop("render", None)
    data = {}
    for name, value in options.items():
        try:
            data[name] = json.loads(json.dumps(_option_to_json(name, value, template.name), allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise ToolSpecError(
                f"Option {name!r} of {template.name!r} has a value without a JSON form: "
                "set another one with transform()."
            ) from error
    return data


def _option_to_json(name: str, value: Any, tool: str) -> Any:
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


VERSION: Final = 1
"""Another version may have other fields, or calculate the fingerprint differently."""

_FIELDS: Final = ("version", "definition", "fingerprint", "code", "options", "binds", "digest")

_OTHER_FIELDS: Final = ("secret_keys", "spec_class")


def digest(data: JsonObject) -> str:
    """Return the SHA-256, in hex, of all fields but `digest`: it notices a change, and proves no origin."""
    others = {name: value for name, value in data.items() if name != "digest"}
    return hashlib.sha256(json.dumps(others, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, repr=False)
class ToolData:
    """The data of one tool. Nothing is imported or run before `load`."""

    definition: ToolDefinition
    code: CodeData
    options: OptionsData
    binds: list[BindData]
    secret_keys: frozenset[StateKey]
    spec_class: str | None = None
    """The subclass of ToolSpec that the tool was an instance of, by its full name."""

    @classmethod
    def read(cls, data: Any) -> Self:
        """Return the data, checked as far as that is possible without the code. Raises SourceError."""
        try:
            return cls._read(read_json(data))
        except SourceError:
            raise
        except ToolSpecError as reason:
            raise error(str(reason)) from reason

    @classmethod
    def _read(cls, data: JsonObject) -> Self:
        version = data.get("version")
        if type(version) is not int or version != VERSION:
            raise error(
                f"its version is {quote_name(version)}, and this release reads {VERSION}. Write it again with "
                "to_dict()."
            )
        read_object(data, "", _FIELDS, _OTHER_FIELDS)
        definition = _read_definition(data)
        binds = read_binds(data["binds"])
        tool = cls(
            definition=definition,
            code=read_code(data["code"]),
            options=OptionsData.read(data["options"]),
            binds=binds,
            secret_keys=_read_secret_keys(data.get("secret_keys", []), binds),
            spec_class=None if "spec_class" not in data else read(data["spec_class"], "spec_class", str),
        )
        if digest(data) != data["digest"]:
            raise error("it was changed after it was written. Change the tool, and write it again with to_dict().")
        return tool

    def require_trust(self, trust: Trust) -> None:
        """Raise SourceError unless everything that the tool needs is trusted, imported modules included."""
        self.code.require_trust(trust)
        self.options.require_trust(trust)
        for item in self.binds:
            item.require_trust(trust)

    def load(self) -> tuple[ToolTemplate, Function]:
        """Return the template and the body of the tool. Raises SourceError."""
        try:
            options = {**self.options.load(), "binds": self._keys}
            template, body = self.build(
                self.code.load(options), options, {item.parameter: item.to_binding() for item in self.binds}
            )
            self._require_same(CompiledTool(template, template.bindings).definition)
        except SourceError:
            raise
        except ToolSpecError as reason:
            raise SourceError(f"The tool {self.definition.name!r} cannot be made from its data: {reason}") from reason
        return template, body

    @property
    def _keys(self) -> dict[str, str]:
        return {item.parameter: item.key_text for item in self.binds}

    def build(
        self, function: Function, options: Mapping[str, Any], bindings: Mapping[str, Binding]
    ) -> tuple[ToolTemplate, Function]:
        """Return the template and the body of a function with the options and bindings of the data."""
        return function_source.build_template(
            function,
            {**options, "binds": self._keys},
            docstring=self.code.docstring,
            more_bindings=bindings,
            source=self.code.source,
            source_function=self.code.source_function,
            has_types=self.code.has_types,
        )

    def _require_same(self, definition: ToolDefinition) -> None:
        if definition != self.definition:
            raise SourceError(
                f"The code of {self.definition.name!r} is not that of the data: "
                f"{describe_changes(self.definition, definition)}. Load it where the code has not changed, or write it "
                "again with to_dict()."
            )


def describe_changes(before: ToolDefinition, after: ToolDefinition) -> str:
    """Return what differs between two definitions of one tool, without values."""
    if before.name != after.name:
        return "it has another name"
    changes = definition_lock.compare([before], [after])
    reasons = (*changes.breaking.get(before.name, ()), *changes.compatible.get(before.name, ()))
    return ", ".join(reasons) or "its definition differs"


def _read_secret_keys(data: Any, binds: list[BindData]) -> frozenset[StateKey]:
    texts = [read(key, "secret_keys", str) for key in read(data, "secret_keys", list)]
    needed = {item.key.text for item in binds if item.is_secret and item.key is not None}
    if texts != sorted({*texts, *needed}):
        raise error("'secret_keys' must list the keys of all secret bindings, sorted.")
    return frozenset(map(StateKey.parse, texts))


def _read_definition(data: JsonObject) -> ToolDefinition:
    fields = read_object(data["definition"], "definition", ("name",), definition_lock.FIELDS)
    for name, value in fields.items():
        read(value, join("definition", name), definition_lock.FIELDS[name])
    try:
        definition = definition_lock.from_json(fields)
        fingerprint = definition.fingerprint
    except (TypeError, ValueError) as reason:
        raise error("its definition is malformed.") from reason
    if fingerprint != data["fingerprint"]:
        raise error(
            "its definition does not fit its fingerprint, so one of them was changed. Get the data from where it was "
            "written."
        )
    return definition


MAX_ERROR_CHARS: Final = 1000
"""The middle of a longer error is left out: it may repeat a name or a type that data has."""


def load(
    data: Any, trust: Iterable[str | os.PathLike[str]], spec_classes: Collection[str]
) -> tuple[ToolTemplate, Function, frozenset[StateKey]]:
    """Return the template and the body of a tool, and the keys that were ever bound as secret.

    `spec_classes` are the full names of the class to make and of its bases. Raises SourceError.
    """
    if trust is None:
        raise SourceError("trust is a list, because None would not say what may be run: [] trusts nothing.")
    try:
        tool = ToolData.read(data)
        if tool.spec_class is not None and tool.spec_class not in spec_classes:
            name, needed = tool.definition.name, quote_name(tool.spec_class)
            raise SourceError(f"The tool {name!r} is a {needed}: load it with from_dict of that class.")
        tool.require_trust(Trust(trust))
        return *tool.load(), tool.secret_keys
    except SourceError as error:
        if _is_plain(str(error)):
            raise
        raise SourceError(_to_plain(str(error))) from error.__cause__


def _is_plain(text: str) -> bool:
    return len(text) <= MAX_ERROR_CHARS and text.replace("\n", "").isprintable()


def _to_plain(text: str) -> str:
    """Return the text of an error without control characters that data may have brought into it, and cut."""
    half = MAX_ERROR_CHARS // 2
    shown = text if len(text) <= MAX_ERROR_CHARS else f"{text[:half]} … {text[-half:]}"
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in shown)


def write(
    compiled: CompiledTool,
    body: Any,
    state: Mapping[str, Any],
    secrets: Iterable[StateKey],
    *,
    spec_class: str | None,
    with_values: bool,
) -> JsonObject:
    """Return the data of a tool. Raises ToolSpecError, with the fix, for a part that is not data."""
    definition, keys = compiled.definition, secret_keys(compiled, secrets)
    data: JsonObject = {
        "version": VERSION,
        "definition": definition_lock.to_json(definition),
        "fingerprint": definition.fingerprint,
        "code": write_code(compiled.template, body),
        "options": write_options(compiled),
        "binds": write_binds(compiled, state, keys, with_values=with_values),
    }
    if keys:
        data["secret_keys"] = sorted(key.text for key in keys)
    if spec_class is not None:
        data["spec_class"] = spec_class
    data = json.loads(json.dumps(data))
    data["digest"] = digest(data)
    _require_complete(data, compiled, body)
    return data


def _require_complete(data: JsonObject, compiled: CompiledTool, body: Any) -> None:
    """Raise ToolSpecError if the data gives another tool, as for types that only the defining function knows."""
    tool = ToolData.read(data)
    name, bindings = compiled.template.name, {item.parameter: item.to_binding() for item in tool.binds}
    try:
        template, _ = tool.build(function_of(body), tool.options.load(), bindings)
        again = CompiledTool(template, template.bindings).definition
    except ToolSpecError as error:
        raise ToolSpecError(f"{name!r} cannot be made from data again: {error}") from error
    if again != compiled.definition:
        raise ToolSpecError(
            f"{name!r} would be another tool: {describe_changes(compiled.definition, again)}. Pass as "
            "options what its function does not say itself, such as the description."
        )
