"""The code of a tool as data: by its import path, as a text, or as an HTTP request."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from ahvn_tools.errors import SourceError, ToolSpecError, near_misses, quote_name
from ahvn_tools.json_types import JsonObject
from ahvn_tools.sources import code as code_source
from ahvn_tools.sources import function as function_source
from ahvn_tools.sources.http.body import HTTPBody
from ahvn_tools.sources.http.checks import check_request
from ahvn_tools.sources.http.request import ApiKey, Basic, ClientCredentials, HTTPArgument, HTTPOptions, HTTPRequest
from ahvn_tools.sources.injection import InjectedBody
from ahvn_tools.spec_data.fields import FunctionPath, error, join, read, read_object
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
    has_types: bool = True
    """Whether the function's annotations validate its arguments, and not the option `input_schema` alone."""

    def require_trust(self, trust: Trust) -> None:
        """Raise SourceError unless the code may be run, or requests may be sent there."""
        trusted = self.path or self.request
        if trusted is not None:
            trusted.require_trust(trust)
        else:
            trust.require_code()

    def load(self, options: Mapping[str, Any]) -> Function:
        """Return the function: import it, or run the text. Raises SourceError."""
        if self.path is not None:
            return self.path.load()
        if self.request is not None:
            return self.request
        try:
            _, body = code_source.build_template(str(self.source), self.source_function, None, options)
        except ToolSpecError:
            raise
        except (Exception, SystemExit) as reason:
            raise SourceError(f"The code in the data cannot be run: {type(reason).__name__}: {reason}") from reason
        return function_of(body)


def function_of(body: Any) -> Function:
    """Return the function of a body."""
    function: Function = body.function if isinstance(body, InjectedBody) else body
    return function


def write_code(template: ToolTemplate, body: Any) -> JsonObject:
    """Return where the code of a tool is. Raises ToolSpecError, with the fix, for a tool whose code is not data."""
    function, name = function_of(body), template.name
    if isinstance(function, HTTPBody):
        return {"kind": "http", **write_body(function)}
    if template.rebuild is not function_source.build_template:
        raise ToolSpecError(_explain_foreign(template))
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
    path = FunctionPath.read_names(data, "code")
    return CodeData(path=path, has_types=data["kind"] == "function", docstring=docstring)


def _read_text(data: JsonObject) -> CodeData:
    read_object(data, "code", ("kind", "text", "function"))
    function = read(data["function"], "code.function", str)
    return CodeData(source=read(data["text"], "code.text", str), source_function=function)


def _read_request(data: JsonObject) -> CodeData:
    return CodeData(request=read_body(data), has_types=False)


_READERS: Final[Mapping[str, Callable[[JsonObject], CodeData]]] = {
    "function": _read_path,
    "schema": _read_path,
    "code": _read_text,
    "http": _read_request,
}


_SECURITY: Final[Mapping[str, type]] = {"api_key": ApiKey, "basic": Basic, "client_credentials": ClientCredentials}

_PLACES: Final = ("arguments", "body_members")
"""The fields of a request with places by name."""

_BODY_FIELDS: Final = ("name", "request", "sending", "hidden", "wants_json", "is_remote", "origin")


def write_body(body: HTTPBody) -> JsonObject:
    """Return the fields of the data."""
    request = body.request
    return {
        "name": body.name,
        "request": {
            **_to_fields(request),
            **{
                key: {name: _to_fields(place) for name, place in getattr(request, key).items()}
                for key in _PLACES
                if getattr(request, key) or key == "arguments"
            },
            "security": [
                {"kind": kind, **_to_fields(item)}
                for item in request.security
                for kind, cls in _SECURITY.items()
                if type(item) is cls
            ],
        },
        "sending": _to_fields(body.options),
        "hidden": list(body.hidden),
        "wants_json": body.wants_json,
        "is_remote": body.is_remote,
        "origin": body.origin,
    }


def read_body(data: JsonObject) -> HTTPBody:
    """Return the body that data describes; nothing is sent. Raises SourceError and DefinitionError."""
    item = read_object(data, "code", ("kind", *_BODY_FIELDS))
    request = read_object(item["request"], "code.request", optional=_names(HTTPRequest))
    places = {key: _read_places(request, key) for key in _PLACES if key in request or key == "arguments"}
    security = tuple(map(_read_security, read(request.get("security"), "code.request.security", list)))
    plain = {name: value for name, value in request.items() if name not in (*_PLACES, "security")}
    found = _read_dataclass(HTTPRequest, plain, "code.request")
    body = HTTPBody(
        read(item["name"], "code.name", str),
        HTTPRequest(**{**vars(found), **places, "security": security}),
        _read_dataclass(HTTPOptions, item["sending"], "code.sending"),
        hidden=[read(name, "code.hidden", str) for name in read(item["hidden"], "code.hidden", list)],
        wants_json=read(item["wants_json"], "code.wants_json", bool),
        is_remote=read(item["is_remote"], "code.is_remote", bool),
        origin=read(item["origin"], "code.origin", str),
    )
    if not item["origin"]:
        raise error("'code.origin' is empty.")
    check_request(body.name, body.request, body.hidden, body.options)
    return body


def _read_places(request: JsonObject, key: str) -> dict[str, HTTPArgument]:
    path = join("code.request", key)
    places = read(request.get(key), path, dict)
    return {name: _read_dataclass(HTTPArgument, place, join(path, name)) for name, place in places.items()}


def _read_security(data: Any) -> Any:
    path = "code.request.security"
    kind = read(read(data, path, dict).get("kind"), join(path, "kind"), str)
    if kind not in _SECURITY:
        raise error(f"unknown kind {quote_name(kind)} of {path!r}. {near_misses(kind, _SECURITY)}")
    return _read_dataclass(_SECURITY[kind], {key: value for key, value in data.items() if key != "kind"}, path)


def _names(cls: Any) -> list[str]:
    return [item.name for item in fields(cls)]


def _to_fields(item: Any) -> JsonObject:
    """Return the fields of a dataclass that do not have their defaults."""
    values = {part: getattr(item, part.name) for part in fields(item)}
    return {part.name: _to_float(part, value) for part, value in values.items() if value != _default(part)}


def _default(part: Any) -> Any:
    return part.default if part.default_factory is MISSING else part.default_factory()


def _to_float(part: Any, value: Any) -> Any:
    """Return a whole number of seconds as it is after reading."""
    return float(value) if type(value) is int and "float" in part.type else value


def _read_dataclass(cls: Any, data: Any, path: str) -> Any:
    """Return a dataclass with the fields of data, which must be of exactly their types."""
    read_object(data, path, optional=_names(cls))
    try:
        item = TypeAdapter(cls).validate_json(json.dumps(data), strict=True)
    except ValidationError as reason:
        first = reason.errors(include_input=False, include_url=False)[0]
        raise error(f"{join(path, '.'.join(map(str, first['loc'])))!r}: {first['msg']}.") from None
    known = json.loads(json.dumps(_to_fields(item)))
    for name, value in data.items():
        if name not in known or repr(known[name]) != repr(value):
            raise error(f"{join(path, name)!r} is not as to_dict() writes it: leave out what is the default.")
    return item
