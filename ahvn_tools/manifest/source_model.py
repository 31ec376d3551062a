"""Source: one source of a manifest, as a text or as a mapping with options."""

from __future__ import annotations

import ast
import inspect
import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BeforeValidator, Discriminator, Field, Tag, create_model

from ahvn_tools.json_types import JsonObject
from ahvn_tools.manifest.manifest_model import Callers, ManifestModel, Names, Seconds, ValuesByTool
from ahvn_tools.manifest.middleware_table import MiddlewareItem
from ahvn_tools.settings import RunOptions
from ahvn_tools.toolkit.entry_options import OnDuplicate

LOCATIONS: Final = (
    "source", "path", "module", "package", "server", "openapi", "http", "code", "manifest", "builtins",
)  # fmt: skip
"""The keys that say where a source is. A source has one of them."""


Responses = Literal["relaxed", "exact", "none"]
"""How the schema of a response becomes an output schema."""


class ToolRestrictions(ManifestModel):
    """What the sources and the single tools of a manifest have in common."""

    group: str | None = None
    """The group of the tools, `basic` by default."""
    tags: Names = []
    """Tags in addition to those that the tools have."""
    audience: Names = []
    """The audiences that may see and call the tools; everyone by default."""
    timeout: Seconds | None = None
    """Seconds that a call may take; the shortest of all timeouts applies."""
    requires_approval: bool = False
    """Whether each call needs an approval."""
    exclusive: bool | str = False
    """`true`: a call runs alone among those of one answer. A parameter: calls with the same value never run at once."""
    allowed_callers: Callers = []
    """Who may call the tools: `direct`, the model; `programmatic`, programs that it has written. By default both."""
    task: Literal["optional", "required"] | None = None
    """How clients of a server with tasks may call the tools: `optional`: as MCP tasks, too; `required`: only so."""
    middleware: list[MiddlewareItem] = []
    """Middleware for the calls of these tools, outermost first. It runs inside that of the toolkit."""


_YAML_TYPES: Final[Mapping[Any, tuple[Any, Any]]] = {
    Iterable[str]: (Names, []),
    int | None: (Annotated[int, Field(ge=1)] | None, None),
    bool: (bool, False),
}
"""The type of an option in a manifest and its default, by the type in Python; others are the same, and None."""


def _to_fields(options: type, *, without: Collection[str]) -> dict[str, Any]:
    """Return the fields of a model for the options of a TypedDict class, with the texts of these."""
    body = ast.parse(inspect.getsource(options)).body[0].body  # type: ignore[attr-defined]  # it is a class
    fields: dict[str, Any] = {}
    for item, text in itertools.pairwise(body):
        if isinstance(item, ast.AnnAssign) and item.target.id not in without:  # type: ignore[union-attr]  # a name
            name = item.target.id  # type: ignore[union-attr]  # as above
            kind = get_args(options.__annotations__[name])[0]
            yaml_type, default = _YAML_TYPES.get(kind, (kind, None))
            fields[name] = yaml_type, Field(default, description=_to_text(text.value.value))
    return fields


def _to_text(docstring: str) -> str:
    """Return the text of an option in one line, with YAML's word for None."""
    return " ".join(docstring.split()).replace("None:", "`null`:")


FunctionOptions: Any = create_model(
    "FunctionOptions",
    __base__=ManifestModel,
    __doc__="How the functions of tools run that are not on an MCP server.",
    **_to_fields(RunOptions, without=("timeout",)),
)


class SourceOptions(ToolRestrictions):
    """The options that sources of all kinds have. Names of tools are the source's own here."""

    include: Names = []
    """Only these tools: names, or patterns such as `get_*`."""
    exclude: Names = []
    """Tools to leave out: names or patterns."""
    prefix: str = ""
    """Precedes the name of each tool."""
    rename: dict[str, str] = {}
    """New names: the tool's name in the source -> its name here."""
    describe: dict[str, str] = {}
    """New descriptions: the tool's name in the source -> description."""
    arguments: dict[str, dict[str, JsonObject]] = {}
    """Changes of arguments: the tool's name in the source -> argument -> its new `name`, `description`, `default` …"""
    presets: ValuesByTool = {}
    """Fixed values, which models neither see nor set: the tool's name in the source, or `*` -> parameter -> value."""
    on_duplicate: OnDuplicate | None = None
    """What happens to a tool whose name is taken, instead of what the manifest says."""
    coerce_numbers_to_str: bool = True
    """Whether a number is accepted, and made a text, where a tool wants a text."""


class LocalOptions(SourceOptions, FunctionOptions):  # type: ignore[misc]  # a model that is made from the options
    """The options of sources that are no MCP server."""

    binds: dict[str, str] = {}
    """Parameters that are filled from the state, in the tools that have them: parameter -> dotted state key."""


class TextSource(LocalOptions):
    """A source of any kind, as `load` and the commands take it."""

    source: str
    """A file, folder, module, URL, command or code."""


class PathSource(LocalOptions):
    """A file or a folder."""

    path: str
    """A file or a folder, relative to the folder of the manifest; `FILE.py:NAME` for one object."""


class ModuleSource(LocalOptions):
    """A Python module."""

    module: str
    """A module that can be imported, such as `acme.tools`, or an object in it: `acme.tools:kit`."""


class PackageSource(LocalOptions):
    """The tools that an installed package provides under the entry-point group `ahvn_tools`."""

    package: str
    """The name of the package, or of its entry point."""


class CodeSource(LocalOptions):
    """Python code in the manifest. `${…}` has no meaning in it."""

    code: str
    """Python code with the functions that become tools."""


class ManifestSource(LocalOptions):
    """Another manifest, with its own groups, bindings and middleware."""

    manifest: str
    """The file, relative to the folder of this manifest."""
    profile: str | None = None
    """The profile to use; by default that of this manifest, if the other one has it."""


class BuiltinsSource(LocalOptions):
    """Built-in tools."""

    builtins: Literal["standard"] | list[Literal["files", "text_files", "shell", "python", "git", "system"]]
    """[Built-in tools](builtins.md): a list of groups, or `standard` for all of them without `text_files`."""
    roots: Names = []
    """The folders that the tools may use, relative to the folder of the manifest; those of the manifest by default."""
    read_only: bool = False
    """Whether the tools only read."""
    approve: Literal["always", "risky", "never"] = "risky"
    """Which actions need an approval: all that change something, those that are `risky`, or none."""
    sandbox: Literal["auto", "bubblewrap", "none"] = "auto"
    """What confines commands: `auto` is bubblewrap where it works."""
    network: bool = False
    """Whether commands in the sandbox may use the network."""


class HTTPSource(LocalOptions):
    """An HTTP request as a tool."""

    http: JsonObject
    """The tool: `name`, `description`, `api_url`, `method`, and what a tool definition has in a file of its own."""


class OpenAPISource(LocalOptions):
    """Operations of an HTTP API, from its OpenAPI document."""

    openapi: str
    """The document: a file, relative to the folder of the manifest, or a URL."""
    base_url: str | None = None
    """The URL that all requests begin with, instead of the document's `servers`."""
    variables: dict[str, str] = {}
    """The variables of the server's URL."""
    auth: dict[str, str | dict[str, str] | None] = {}
    """Credentials, by the names of the document's security schemes: `{api_key: "${PETSTORE_KEY}"}`. They are read from
    the environment at each call."""
    headers: dict[str, str] = {}
    """Headers of every request, for a document without security schemes: `{Authorization: "Bearer ${NAME}"}`."""
    operations: Names = []
    """Only operations with one of these ids (`listPets`, `pets_*`), or methods and paths (`GET /pets/*`)."""
    operation_tags: Names = []
    """Only operations with one of these tags of the document."""
    methods: Names = []
    """Only operations of these HTTP methods."""
    deprecated: bool = False
    """Whether deprecated operations become tools, too."""
    responses: Responses = "relaxed"
    """How the schemas of responses become output schemas: `relaxed`, `exact` or `none`."""
    external_files: bool = False
    """Whether the document may refer to files in its own folder."""
    http_options: JsonObject = {}
    """How requests are sent: retries, size limits, private addresses."""


class ServerSource(SourceOptions):
    """An MCP server, or all servers of an mcp.json."""

    server: str | list[str] | JsonObject
    """A URL, a command, as a text or a list of words, the path of a script or of an mcp.json, or what that contains."""
    name: str | None = None
    """The name of the server in `servers` and in messages."""
    timeout: Seconds | None = 30
    """Seconds for each call."""
    binds: Names = []
    """Parameters that `binds` of the manifest may fill in all tools of the server, now and later; secret bindings fill
    no others."""
    auth: str | dict[str, str] | None = None
    """A token, headers, or `oauth`."""
    env: dict[str, str] = {}
    """Environment variables of the server's process."""
    stderr: str | None = None
    """A file to which the stderr of the server's process is appended."""
    inputs: dict[str, str] = {}
    """The values of `${input:…}` in an mcp.json."""
    pin: str | None = None
    """A file with the fingerprints of the tools: a tool that changed is blocked until it is accepted."""
    idempotent: bool | Names = False
    """The tools that may be called again when the connection was lost during a call; `true`: all."""
    tasks: bool = False
    """Whether the server may run a call as an MCP task, as it must for some tools."""
    mode: Literal["auto", "legacy", "2026-07-28"] = "auto"
    """The MCP protocol: the newest that the server knows, the newest with a handshake, or that version."""
    idle_timeout: Seconds | None = None
    """Seconds without a progress message after which a call ends, within its `timeout`."""
    resource_tool: str | None = None
    """The name of one more tool, by which a model reads resources of the server by their URI."""
    prompts: bool = True
    """Whether `serve` passes on the server's prompts; by default if there is no `pin`."""
    limits: dict[str, float] = {}
    """How long the server may take and how much it may send: fields of `Limits`."""
    budgets: dict[str, float] = {}
    """How large the definitions of the tools may be: fields of `Budgets`."""


AnySource = (
    TextSource
    | PathSource
    | ModuleSource
    | PackageSource
    | ServerSource
    | OpenAPISource
    | HTTPSource
    | CodeSource
    | ManifestSource
    | BuiltinsSource
)


def _to_mapping(value: Any) -> Any:
    return {"source": value} if isinstance(value, str) else value


def _location(value: Any) -> str | None:
    """Return the key that says where a source is, as a tag that is no key."""
    if not isinstance(value, Mapping):
        return None
    return next((f"<{key}>" for key in LOCATIONS if key in value), None)


Source = Annotated[
    Annotated[TextSource, Tag("<source>")]
    | Annotated[PathSource, Tag("<path>")]
    | Annotated[ModuleSource, Tag("<module>")]
    | Annotated[PackageSource, Tag("<package>")]
    | Annotated[ServerSource, Tag("<server>")]
    | Annotated[OpenAPISource, Tag("<openapi>")]
    | Annotated[HTTPSource, Tag("<http>")]
    | Annotated[CodeSource, Tag("<code>")]
    | Annotated[ManifestSource, Tag("<manifest>")]
    | Annotated[BuiltinsSource, Tag("<builtins>")],
    Discriminator(
        _location,
        custom_error_type="source",
        custom_error_message="a source is a text, or a mapping with one of the keys " + ", ".join(map(repr, LOCATIONS)),
    ),
    BeforeValidator(_to_mapping, json_schema_input_type=str | AnySource),
]
"""A source: a text as `load` takes it, or a mapping."""
