"""Manifest: the keys of a manifest, with their types and their meaning."""

from __future__ import annotations

import ast
import inspect
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BeforeValidator, Discriminator, Field, PositiveFloat, PositiveInt, Tag, create_model
from pydantic_core import PydanticCustomError

from ahvn_tools.json_types import JsonObject
from ahvn_tools.manifest.middleware_table import ManifestModel, MiddlewareItem, Seconds
from ahvn_tools.settings import OutputForm, RunOptions
from ahvn_tools.sources.openapi.options import Responses
from ahvn_tools.toolkit.approval_rules import Mode
from ahvn_tools.toolkit.entry_options import Caller, OnDuplicate


def _to_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(_to_list, json_schema_input_type=str | list[str])]
"""Names, or patterns of names; one may be written without a list."""

Callers = Annotated[list[Caller], BeforeValidator(_to_list, json_schema_input_type=Caller | list[Caller])]
"""Who may call tools for a model; one may be written without a list."""

Values = dict[str, Any]
"""Parameter -> value."""


LOCATIONS: Final = ("source", "server", "openapi", "http", "external", "code", "manifest", "builtins")
"""The keys that say where a source is. A source has one of them."""


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


class SourceModel(ToolRestrictions):
    """The options that sources of all kinds have. Names of tools are the source's own here."""

    include: Names = []
    """Only these tools: names, or patterns such as `get_*`."""
    exclude: Names = []
    """Tools to leave out: names or patterns."""
    prefix: str = ""
    """Precedes the name of each tool."""
    rename: dict[str, str] = {}
    """New names: the tool's name in the source -> its name here."""
    on_duplicate: OnDuplicate | None = None
    """What happens to a tool whose name is taken, instead of what the manifest says."""
    coerce_numbers_to_str: bool = True
    """Whether a number is accepted, and made a text, where a tool wants a text."""


class LocalOptions(SourceModel, FunctionOptions):  # type: ignore[misc]  # a model that is made from the options
    """The options of sources that are no MCP server."""

    binds: dict[str, str] = {}
    """Parameters that are filled from the state, in the tools that have them: parameter -> dotted state key."""


class TextSource(LocalOptions):
    """A source of any kind, as `load` and the commands take it."""

    source: str
    """A file, folder, module, URL, command or code."""


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

    builtins: Literal["standard"] | list[Literal["files", "text_files", "shell", "python", "git", "system", "user"]]
    """Built-in tools: a list of groups, or `standard` for all without `text_files` and `user`."""
    roots: Names = []
    """The folders that the tools may use, relative to the folder of the manifest; those of the manifest by default."""
    read_only: bool = False
    """Whether the tools only read."""
    approve: Literal["always", "risky", "never"] = "risky"
    """Which actions need an approval: `always` all that change something, `risky` those that are, `never` none."""
    sandbox: Literal["auto", "bubblewrap", "none"] = "auto"
    """What confines commands: `auto` is bubblewrap where it works."""
    network: bool = False
    """Whether commands in the sandbox may use the network."""
    ask_handler: str | None = None
    """The import path of a function that asks the user, for the group `user`."""


class HTTPSource(LocalOptions):
    """An HTTP request as a tool."""

    http: JsonObject
    """The tool: `name`, `api_url`, and the options of HTTP tools, such as `method`."""


class ExternalTool(ManifestModel):
    """A tool without a function: its results come from outside."""

    name: str
    """The name by which models call it."""
    description: str
    """What it does, for models."""
    title: str | None = None
    """The name that user interfaces display."""
    input_schema: JsonObject = {"type": "object", "properties": {}}
    """A JSON Schema of the arguments; none by default."""
    output_schema: JsonObject | None = None
    """A JSON Schema of the results, which are checked by it; any fits by default."""
    annotations: JsonObject | None = None
    """MCP's hints, such as `readOnlyHint: true`."""


class ExternalSource(LocalOptions):
    """A tool whose results come from outside."""

    external: ExternalTool
    """An external tool: `name`, `description`, `input_schema` and `output_schema`."""


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
    security_schemes: dict[str, JsonObject] = {}
    """Security schemes that the document lacks: `{key: {type: apiKey, in: header, name: X-Api-Key}}`. `binds` fill them
    for each user, or `auth`."""
    headers: dict[str, str] = {}
    """Headers of every request, for a document without security schemes: `{Authorization: "Bearer ${NAME}"}`."""
    operations: Names = []
    """Only operations with one of these ids (`listPets`, `pets_*`), or methods and paths (`GET /pets/*`)."""
    operation_tags: Names = []
    """Only operations with one of these tags of the document. `tags` are added to the tools, and choose nothing."""
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


class ServerSourceModel(SourceModel):
    """An MCP server, or all servers of an mcp.json."""

    server: str | list[str] | JsonObject
    """A URL, a command, as a text or a list of words, the path of a script or of an mcp.json, or what that contains."""
    name: str | None = None
    """The name of the server in `servers` and in messages."""
    timeout: Seconds | None = 30
    """Seconds for each call."""
    may_receive: Names = []
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
    | ServerSourceModel
    | OpenAPISource
    | HTTPSource
    | ExternalSource
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
    | Annotated[ServerSourceModel, Tag("<server>")]
    | Annotated[OpenAPISource, Tag("<openapi>")]
    | Annotated[HTTPSource, Tag("<http>")]
    | Annotated[ExternalSource, Tag("<external>")]
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


class ToolsetConditions(ManifestModel):
    """Conditions on a tool. It matches when it meets all of them."""

    tools: Names = []
    """The tool has one of these names."""
    tags: Names = []
    """The tool has at least one of these tags."""
    groups: Names = []
    """The tool is in one of these groups."""
    audience: str | None = None
    """The tool is for this audience, or for everyone."""
    toolset: str | None = None
    """The tool is in this toolset."""


class ToolsetModel(ToolsetConditions):
    """A selection of tools under a name."""

    description: str = ""
    """What the toolset is for."""
    any_of: list[str | ToolsetConditions] = []
    """The tool meets at least one of these: names of toolsets, and conditions."""
    ordered: bool = False
    """Whether the tools come in the order of `tools` and `any_of`, instead of that of the toolkit."""


class GroupModel(ManifestModel):
    """A group of tools that is switched on and off together."""

    description: str = ""
    """What the group is for."""
    notes: str | None = None
    """Notes for a model while the group is active."""
    active: bool = False
    """Whether the group is active from the start."""


class Tool(ToolRestrictions, FunctionOptions):  # type: ignore[misc]  # a model that is made from the options
    """The options of single tools, instead of those of their source."""

    enabled: bool = True
    """`false`: the tools are left out."""
    title: str | None = None
    """The name that user interfaces display."""
    description: str | None = None
    """The description that models read."""
    annotations: JsonObject | None = None
    """MCP's hints, such as `readOnlyHint: true`."""
    ui: str | JsonObject | None = None
    """The page that hosts show for the tool: the path of an HTML file, relative to the folder of the manifest; a `ui://`
    URI; or a mapping with one of these as `html` or `resourceUri`, and `visibility`, `csp` and `permissions`."""
    arguments: dict[str, JsonObject] = {}
    """Changes of arguments: argument -> its new `name`, `description`, `default` …"""
    preset: Values = {}
    """Fixed values, which models neither see nor set: parameter -> value."""
    binds: dict[str, str] = {}
    """Parameters that are filled from the state: parameter -> dotted state key."""


class Bind(ManifestModel):
    """Where the value of a parameter comes from. A manifest has no state: its host has."""

    key: str | None = None
    """The dotted state key; the name of the parameter by default."""
    secret: bool = False
    """Whether no text may contain the value."""
    required: bool = False
    """Whether a call without a value fails, also where the parameter is optional."""
    default: Any = None
    """The value where no state has the key."""


class ApprovalModel(ManifestModel):
    """How calls are approved."""

    approver: str | None = None
    """The import path of a function of the request: `acme.approvals:ask`. Without it, calls wait for `resume`."""
    secret_key: str | None = None
    """At least 16 characters that sign what waits, from the environment: `${APPROVAL_KEY}`."""
    store: str | None = None
    """A SQLite file that remembers what was decided, relative to the folder of the manifest."""
    expiry: Seconds | None = None
    """For how many seconds a request can be approved, 7 days by default; `null`: for ever."""
    mode: Mode = "ask"
    """What happens to calls without a rule, if there is any key of rules: `read_only`, `ask`,
    `accept_edits` or `allow`."""
    allow: Names = []
    """Calls that run: rules such as `notes/*` and `shell_exec(cmd: "git status*")`."""
    ask: Names = []
    """Calls that need an approval, also where `allow` has a rule."""
    deny: Names = []
    """Calls that never run."""
    remember: str | None = None
    """The file that keeps what is approved for always, relative to the folder of the manifest. It needs a
    `secret_key`."""


class ModelTool(ManifestModel):
    """Another name or text of a tool that the toolkit itself makes for models."""

    name: str | None = None
    """Its name."""
    title: str | None = None
    """The name that user interfaces display."""
    description: str | None = None
    """What models read."""


class Search(ManifestModel):
    """Models get a tool that searches, and one that calls what was found, instead of all tools."""

    core: Names = []
    """The tools that are listed nevertheless."""
    search_tool: ModelTool = ModelTool()
    """Another name or text of `search_tools`."""
    call_tool: ModelTool = ModelTool()
    """Another name or text of `call_tool`."""


class ProgramLimits(ManifestModel):
    """What one program may use; the defaults are those of `CodeLimits`."""

    seconds: PositiveFloat | None = None
    """Seconds in which the program itself runs, without the time that it waits for tools."""
    memory_bytes: PositiveInt | None = None
    """Bytes of all objects of the program at a time."""
    value_bytes: PositiveInt | None = None
    """Bytes of the arguments of one call, and of the result, where each value in them counts 100."""
    calls: PositiveInt | None = None
    """How many calls of tools it makes."""
    output_chars: PositiveInt | None = None
    """How many characters it prints."""
    code_chars: PositiveInt | None = None
    """How long it is."""
    recursion: PositiveInt | None = None
    """How deep its functions call each other."""
    content_bytes: PositiveInt | None = None
    """Bytes of all images and files that its calls return, as base64."""
    saved_bytes: PositiveInt | None = None
    """Bytes of a program that waits for an approval, as it is stored."""


class CodeModeModel(ManifestModel):
    """Models write programs that call the tools, instead of calling each one."""

    core: Names = []
    """The tools that are listed nevertheless."""
    limits: ProgramLimits = ProgramLimits()
    """What one program may use."""
    inline: bool = False
    """Whether the description of `run_code` contains the declarations of all functions, instead of two more tools."""
    search_tool: ModelTool = ModelTool()
    """Another name or text of `search_tools`."""
    describe_tool: ModelTool = ModelTool()
    """Another name or text of `describe_tools`."""
    run_tool: ModelTool = ModelTool()
    """Another name or text of `run_code`."""


def _from_text(key: str, model: type[ManifestModel]) -> BeforeValidator:
    """Return a validator that takes a text as the value of one key of a mapping."""
    convert = _to_key(key, str)
    return _shorthand(convert, "a text or a mapping", str | model)


def _from_list(key: str, model: type[ManifestModel]) -> BeforeValidator:
    """Return a validator that takes a list as the value of one key of a mapping."""
    convert = _to_key(key, list)
    return _shorthand(convert, "a list or a mapping", list[str] | model)


def _to_key(key: str, kind: type) -> Callable[[Any], Any]:
    return lambda value: {key: value} if isinstance(value, kind) else value


def _from_bool(expected: str, input_type: Any, list_key: str | None = None) -> BeforeValidator:
    """Return a validator that takes true as a mapping without keys, and false as None."""

    def convert(value: Any) -> Any:
        if isinstance(value, bool):
            return {} if value else None
        return {list_key: value} if isinstance(value, list) and list_key is not None else value

    return _shorthand(convert, expected, input_type)


def _shorthand(convert: Callable[[Any], Any], expected: str, input_type: Any) -> BeforeValidator:
    def validate(value: Any) -> Any:
        converted = convert(value)
        if converted is not None and not isinstance(converted, Mapping):
            raise PydanticCustomError("shorthand", expected)
        return converted

    return BeforeValidator(validate, json_schema_input_type=input_type)


class SkillsModel(ManifestModel):
    """Skills: of a folder, of an installed package, or of an MCP server. One of `path` and `server` says where."""

    path: str | None = None
    """The folder of a skill or of several, relative to the folder of the manifest, or `package:folder`."""
    server: str | None = None
    """The `name` of an MCP server among the `sources`."""
    group: str | None = None
    """The group in which the skills are active, `basic` by default."""
    audience: Names = []
    """The audiences that may read the skills; everyone by default."""
    trust: bool | None = None
    """Whether their texts are taken as they are, and activate groups; by default those of folders."""


class Overlay(ManifestModel):
    """What a profile or an audience changes: it is merged over the manifest."""

    name: str | None = None
    """The name of the toolkit; that of the file by default."""
    description: str = ""
    """What the toolkit is for: for people who read the manifest."""
    sources: list[Source] = []
    """Where the tools come from, in this order."""
    skills: list[Annotated[SkillsModel, _from_text("path", SkillsModel)]] = []
    """Folders of instructions for models: a text is a `path`."""
    groups: dict[str, Annotated[GroupModel, _from_text("description", GroupModel)]] = {}
    """The groups of tools, by name; a text is the description."""
    toolsets: dict[str, Annotated[ToolsetModel, _from_list("tools", ToolsetModel)]] = {}
    """Selections of tools, by name; a list has the names of the tools."""
    tools: dict[str, Tool] = {}
    """Options of single tools: name, or pattern such as `delete_*` -> options. Later ones have priority."""
    binds: dict[str, Annotated[Bind, _from_text("key", Bind)]] = {}
    """Parameters that are filled from the state, in every tool that has them: parameter -> state key."""
    timeout: Seconds | None = None
    """Seconds that any call may take, without its middleware."""
    max_concurrency: int = Field(default=16, ge=1)
    """How many calls of one answer run at once."""
    max_background: int = Field(default=16, ge=1)
    """How many background calls of one session run at once."""
    strict: bool = False
    """Whether what `check` finds is an error in exports and servers, and for `ahvn-tools check`. It does not make the
    exports themselves strict."""
    mask_errors: bool = True
    """Whether results hide the text of an exception that is no ToolError."""
    output: OutputForm = "json"
    """`raw`: the value of a result is the object that the function returned."""
    roots: Names | None = None
    """Folders that tools may use, relative to the folder of the manifest. With an empty list no file may be used."""
    on_duplicate: OnDuplicate = "keep"
    """What happens to a second tool of the same name; `keep` the first one, with a warning, by default."""
    approval: ApprovalModel | None = None
    """How calls are approved."""
    middleware: list[MiddlewareItem] = []
    """Middleware for all calls, outermost first."""
    search: Annotated[
        Search | None, _from_bool("true, a list or a mapping", bool | list[str] | Search, list_key="core")
    ] = None
    """Models search for tools: `true`, the tools that are listed nevertheless, or options."""
    code_mode: Annotated[
        CodeModeModel | None, _from_bool("true, a list or a mapping", bool | list[str] | CodeModeModel, list_key="core")
    ] = None
    """Models write programs that call the tools: `true`, the tools that are listed nevertheless, or options."""
    groups_tool: Annotated[ModelTool | None, _from_bool("true or a mapping", bool | ModelTool)] = None
    """Models get the tool `set_groups`: `true`, or its name and text."""


class Profile(Overlay):
    """What a profile changes."""

    audiences: dict[str, Overlay] = {}
    """What an audience sees differently, by name."""


class Manifest(Profile):
    """A toolkit as one file."""

    profiles: dict[str, Profile] = {}
    """Partial manifests, by name; one of them is merged over this one."""
