"""ToolSources: the sources that a tool is made from: functions, code, MCP tools and servers."""

from __future__ import annotations

import contextlib
import os
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Self, Unpack

from ahvn_tools.errors import StateKeyError, ToolSpecError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.annotations import caller_locals
from ahvn_tools.sources import code as code_source
from ahvn_tools.sources import function as function_source
from ahvn_tools.sources.options import ToolOptions
from ahvn_tools.spec_exports import P, R, ToolExports
from ahvn_tools.state import StateKey, copy_containers
from ahvn_tools.template import ToolTemplate

if TYPE_CHECKING:
    from fastmcp.tools import Tool
    from mcp_types import Tool as WireTool

    from ahvn_tools.mcp.client.remote_server import RemoteServer
    from ahvn_tools.sources.http.options import HTTPToolOptions
    from ahvn_tools.sources.langchain import LangChainTool
    from ahvn_tools.sources.openapi.options import OpenAPIOptions

Function = Callable[..., Any]


OWN_ATTRIBUTES = frozenset({"_lock", "compiled", "body", "state_scopes", "_secrets", "_adapter"})
"""The attributes of each spec; others were set by a subclass or a user."""


class ToolSources(ToolExports[P, R]):
    """Base class of ToolSpec. Each `from_…` method makes a template and a body, which the class is made of."""

    body: Function
    _secrets: frozenset[StateKey]

    @property
    @abstractmethod
    def state(self) -> MutableMapping[str, Any]:
        """The values of bound parameters."""

    @abstractmethod
    def __init__(self, template: ToolTemplate | None = None, body: Function | None = None) -> None:
        """Take a source's template and body."""

    @classmethod
    def from_function(cls, func: Function, **options: Unpack[ToolOptions]) -> Self:
        """Make a spec from a callable of any kind. Options: see `ToolOptions`.

        A parameter whose type has no JSON form must be bound, now or later, before the spec is called or exported.
        Raises DefinitionError for an object that cannot be a tool, and for an unknown option.
        """
        return cls(*function_source.build_template(func, options, namespace=caller_locals()))

    @classmethod
    def from_schema(  # type: ignore[misc]  # Python itself refuses the options of these two names
        cls, name: str, input_schema: JsonObject, function: Function, **options: Unpack[ToolOptions]
    ) -> Self:
        """Make a spec from a JSON Schema and a function that takes its properties as `**arguments`.

        The schema alone validates; the function gets the JSON, without what a call leaves out, and may name some of the
        properties, and a ToolContext, in its signature. Options: see `ToolOptions`.

        Raises DefinitionError for a schema that does not describe an object or refers to something outside of it, for
        a function that does not take its properties, and for an option that means nothing here.
        """
        from ahvn_tools.sources import schema_function

        return cls(*schema_function.build_template(name, input_schema, function, options, namespace=caller_locals()))

    @classmethod
    def from_openai(cls, definition: Mapping[str, Any], function: Function, **options: Unpack[ToolOptions]) -> Self:
        """Make a spec from a tool as OpenAI takes it and a function that takes its arguments, as `from_schema` does.

        `definition` is an item of a request's `tools`, for Chat Completions or for the Responses API. It is read once,
        and not changed. The options `name` and `description` replace its own. Raises DefinitionError for another dict,
        and as `from_schema` does.

        >>> from ahvn_tools import ToolSpec
        >>> parameters = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        >>> definition = {"type": "function", "function": {"name": "greet", "parameters": parameters}}
        >>> ToolSpec.from_openai(definition, lambda name: f"Hello, {name}!").call(name="Ann")
        'Hello, Ann!'
        """
        from ahvn_tools.sources import openai_function

        return cls(*openai_function.build_template(definition, function, options, namespace=caller_locals()))

    @classmethod
    def from_code(
        cls,
        code: str,
        func_name: str | None = None,
        env: Mapping[str, Any] | None = None,
        **options: Unpack[ToolOptions],
    ) -> Self:
        """Execute source code and make a spec from the function it defines. The code can do whatever this process can.

        `func_name` chooses among several functions, `env` holds names that the code may use. Raises DefinitionError
        (a ValueError) when the code defines no function, several without `func_name`, or none of that name.
        """
        return cls(*code_source.build_template(code, func_name, env, options))

    @classmethod
    def from_mcp(cls, tool: Tool | WireTool, *, client: Any = None, **options: Unpack[ToolOptions]) -> Self:
        """Make a spec from a FastMCP Tool of any kind, or from an `mcp.types.Tool`.

        The latter is called through `client`; without one everything works except calls.
        """
        from ahvn_tools.mcp.client.borrowed_client import ClientToolBody
        from ahvn_tools.sources import mcp as mcp_source

        if client is None:
            return cls(*mcp_source.build_template(tool, options))
        output_schema = options.get("output_schema", tool.output_schema)
        return cls(*mcp_source.build_template(tool, options, ClientToolBody(client, tool.name, output_schema)))

    @classmethod
    async def from_client(cls, client: Any, tool_name: str, **options: Unpack[ToolOptions]) -> Self:
        """Make a spec from a tool of a connected MCP client. A call may take `timeout` seconds, 30 by default.

        Raises ToolLookupError for a name that the server does not list, ToolConnectionError when it does not answer.
        """
        from ahvn_tools.mcp.client.borrowed_client import find_tool

        return cls.from_mcp(await find_tool(client, tool_name), client=client, **options)

    @classmethod
    def from_server(
        cls, server: RemoteServer, *, timeout: float | None = 30, names: Collection[str] | None = None
    ) -> dict[str, Self]:
        """Make specs from all tools of an MCP server, by their names there: `from_server(mcp.connect("…"))`.

        `timeout`, in seconds, applies to each call. With `names`, only these tools are made, which is faster. Raises
        DefinitionError if `timeout` is not a number of seconds, ToolLookupError for a name that no tool has.
        """
        templates = server.templates(timeout=timeout, names=names)
        return {name: cls(template, body) for name, (template, body) in templates.items()}

    @classmethod
    def from_http(  # type: ignore[misc]  # Python itself refuses the option of this name
        cls, name: str, api_url: str, **options: Unpack[HTTPToolOptions]
    ) -> Self:
        """Make a spec that sends an HTTP request: `from_http("user", "https://api.example/users/{user_id}")`.

        Arguments are sent in the path, then in the query, or as the JSON body of POST, PUT and PATCH. Options: see
        `HTTPToolOptions`; a call may take `timeout` seconds, 30 by default. Without `input_schema`, the arguments are
        those that the URL and the options name. Raises DefinitionError.
        """
        from ahvn_tools.sources.http import options as http_options

        return cls(*http_options.build_from_url(name, api_url, options))

    @classmethod
    def from_openapi(cls, document: Mapping[str, Any], **options: Unpack[OpenAPIOptions]) -> dict[str, Self]:
        """Make specs from the operations of an OpenAPI 3 document, by name. Options: see `OpenAPIOptions`.

        An operation that cannot be a tool is left out, and the log says why; `ahvn_tools.load` reads files and URLs.
        Raises SourceError for a document without tools, and for options that do not fit it.

        >>> from ahvn_tools import ToolSpec
        >>> list_pets = {"operationId": "listPets", "parameters": [{"name": "limit", "in": "query"}]}
        >>> document = {"openapi": "3.1.0", "paths": {"/pets": {"get": list_pets}}}
        >>> specs = ToolSpec.from_openapi(document, base_url="https://pets.example/v1")
        >>> specs["listPets"].input_schema["properties"]
        {'limit': {}}
        """
        from ahvn_tools.sources.openapi.source import read_tools

        tools = read_tools(document, options).tools
        return {name: cls(template, body) for name, (template, body) in tools.items()}

    @classmethod
    def from_langchain(cls, tool: LangChainTool, **options: Unpack[ToolOptions]) -> Self:
        """Make a spec from a LangChain tool. LangChain itself is not imported.

        An argument that LangChain injects is bound to the state key of its own name; `binds` names another. The value
        of a call is the artifact if there is one. Raises DefinitionError for another object.
        """
        from ahvn_tools.sources import langchain as langchain_source

        return cls(*langchain_source.build_template(tool, options))

    def to_dict(self, *, values: bool = False) -> JsonObject:
        """Return the tool as JSON data, from which `from_dict` makes it again where its code can be imported.

        The data has the definition, the options, the bindings and where the code is: an import path, the text of
        `from_code`, or the request of `from_http` and `from_openapi`. It has no state, and no values of bindings
        without `values`; with it, defaults and fixed arguments that are JSON and not secret.

        Raises ToolSpecError, with the fix, for a part that is not data, such as a method, a lambda or a connection.

        >>> from html import escape
        >>> from ahvn_tools import ToolSpec
        >>> data = ToolSpec.from_function(escape).to_dict()
        >>> data["code"]
        {'kind': 'function', 'module': 'html', 'qualname': 'escape'}
        >>> ToolSpec.from_dict(data, trust=["html"]).call("<b>")
        '&lt;b&gt;'
        """
        from ahvn_tools.spec_data import tool_data

        if attributes := self.__dict__.keys() - OWN_ATTRIBUTES:
            raise ToolSpecError(
                f"Attribute {min(attributes)!r} of {self.__name__!r} is not part of the data: delete it first, "
                "and set it again after from_dict()."
            )
        return tool_data.write(
            self.compiled,
            self.body,
            self.state,
            self._secrets,
            spec_class=None if ToolSources in type(self).__bases__ else _full_name(type(self)),
            with_values=values,
        )

    @classmethod
    def from_dict(cls, data: JsonObject, *, trust: Iterable[str | os.PathLike[str]] = ()) -> Self:
        """Make a spec from the data of `to_dict`. Its state has the defaults that are in the data, and nothing else.

        `trust` lists what may be imported and used: modules (`"acme.tools"`, `"acme.*"`), `"<code>"` for a text,
        environment variables (`"${API_KEY}"`) and servers (`"https://api.example"`). Nothing is by default, not even a
        module that is imported already.

        Raises SourceError for what is not trusted, for data that is not as `to_dict` wrote it, and for code whose
        definition differs from that of the data, with the differences.
        """
        from ahvn_tools.spec_data.tool_data import load

        template, body, secret_keys = load(data, trust, [_full_name(base) for base in cls.__mro__])
        spec = cls(template, body)
        spec._secrets = secret_keys
        for binding in spec.compiled.bindings.values():
            with contextlib.suppress(StateKeyError):  # a key in a list that the state does not have: the binding has it
                binding.store_default(copy_containers(binding.default), spec.state)
        return spec


def _full_name(spec_class: type) -> str:
    return f"{spec_class.__module__}.{spec_class.__qualname__}"
