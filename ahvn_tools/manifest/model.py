"""Manifest: the keys of a manifest, with their types and their meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PositiveFloat, PositiveInt
from pydantic_core import PydanticCustomError

from ahvn_tools.json_types import JsonObject
from ahvn_tools.manifest.manifest_model import ManifestModel, Names, Seconds, Values, ValuesByTool
from ahvn_tools.manifest.middleware_table import MiddlewareItem
from ahvn_tools.manifest.source_model import FunctionOptions, Source, ToolRestrictions
from ahvn_tools.manifest.toolset_model import Agent, Toolset
from ahvn_tools.settings import OutputForm
from ahvn_tools.toolkit.entry_options import OnDuplicate


class Group(ManifestModel):
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
    default: Any = None
    """The value where no state has the key."""


class Approval(ManifestModel):
    """How calls are approved."""

    approver: str | None = None
    """The import path of a function of the request: `acme.approvals:ask`. Without it, calls wait for `resume`."""
    secret_key: str | None = None
    """At least 16 characters that sign what waits, from the environment: `${APPROVAL_KEY}`."""
    store: str | None = None
    """A SQLite file that remembers what was decided, relative to the folder of the manifest."""
    expiry: Seconds | None = None
    """For how many seconds a request can be approved, 7 days by default; `null`: for ever."""


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


class CodeMode(ManifestModel):
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


class Overlay(ManifestModel):
    """What a profile or an audience changes: it is merged over the manifest."""

    name: str | None = None
    """The name of the toolkit; that of the file by default."""
    description: str = ""
    """What the toolkit is for: for people who read the manifest."""
    sources: list[Source] = []
    """Where the tools come from, in this order."""
    groups: dict[str, Annotated[Group, _from_text("description", Group)]] = {}
    """The groups of tools, by name; a text is the description."""
    toolsets: dict[str, Annotated[Toolset, _from_list("tools", Toolset)]] = {}
    """Selections of tools, by name; a list has the names of the tools."""
    tool_sets: Names = []
    """Folders or files with toolsets, relative to the folder of the manifest; `configs/tool_sets` and
    `configs/tool-sets` by default."""
    agents: dict[str, Agent] = {}
    """The tools of agents, by the agent's name."""
    tools: dict[str, Tool] = {}
    """Options of single tools: name, or pattern such as `delete_*` -> options. Later ones have priority."""
    binds: dict[str, Annotated[Bind, _from_text("key", Bind)]] = {}
    """Parameters that are filled from the state, in every tool that has them: parameter -> state key."""
    presets: ValuesByTool = {}
    """Fixed values, which models neither see nor set: tool, or pattern of names -> parameter -> value."""
    timeout: Seconds | None = None
    """Seconds that any call may take, without its middleware."""
    max_concurrency: int = Field(default=16, ge=1)
    """How many calls of one answer run at once."""
    max_background: int = Field(default=16, ge=1)
    """How many background calls of one session run at once."""
    strict: bool = False
    """Whether what `check` finds is an error in exports and servers, and for `ahvn-tools check`."""
    mask_errors: bool = True
    """Whether results hide the text of an exception that is no ToolError."""
    output: OutputForm = "json"
    """`raw`: the value of a result is the object that the function returned."""
    roots: Names | None = None
    """Folders that tools may use, relative to the folder of the manifest. With an empty list no file may be used."""
    on_duplicate: OnDuplicate = "keep"
    """What happens to a second tool of the same name; `keep` the first one, with a warning, by default."""
    approval: Approval | None = None
    """How calls are approved."""
    middleware: list[MiddlewareItem] = []
    """Middleware for all calls, outermost first."""
    search: Annotated[
        Search | None, _from_bool("true, a list or a mapping", bool | list[str] | Search, list_key="core")
    ] = None
    """Models search for tools: `true`, the tools that are listed nevertheless, or options."""
    code_mode: Annotated[
        CodeMode | None, _from_bool("true, a list or a mapping", bool | list[str] | CodeMode, list_key="core")
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
