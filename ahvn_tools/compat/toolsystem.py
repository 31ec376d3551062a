"""A tool system of LangChain tools that lie in the folders of a project. Needs the extra `langchain`."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, ValidationError

from ahvn_tools import ToolCall, ToolDefinition, Toolkit, ToolResult, ToolSpec, load
from ahvn_tools.errors import SourceError, ToolCallError, ToolError, ToolSpecError, near_misses
from ahvn_tools.formats import choose_format, get
from ahvn_tools.langchain import BaseTool, SpecTool
from ahvn_tools.loading import Contents, ReadOptions, Trust, read_source, read_yaml
from ahvn_tools.middleware import log, observe

__all__ = [
    "BuiltinTool", "IConfigLoader", "IConfigSystem", "ILLMClient", "ILogger", "IMetricsCollector", "IToolExecutor",
    "IToolFormatter", "IToolManager", "MCPTool", "NativeTool", "ToolExecutor", "ToolFormatter", "ToolManager",
    "ToolMessage", "tool",
]  # fmt: skip

_log = logging.getLogger(__name__)

INSTRUCTIONS = (
    '请按以下格式调用工具：\n{\n  "name": "工具名",\n  "parameters": {\n    "参数1": "值1",\n    "参数2": "值2"\n  }\n}'
)
"""What a prompt says about calls."""

SECRET_PATTERNS = (
    r"(?<![A-Za-z0-9])sk-[\w-]+",
    r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+",
    r"(?<!\d)1\d{10}(?!\d)",
)
"""What no log shows: API keys, e-mail addresses and telephone numbers."""

_NO_MCP = re.compile(r"there is no MCP server at this URL|the server answered HTTP 40[45]")
_PLAIN_SERVER = (
    "If it is a plain HTTP server with `GET …/tools/NAME/schema`, write a Python file with MCPTool(NAME, URL) instead."
)

_MCP_SERVER = (
    "For a server of the Model Context Protocol, write a YAML file with `mcp_server_url` in tools/mcp instead."
)


_DURATION = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?) ?(?P<unit>ms|s|m)?")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, None: 1}


def _in_seconds(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with a timeout such as `"30s"`, `"500ms"` or `"2m"` as a number."""
    match = _DURATION.fullmatch(str(options.get("timeout")))
    return {**options, "timeout": float(match["number"]) * _SECONDS[match["unit"]]} if match else {**options}


@dataclass(frozen=True)
class ToolMessage:
    """The result of a call, for the state of an agent."""

    tool_name: str
    output: Any = None
    """What the tool returned; None after an error."""
    error: str | None = None
    """The code of the error, such as `invalid_parameters` or `timeout`; None after success."""
    text: str = ""
    """What a model reads: the output, or what went wrong."""

    @classmethod
    def from_result(cls, tool_name: str, result: ToolResult) -> ToolMessage:
        """Return the message of a result."""
        return cls(tool_name, result.value, result.error.code if result.error else None, result.text)


class NativeTool(SpecTool):
    """A tool that sends an HTTP request."""

    def __init__(self, name: str, description: str, parameters: Any, api_url: str, **options: Any) -> None:
        """Describe the request, a POST by default. `parameters` is a JSON Schema or a pydantic model.

        `auth_method`, `api_key` and the other options are those of `ToolSpec.from_http`: a model sets no header, and
        only the arguments that `api_url` and `query` name reach the URL. Raises DefinitionError.
        """
        schema = parameters if isinstance(parameters, Mapping) else parameters.model_json_schema()
        options = {"method": "POST", "description": description, "input_schema": schema, **_in_seconds(options)}
        super().__init__(ToolSpec.from_http(name, api_url, **options))


class MCPTool(SpecTool):
    """One tool of a server with `GET {url}/tools/{name}/schema` and `POST {url}/tools/{name}/execute`.

    That is no server of the Model Context Protocol: a YAML definition in `tools/mcp` loads all tools of one of these.
    """

    def __init__(self, name: str, mcp_server_url: str, *, mcp_api_key: Any = None, **options: Any) -> None:
        """Ask the server for the description and the parameters. `mcp_api_key` is sent as `Authorization: Bearer …`.

        The key is the name of an environment variable as `"${NAME}"`, a SecretStr or a function; the other options are
        those of `ToolSpec.from_http`. Raises ToolCallError if the server does not answer with a schema.
        """
        place = f"{mcp_server_url.rstrip('/')}/tools/{quote(name, safe='')}"
        options = _in_seconds(options)
        if mcp_api_key is not None:
            options = {"auth_method": "api_key", "api_key": mcp_api_key, **options}
        ask = ToolSpec.from_http(name, f"{place}/schema", **{**options, "output_schema": {"type": "object"}})
        try:
            schema = ask.call()
        except ToolError as error:
            if not re.match("HTTP 40[456]", str(error)):
                raise
            raise ToolError(f"{str(error).rstrip('.')}. {_MCP_SERVER}") from error
        described = {"description": schema.get("description", ""), "input_schema": schema.get("parameters", schema)}
        super().__init__(ToolSpec.from_http(name, f"{place}/execute", **{"method": "POST", **described, **options}))


class BuiltinTool(SpecTool):
    """A Python function as a tool."""

    def __init__(self, function: Callable[..., Any], /, **options: Any) -> None:
        """Take the schema from the annotations. The options are those of `ToolSpec.from_function`.

        The function gets its arguments as JSON, or, with `convert=True`, as its annotations say.
        """
        super().__init__(ToolSpec.from_function(function, **{"convert": False, **_in_seconds(options)}))


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a BuiltinTool of the decorated function: `@tool`, or `@tool(name="sum")`."""
    return partial(BuiltinTool, **options) if function is None else BuiltinTool(function, **options)


class ToolManager:
    """The tools in the folders `tools/native`, `tools/builtin` and `tools/mcp`, and the sets in `configs/tool_sets`."""

    def __init__(self, root: str | Path = ".", *, trust: Iterable[str | Path] | None = None) -> None:
        """Load the tools. That runs the Python files of these folders, unless `trust` lists what may run (see `load`).

        `toolkit` has them as a Toolkit: `duplicates` are the tools whose names others have, `remove_mcp` closes the
        connection to an MCP server. `load_errors` are the files that were skipped.
        """
        self.load_errors: list[SourceError] = []
        sources: list[Any] = []
        servers: list[tuple[Path, Any]] = []
        trusted = Trust(trust)
        for kind in ("native", "builtin", "mcp"):
            folder = Path(root, "tools", kind)
            for file in _find_definitions(folder):
                with self._skipping(file):
                    found = _read_definition(file, kind, trusted)
                    sources += found.tools
                    servers += ((file, server) for server in found.servers)
            sources.append(folder)
        self.toolkit = load(*sources, name="tools", allow_missing=True, trust=trust)
        self._tools: dict[ToolDefinition, BaseTool] = {}
        self.load_errors += self.toolkit.load_errors
        for file, server in servers:
            with self._skipping(file):
                self.toolkit.add_mcp(server.server, **server.options)
        for folder in (Path(root, "configs", name) for name in ("tool_sets", "tool-sets")):
            for file in filter(Path.is_file, sorted(folder.glob("[!._]*.y*ml"))):
                with self._skipping(file):
                    self._add_tool_set(file)

    @contextlib.contextmanager
    def _skipping(self, file: Path) -> Iterator[None]:
        """Log what is wrong with a file and keep it in `load_errors`, instead of raising it."""
        try:
            yield
        except (ToolSpecError, ToolCallError, ValidationError) as error:
            message = f"{error} {_PLAIN_SERVER}" if _NO_MCP.search(str(error)) else str(error)
            _log.warning("%s was skipped: %s", file, message)
            shown = message if str(file) in message else f"{file}: {message}"
            self.load_errors.append(SourceError(shown, file=str(file), line=getattr(error, "line", None)))

    def _add_tool_set(self, file: Path) -> None:
        if not file.resolve().is_relative_to(file.parent.resolve()):
            raise SourceError("it is a link that leads out of its folder.")
        found = _ToolSet.model_validate(read_yaml(file).value)
        if not found.enabled:
            return
        if found.name in self.toolkit.toolsets:
            raise SourceError(f"there is a tool set {found.name!r} already: rename or remove one of them.")
        tools = [found.tools] if isinstance(found.tools, str) else found.tools
        _known(f"The tool set {found.name!r}", "tool", tools, [spec.name for spec in self.toolkit])
        self.toolkit.add_toolset(found.name, found.description, names=tools, ordered=True)

    def load_tools(self) -> list[BaseTool]:
        """Return all tools, in the order of the folders and files; of two tools of one name the first."""
        return self._to_langchain(self.toolkit)

    def get_tool(self, name: str) -> BaseTool:
        """Return a tool. Raises ToolLookupError for an unknown name."""
        return self._to_langchain([self.toolkit[name]])[0]

    def get_tool_set(self, name: str) -> list[BaseTool]:
        """Return the tools of a tool set, in its order. Raises ToolLookupError for an unknown name."""
        return self._to_langchain(self.toolkit.select(toolset=name))

    def get_agent_tools(self, agent: Mapping[str, Any]) -> list[BaseTool]:
        """Return the `tools` of an agent's configuration, then those of its `tool_sets`, each once.

        A tool and a tool set that do not exist are left out, with a warning.
        """
        tools = _known("The agent", "tool", agent.get("tools"), [spec.name for spec in self.toolkit])
        tool_sets = _known("The agent", "tool set", agent.get("tool_sets"), self.toolkit.toolsets)
        return self._to_langchain(self.toolkit.select(any_of=[{"names": tools}, *tool_sets], ordered=True))

    def _to_langchain(self, specs: Iterable[ToolSpec]) -> list[BaseTool]:
        return [self._tools.setdefault(spec.definition, spec.to_langchain()) for spec in specs]


_KINDS = {"native": "http", "http": "http", "builtin": "function", "function": "function", "mcp": "mcp"}
"""What `tool_type` or `kind` says, and the kind."""

_ALIASES = {
    "tool_type": "kind", "parameters_schema": "input_schema", "parameters": "input_schema", "metadata": "meta",
    "function_path": "function", "mcp_server_url": "url", "mcp_api_key": "auth",
}  # fmt: skip
"""Keys of a definition, and their names in the core."""

_SCHEMA_KEYWORDS = {"type", "properties", "additionalProperties", "allOf", "anyOf", "oneOf", "$ref"}
"""One of these is in each JSON Schema of arguments."""

_SERVER_KEYS = {"url", "auth", "headers", "transport", "command", "args", "env", "cwd"}


def _find_definitions(folder: Path) -> list[Path]:
    """Return the YAML files in a folder and those in it, without names that start with `.` or `_`."""
    files = filter(Path.is_file, sorted(folder.rglob("*.y*ml")))
    return [file for file in files if not any(part[0] in "._" for part in file.relative_to(folder).parts)]


def _read_definition(file: Path, kind: str, trust: Trust) -> Contents:
    """Return the tool or the server that a YAML file defines; nothing if it is not enabled, or for `load` to read.

    `kind` is that of its folder. Raises SourceError and DefinitionError.
    """
    options = ReadOptions(own_folder=file.parent.resolve(), trust=trust)
    options.require_readable(str(file))
    written = read_yaml(file, budget=options.budget).value
    if not isinstance(written, dict):
        raise SourceError("a definition is a mapping with `description` and so on.")
    data: dict[str, Any] = {_ALIASES.get(key) or key: value for key, value in written.items()}
    if len(data) < len(written):
        raise SourceError(f"two keys mean the same, such as {' and '.join(next(iter(_ALIASES.items())))}: keep one.")
    kind, is_enabled = data.pop("kind", kind), data.pop("enabled", True)
    if not isinstance(is_enabled, bool):
        raise SourceError("`enabled` is true or false.")
    schema = data.get("input_schema")
    if isinstance(schema, dict) and schema and _SCHEMA_KEYWORDS.isdisjoint(schema):
        raise SourceError("the parameters are a JSON Schema: write {type: object, properties: {…}}.")
    if data.keys() & {"openapi", "swagger", "sources"} or not is_enabled:
        return Contents(name=file.stem)
    if _KINDS.get(str(kind)) is None:
        raise SourceError(f"`kind` is not {kind!r}. {near_misses(str(kind), _KINDS)}")
    data = {"name": file.stem, **({"method": "POST"} if kind == "native" else {}), **_in_seconds(data)}
    if _KINDS[kind] == "http":
        return read_source("http", data, replace(options, folder=file.parent))
    return _read_function(file, data, options) if _KINDS[kind] == "function" else _read_server(data, options)


def _read_function(file: Path, data: dict[str, Any], options: ReadOptions) -> Contents:
    """Return the function of a definition as a tool: `function` is FILE.py:NAME beside the file, or MODULE:NAME."""
    module, _, name = str(data.pop("function", "")).rpartition(":")
    beside = file.parent / f"{module.removesuffix('.py')}.py"
    place = f"{beside if beside.is_file() or module.endswith('.py') else module}:{name}"
    found = read_source("python", place, options).tools if module else ()
    if len(found) != 1 or not isinstance(found[0], ToolSpec):
        raise SourceError("`function` is the FILE.py:NAME or the MODULE:NAME of one function.")
    return Contents(name=data["name"], tools=(found[0].transform(**data),))


def _read_server(data: dict[str, Any], options: ReadOptions) -> Contents:
    """Return the MCP server of a definition: its entry is as in an mcp.json, what else it says are options of it."""
    entry = {key: data.pop(key) for key in _SERVER_KEYS & data.keys()}
    own = {key: value for key, value in data.items() if key not in ("name", "description", "meta")}
    found = read_source("server", {"mcpServers": {data["name"]: entry}}, options)
    return replace(found, servers=tuple(replace(server, options=own) for server in found.servers))


class _ToolSet(BaseModel):
    """A file in `configs/tool_sets`. Nothing reads `metadata`."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    name: str
    description: str = ""
    tools: str | list[str]
    enabled: bool = True
    metadata: dict[str, Any] = {}


def _known(owner: str, what: str, names: Iterable[str] | None, known: Collection[str]) -> list[str]:
    """Return the names in a list of an agent or a tool set that exist, and log a warning for each other one."""
    names = [names] if isinstance(names, str) else [*(names or ())]
    for name in names:
        if name not in known:
            _log.warning("%s: there is no %s %r. %s", owner, what, name, near_misses(name, known))
    return [name for name in names if name in known]


def _to_toolkit(tools: Iterable[BaseTool], options: Mapping[str, Any] = {}) -> Toolkit:
    kit = Toolkit("tools", **options)
    for tool in tools:
        kit.add(tool)
    return kit


class ToolFormatter:
    """How tools are described to a model, and how calls are written: `ToolFormatter(**agent["output_strategy"])`."""

    def __init__(self, *, native: str = "openai", **output_strategy: bool) -> None:
        """Take the options `function_calling` and `fallback_to_structured_output`, which are true by default.

        `native` is the format of the model's own function calling, such as `anthropic`.
        """
        self.native = native
        self.output_strategy = output_strategy

    def detect_strategy(self, llm_client: ILLMClient) -> str:
        """Return `function_calling` or `structured_output`.

        Raises ToolSpecError for a model without function calling if the fallback is not allowed.
        """
        chosen = choose_format(llm_client, self.native, **self.output_strategy)
        return "function_calling" if chosen == self.native else "structured_output"

    def format(self, tool: BaseTool, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return a call as the message of a model, with the field `function_call` for OpenAI's format."""
        call = ToolCall(id="", name=tool.name, arguments=parameters)
        options: dict[str, Any] = {"legacy": True} if self.native == "openai" else {}
        return get(self.native).message([call], **options)[0]

    def format_prompt(self, tools: Iterable[BaseTool]) -> str:
        """Return the prompt for structured output: the tools with their schemas, and how to write a call.

        Without tools it is empty.
        """
        messages = _to_toolkit(tools).to("prompt", instructions=INSTRUCTIONS)
        return "".join(message["content"] for message in messages)


class ToolExecutor:
    """Runs calls of LangChain tools with a time limit. What goes wrong is in the ToolMessage, and never raised."""

    def __init__(
        self,
        *,
        timeout: float | str = 30,
        parallel: bool = True,
        logger: ILogger | None = None,
        metrics: IMetricsCollector | None = None,
        secret_patterns: Iterable[str] = (),
    ) -> None:
        """`timeout` is in seconds, or a text such as `"30s"`; `parallel=False` runs several calls one after the other.

        Each call is a line of the level INFO with its parameters, result and duration. Without a `logger` that of the
        name `ahvn_tools.calls` receives it. Secrets are `***` there: what has a secret name, what SECRET_PATTERNS
        match, and what the regular expressions `secret_patterns` match. Raises ToolkitError for a timeout that is not
        positive, and ToolSpecError for what is no regular expression.
        """
        lines = log(logger.info if logger else None, redact=[*SECRET_PATTERNS, *secret_patterns])
        self._options: dict[str, Any] = {
            "middleware": [lines, observe(metrics.record_tool_metric)] if metrics else [lines],
            **_in_seconds({"timeout": timeout}),
            "max_concurrency": 16 if parallel else 1,
            "mask_errors": False,
            "on_duplicate": "rename",
        }
        _to_toolkit([], self._options)  # raises an error for a wrong option

    def guard(self, *tools: BaseTool) -> list[BaseTool]:
        """Return the tools with this time limit, log and metrics as LangChain tools, such as for a ToolNode.

        Of two tools with one name the second is renamed, `add` to `add_2`.
        """
        return [spec.to_langchain() for spec in _to_toolkit(tools, self._options)]

    def execute(self, tool: BaseTool, parameters: dict[str, Any]) -> ToolMessage:
        """Run a call from sync code."""
        return ToolMessage.from_result(tool.name, _to_toolkit([tool], self._options).exec(tool.name, parameters))

    async def async_execute(self, tool: BaseTool, parameters: dict[str, Any]) -> ToolMessage:
        """Run a call from async code. Await several with `asyncio.gather` to run them at once."""
        return ToolMessage.from_result(tool.name, await _to_toolkit([tool], self._options).aexec(tool.name, parameters))

    def execute_parallel(self, calls: Sequence[tuple[BaseTool, dict[str, Any]]]) -> list[ToolMessage]:
        """Run several calls at once. The messages are in the order of the calls."""
        tools = {id(tool): tool for tool, _ in calls}
        kit = _to_toolkit(tools.values(), self._options)
        names = {key: spec.name for key, spec in zip(tools, kit, strict=True)}
        requests = [
            ToolCall(id=str(number), name=names[id(tool)], arguments=own) for number, (tool, own) in enumerate(calls)
        ]
        results = [result for _, result in kit.run(requests).results]
        return [ToolMessage.from_result(tool.name, end) for (tool, _), end in zip(calls, results, strict=True)]


class ILLMClient(Protocol):
    """A model."""

    def supports_function_calling(self) -> bool:
        """Return whether the model has native function calling."""


class ILogger(Protocol):
    """Takes a line for each call."""

    def info(self, message: str) -> Any:
        """Log a line at the level INFO."""


class IMetricsCollector(Protocol):
    """Takes a measurement for each call."""

    def record_tool_metric(self, tool: str, success: bool, duration: float, error_type: str | None = None) -> Any:
        """Count a call that took `duration` seconds; `error_type` is the code of its error."""


class IConfigLoader(Protocol):
    """Reads configuration files."""

    def load(self, config_path: str) -> Mapping[str, Any]:
        """Return the content of a file."""


class IConfigSystem(Protocol):
    """Knows the configurations of agents, which `ToolManager.get_agent_tools` takes."""

    def load_agent_config(self, name: str) -> Mapping[str, Any]:
        """Return the configuration of an agent, with `tools` and `tool_sets`."""


class IToolManager(Protocol):
    """Finds tools."""

    def load_tools(self) -> list[BaseTool]:
        """Return all tools."""

    def get_tool(self, name: str) -> BaseTool:
        """Return one tool."""

    def get_tool_set(self, name: str) -> list[BaseTool]:
        """Return the tools of a tool set."""


class IToolFormatter(Protocol):
    """Writes calls as a model writes them."""

    def format(self, tool: BaseTool, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return a call."""

    def detect_strategy(self, llm_client: ILLMClient) -> str:
        """Return the name of a strategy."""


class IToolExecutor(Protocol):
    """Runs calls."""

    def execute(self, tool: BaseTool, parameters: dict[str, Any]) -> ToolMessage:
        """Run a call."""

    async def async_execute(self, tool: BaseTool, parameters: dict[str, Any]) -> ToolMessage:
        """Run a call from async code."""
