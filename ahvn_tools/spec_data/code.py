"""The code of a tool as data: by its import path, as a text, or as an HTTP request."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter, ValidationError

from ahvn_tools.errors import SourceError, ToolSpecError, near_misses, quote_name
from ahvn_tools.execution.pickling import FunctionPath
from ahvn_tools.json_types import JsonObject
from ahvn_tools.sources import code as code_source
from ahvn_tools.sources import function as function_source
from ahvn_tools.sources.http.body import HTTPBody
from ahvn_tools.sources.http.checks import check_request
from ahvn_tools.sources.http.request import HTTPOptions, HTTPRequest
from ahvn_tools.sources.injection import function_of
from ahvn_tools.sources.json_schema import external_body
from ahvn_tools.spec_data.fields import error, join, read, read_names, read_object
from ahvn_tools.template import ToolTemplate
from ahvn_tools.trust import Trust

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
    if kind not in _READERS:
        raise error(f"unknown kind {quote_name(kind)} of 'code'. {near_misses(kind, _READERS)}")
    return _READERS[kind](data)


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


_READERS: Final[Mapping[str, Callable[[JsonObject], CodeData]]] = {
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
    _require_same(fields, _adapter().dump_python(item, mode="json"), "code")
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


def _require_same(given: Any, written: Any, path: str) -> None:
    """Raise SourceError for data that is not what `write_body` writes of the same body."""
    if isinstance(given, dict) and isinstance(written, dict):
        read_object(given, path, tuple(written))
        for name, value in given.items():
            _require_same(value, written[name], join(path, name))
    elif isinstance(given, list) and isinstance(written, list) and len(given) == len(written):
        for index, value in enumerate(given):
            _require_same(value, written[index], join(path, index))
    elif repr(given) != repr(written):
        raise error(f"{path!r} is not as to_dict() writes it.")
