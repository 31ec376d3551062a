"""Where the code of a tool is, as data: an import path, a text, or the request that an HTTP tool sends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ahvn_tools.errors import SourceError, ToolSpecError, near_misses, quote_name
from ahvn_tools.json_types import JsonObject
from ahvn_tools.sources import code as code_source
from ahvn_tools.sources import function as function_source
from ahvn_tools.sources.http.body import HTTPBody
from ahvn_tools.sources.injection import InjectedBody
from ahvn_tools.spec_data import http
from ahvn_tools.spec_data.fields import error, read, read_object
from ahvn_tools.spec_data.import_path import FunctionPath
from ahvn_tools.template import ToolTemplate
from ahvn_tools.trust import Trust

Function = Callable[..., Any]


class CodeData(Protocol):
    """What data says about the code of a tool."""

    @property
    def source(self) -> str | None:
        """The text of the code, if the data has it."""

    @property
    def source_function(self) -> str | None:
        """The name of the tool's function in it."""

    @property
    def docstring(self) -> str | None:
        """The docstring that replaces the function's."""

    @property
    def has_types(self) -> bool:
        """Whether the function's annotations validate its arguments, and not the option `input_schema` alone."""

    def require_trust(self, trust: Trust) -> None:
        """Raise SourceError unless the code may be run."""

    def load(self, options: Mapping[str, Any]) -> Function:
        """Return the function. Raises SourceError."""


@dataclass(frozen=True)
class ImportedCode:
    """A function that is imported."""

    path: FunctionPath
    has_types: bool
    docstring: str | None = None
    source: None = None
    source_function: None = None

    def require_trust(self, trust: Trust) -> None:
        """Raise SourceError unless the module may be imported."""
        self.path.require_trust(trust)

    def load(self, _options: Mapping[str, Any]) -> Function:
        """Import the function."""
        return self.path.load()


@dataclass(frozen=True)
class CodeText:
    """A function that a text defines."""

    source: str
    source_function: str
    has_types: bool = True
    docstring: None = None

    def require_trust(self, trust: Trust) -> None:
        """Raise SourceError unless code that is a text may be run."""
        trust.require_code()

    def load(self, options: Mapping[str, Any]) -> Function:
        """Run the text and return the function."""
        try:
            _, body = code_source.build_template(self.source, self.source_function, None, options)
        except ToolSpecError:
            raise
        except (Exception, SystemExit) as reason:
            raise SourceError(f"The code in the data cannot be run: {type(reason).__name__}: {reason}") from reason
        return function_of(body)


@dataclass(frozen=True)
class RequestCode:
    """A request, which runs no code of its own."""

    body: HTTPBody
    has_types: bool = False
    docstring: None = None
    source: None = None
    source_function: None = None

    def require_trust(self, trust: Trust) -> None:
        """Raise SourceError unless requests may be sent there."""
        self.body.require_trust(trust)

    def load(self, _options: Mapping[str, Any]) -> Function:
        """Return the function that sends the request."""
        return self.body


def function_of(body: Any) -> Function:
    """Return the function of a body."""
    function: Function = body.function if isinstance(body, InjectedBody) else body
    return function


def write_code(template: ToolTemplate, body: Any) -> JsonObject:
    """Return where the code of a tool is. Raises ToolSpecError, with the fix, for a tool whose code is not data."""
    function, name = function_of(body), template.name
    if isinstance(function, HTTPBody):
        return {"kind": "http", **http.write_body(function)}
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
    return ImportedCode(FunctionPath.read_names(data, "code"), data["kind"] == "function", docstring)


def _read_text(data: JsonObject) -> CodeData:
    read_object(data, "code", ("kind", "text", "function"))
    return CodeText(read(data["text"], "code.text", str), read(data["function"], "code.function", str))


def _read_request(data: JsonObject) -> CodeData:
    return RequestCode(http.read_body(data))


_READERS: Final[Mapping[str, Callable[[JsonObject], CodeData]]] = {
    "function": _read_path,
    "schema": _read_path,
    "code": _read_text,
    "http": _read_request,
}
