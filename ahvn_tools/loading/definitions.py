"""Definitions as a source: a YAML file with one HTTP tool, one Python function or one MCP server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ahvn_tools.command_words import split_command
from ahvn_tools.errors import DefinitionError, SourceError, ToolSpecError, clip, near_misses
from ahvn_tools.loading.contents import Contents, ServerSource
from ahvn_tools.loading.kinds import FOLDER_KINDS
from ahvn_tools.loading.options import ReadOptions, expand
from ahvn_tools.loading.python_modules import read_member, split_location
from ahvn_tools.loading.yaml_file import MAX_MESSAGE_CHARS, YamlDocument, read_yaml
from ahvn_tools.sources.http.body import require_trust
from ahvn_tools.sources.http.options import REQUEST_KEYS, build_from_url
from ahvn_tools.spec import ToolSpec

_KINDS: Final = {
    "http": "http",
    "native": "http",
    "function": "function",
    "builtin": "function",
    "mcp": "mcp",
}
"""What `kind`, or `tool_type`, says, and the kind."""

_ALIASES: Final = {
    "tool_type": "kind", "parameters_schema": "input_schema", "parameters": "input_schema", "metadata": "meta",
}  # fmt: skip
"""Other spellings of keys."""

_TYPES: Final[Mapping[str, tuple[type, str]]] = {
    "kind": (str, "a text"),
    "name": (str, "a text"),
    "title": (str, "a text"),
    "description": (str, "a text"),
    "input_schema": (dict, "a JSON Schema"),
    "output_schema": (dict, "a JSON Schema"),
    "enabled": (bool, "true or false"),
    "meta": (dict, "a mapping"),
    "tags": (list, "a list of texts"),
    "annotations": (dict, "a mapping of hints"),
}
"""The keys of all definitions but `timeout`, with their types."""

_OBJECT_KEYWORDS: Final = frozenset({
    "type", "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties",
    "maxProperties", "allOf", "anyOf", "oneOf", "$ref", "$schema", "$defs", "title", "description",
})  # fmt: skip
"""One of these is in each JSON Schema of arguments; the name of an argument is none."""

_TOOL_OPTIONS: Final = ("title", "description", "input_schema", "output_schema", "meta", "tags", "annotations")

_DURATION: Final = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?) ?(?P<unit>ms|s|m)?")
_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, None: 1}


@dataclass(frozen=True, kw_only=True)
class DefinitionFile:
    """The YAML file of one tool, or of one MCP server."""

    file: Path
    document: YamlDocument = field(repr=False)
    data: Mapping[str, Any] = field(repr=False)
    """The content by canonical keys: `kind` for `tool_type`, and so on."""
    spellings: Mapping[str, str] = field(repr=False)
    """The keys as they are written, by canonical key."""
    kind: str
    """`"http"`, `"function"` or `"mcp"`."""

    @property
    def name(self) -> str:
        """The name of the tool: that of the file by default."""
        return str(self.data.get("name", self.file.stem))

    @property
    def is_enabled(self) -> bool:
        """Whether the tool is to be used."""
        return bool(self.data.get("enabled", True))

    @property
    def timeout(self) -> float | None:
        """Seconds that a call may take. Raises SourceError for what is no duration."""
        value = self.data.get("timeout")
        seconds = None if isinstance(value, bool) else to_seconds(str(value))
        if value is not None and not seconds:
            raise self.error("timeout", "it is a number of seconds above 0, such as 30, 30s or 500ms")
        return seconds

    def tool_options(self) -> dict[str, Any]:
        """Return the options of `@tool` that the file has, with its name. Raises SourceError."""
        options = {key: self.data[key] for key in _TOOL_OPTIONS if key in self.data}
        return {"name": self.name, **options, **({} if self.timeout is None else {"timeout": self.timeout})}

    def expand(self, key: str, options: ReadOptions) -> Any:
        """Return the value of a key with its variables replaced; None without it. Raises SourceError."""
        try:
            return expand(self.data.get(key), options.variables)
        except SourceError as error:
            raise self.error(key, str(error)) from None

    def check_keys(self, types: Mapping[str, tuple[type | tuple[type, ...], str]]) -> None:
        """Raise SourceError for a key that is none of these and none of all definitions, and for a wrong type.

        `types` has the types of the further keys, and what to write instead of another one.
        """
        known: dict[str, Any] = {**_TYPES, **types}
        for key, value in self.data.items():
            if key == "timeout":
                continue
            if key not in known:
                hint = near_misses(key, [*known, "timeout", *_ALIASES])
                raise self.error(key, f"a definition of the kind {self.kind!r} has no such key. {hint}")
            expected, words = known[key]
            if not isinstance(value, expected) or (isinstance(value, bool) and expected not in (bool, object)):
                raise self.error(key, f"it is {words}, not {_describe(value)}")
        if (schema := self.data.get("input_schema")) and _OBJECT_KEYWORDS.isdisjoint(schema):
            raise self.error("input_schema", "it is a JSON Schema: write {type: object, properties: {…}}")
        if not all(isinstance(tag, str) for tag in self.data.get("tags", ())):
            raise self.error("tags", "it is a list of texts")

    def error(self, key: str | None, message: str) -> SourceError:
        """Return an error about a key, or about the whole file, with the line."""
        spelling = None if key is None else self.spellings.get(key, key)
        line = None if spelling is None else self.document.line_of((spelling,))
        return _error(self.document.name, line, spelling, message)

    def wrap(self, error: ToolSpecError) -> SourceError:
        """Return an error about the definition for one of the tool that it makes."""
        return _error(self.document.name, None, None, str(error))


def to_seconds(duration: str) -> float | None:
    """Return the seconds of a text such as `30`, `30s`, `500ms` or `2m`; None for another text."""
    match = _DURATION.fullmatch(duration)
    return None if match is None else float(match["number"]) * _SECONDS[match["unit"]]


def read_definition(location: str, options: ReadOptions) -> DefinitionFile:
    """Read the file of a definition. The kind is that of its folder unless the file says it. Raises SourceError."""
    file = options.resolve(location)
    document = read_yaml(file, location, options.budget)
    if not isinstance(document.value, dict):
        raise _error(location, None, None, "a definition is a mapping with `name`, `kind` and so on.")
    return to_definition(file, document)


def to_definition(file: Path, document: YamlDocument, default_kind: str | None = None) -> DefinitionFile:
    """Return the definition in a document; `file` is where it is written. Raises SourceError."""
    location = document.name
    spellings: dict[str, str] = {}
    for key in document.value:
        canonical = _ALIASES.get(key, key)
        if canonical in spellings:
            line = document.line_of((key,))
            raise _error(location, line, key, f"it means the same as {spellings[canonical]!r}: keep one of them")
        spellings[canonical] = key
    data = {canonical: document.value[key] for canonical, key in spellings.items()}
    kind = data.get("kind", default_kind or FOLDER_KINDS.get(file.resolve().parent.name))
    known_kind = _KINDS.get(kind) if isinstance(kind, str) else None
    if known_kind is None:
        line = document.line_of((spellings["kind"],)) if "kind" in data else None
        found = f"it is not {kind!r}. " if isinstance(kind, str) else ""
        raise _error(location, line, spellings.get("kind", "kind"), f"{found}Known: {', '.join(map(repr, _KINDS))}")
    return DefinitionFile(file=file, document=document, data=data, spellings=spellings, kind=known_kind)


def _error(name: str, line: int | None, key: str | None, message: str) -> SourceError:
    place = name if line is None else f"{name}, line {line}"
    part = "" if key is None else f"`{key}`: "
    end = "" if message.endswith((".", "?")) else "."
    return SourceError(
        f"{place}: {clip(part, MAX_MESSAGE_CHARS)}{clip(message, MAX_MESSAGE_CHARS)}{end}", file=name, line=line
    )


def _describe(value: Any) -> str:
    """Return the type of a value in words of YAML: the value itself may be a secret."""
    names = {dict: "a mapping", list: "a list", str: "a text", bool: "true or false", type(None): "nothing"}
    return names.get(type(value), "a number")


_EXPANDED: Final = ("api_url", "token_url", "scope", "token_audience", "ca_file", "proxy")
"""Keys whose variables are replaced when the file is read. Those of credentials are read at each call."""


def to_spec(definition: DefinitionFile, options: ReadOptions) -> ToolSpec:
    """Return the tool of a definition of the kind `http`. Raises SourceError and DefinitionError."""
    keys = ("api_url", "binds", *REQUEST_KEYS)
    definition.check_keys(dict.fromkeys(keys, (object, "")))
    if "api_url" not in definition.data:
        raise definition.error(None, "a definition of an HTTP tool has an `api_url`")
    own: dict[str, Any] = {key: definition.data[key] for key in keys if key in definition.data}
    if "${" in str(definition.data["api_url"]).partition("?")[2]:
        raise definition.error("api_url", "a variable in the query would be no secret: use auth_method: api_key_query")
    for key in _EXPANDED:
        if key in own:
            own[key] = definition.expand(key, options)
    if definition.data.get("kind", definition.file.resolve().parent.name) == "native":
        own.setdefault("method", "POST")
    if "ca_file" in own:
        own["ca_file"] = str(definition.file.parent / own["ca_file"])
    tool_options = definition.tool_options()
    url = str(definition.data["api_url"])
    origin = f"{str(own.get('method', 'GET')).upper()} {url.partition('?')[0]}"  # with names of variables
    try:
        template, body = build_from_url(
            tool_options.pop("name"), own.pop("api_url"), {**tool_options, **own}, options.env, origin
        )
    except DefinitionError as error:
        key = str(error).split(" ", 1)[0].strip("'")
        raise (definition.error(key, str(error)) if key in definition.data else definition.wrap(error)) from error
    if definition.is_enabled:
        require_trust(template, body, options.trust)
    return ToolSpec(template, body)


_Types = Mapping[str, tuple[type | tuple[type, ...], str]]

_FUNCTION: Final = (str, "FILE.py:NAME or MODULE:NAME")
_FUNCTION_KEYS: Final[_Types] = {
    "function": _FUNCTION,
    "function_path": _FUNCTION,
    "binds": (dict, "a mapping of parameters to state keys"),
}

_SERVER_KEYS: Final[_Types] = {
    "url": (str, "a URL"),
    "mcp_server_url": (str, "a URL"),
    "command": ((str, list), "a command"),
    "args": (list, "a list of texts"),
    "cwd": (str, "a folder"),
    "env": (dict, "a mapping of texts"),
    "headers": (dict, "a mapping of texts"),
    "mcp_api_key": (str, "a text, such as ${API_KEY}"),
    "transport": (str, "`http` or `sse`"),
    "include": (list, "a list of texts"),
    "exclude": (list, "a list of texts"),
    "prefix": (str, "a text"),
}

_IMPORT_OPTIONS: Final = ("include", "exclude", "prefix", "tags")


def read(location: str, options: ReadOptions) -> Contents:
    """Return the tool or the server of a definition; nothing if it is not enabled. Raises SourceError.

    Relative paths in the file are relative to its folder.
    """
    definition = read_definition(location, options)
    makers = {"http": _read_http, "function": _read_function, "mcp": _read_server}
    try:
        contents = makers[definition.kind](definition, options)
    except ToolSpecError as error:
        if definition.document.name in str(error):
            raise
        raise definition.wrap(error) from error
    return contents if definition.is_enabled else Contents(name=definition.name)


def _read_http(definition: DefinitionFile, options: ReadOptions) -> Contents:

    return Contents(name=definition.name, tools=(to_spec(definition, options),))


def _read_function(definition: DefinitionFile, options: ReadOptions) -> Contents:
    definition.check_keys(_FUNCTION_KEYS)
    key = _only_key(definition, "function", "function_path")
    file, name = split_location(definition.data[key])
    if name is None:
        raise definition.error(key, "it is FILE.py:NAME or MODULE:NAME")
    if not definition.is_enabled:
        return Contents(name=definition.name)
    beside = Path(definition.document.name).parent / f"{file.removesuffix('.py')}.py"
    if options.resolve(str(beside)).is_file():
        file = str(beside)
    elif file.endswith(".py"):
        options = replace(options, folder=definition.file.parent)
    options = options.for_documents_in(definition.file.resolve().parent)
    tool_options = definition.tool_options()
    if "binds" in definition.data:
        tool_options["binds"] = definition.data["binds"]
    try:
        tool = _to_spec(read_member(file, name, options), tool_options)
    except ToolSpecError as error:
        raise definition.error(key, str(error)) from error
    return Contents(name=definition.name, tools=(tool,))


def _to_spec(function: Any, tool_options: Any) -> ToolSpec:
    if isinstance(function, ToolSpec):
        return function.transform(**tool_options)
    return ToolSpec.from_function(function, **tool_options)


def _read_server(definition: DefinitionFile, options: ReadOptions) -> Contents:
    definition.check_keys(_SERVER_KEYS)
    for key in ("input_schema", "output_schema"):
        if key in definition.data:
            raise definition.error(key, "the server says what its tools take and return: remove this key")
    entry = _to_entry(definition, options)
    if definition.is_enabled:
        entry = entry.trusted(options.trust, Path.cwd())
    import_options: dict[str, Any] = {key: definition.data[key] for key in _IMPORT_OPTIONS if key in definition.data}
    if definition.timeout is not None:
        import_options["timeout"] = definition.timeout
    server = ServerSource(server={definition.name: entry}, options=import_options)
    return Contents(name=definition.name, servers=(server,))


def _to_entry(definition: DefinitionFile, options: ReadOptions) -> Any:
    from ahvn_tools.mcp.client.mcp_config import ServerEntry

    key = _only_key(definition, "url", "mcp_server_url", "command")
    if key != "command":
        for other in ("args", "cwd", "env"):
            if other in definition.data:
                raise definition.error(other, f"it is for a `command`, and the server is a `{key}`")
        return ServerEntry(
            url=definition.expand(key, options),
            headers=_texts(definition, "headers", options),
            auth=definition.expand("mcp_api_key", options),
            transport=definition.data.get("transport"),
        )
    for other in ("headers", "mcp_api_key", "transport"):
        if other in definition.data:
            raise definition.error(other, "it is for a `url`; a command takes `env`")
    words = _to_words(definition, options)
    cwd = definition.expand("cwd", options)
    return ServerEntry(
        command=words,
        env=_texts(definition, "env", options),
        cwd=None if cwd is None else str(definition.file.parent / cwd),
    )


def _to_words(definition: DefinitionFile, options: ReadOptions) -> tuple[str, ...]:
    command = definition.expand("command", options)
    arguments = definition.expand("args", options) or []
    words = [*(split_command(command) if isinstance(command, str) else command), *arguments]
    if not words or not all(isinstance(word, str | int | float) for word in words):
        raise definition.error("command", "a command is a program and its arguments, which are texts")
    return tuple(map(str, words))


def _texts(definition: DefinitionFile, key: str, options: ReadOptions) -> dict[str, str]:
    values = definition.expand(key, options) or {}
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise definition.error(key, f"{name!r} is a text: write it in quotes")
    return {name: str(value) for name, value in values.items()}


def _only_key(definition: DefinitionFile, *keys: str) -> str:
    """Return which of these keys the definition has. Raises SourceError unless it is exactly one."""
    found = [key for key in keys if key in definition.data]
    if len(found) == 1:
        return found[0]
    names = " or ".join(f"`{key}`" for key in keys)
    raise definition.error(
        found[1] if found else None, f"a definition of the kind {definition.kind!r} has either {names}"
    )
