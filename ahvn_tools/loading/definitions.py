"""Definitions as a source: a YAML file with one HTTP tool, one Python function or one MCP server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ahvn_tools.command_words import split_command
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.loading.contents import Contents, ServerSource
from ahvn_tools.loading.definition_file import DefinitionFile, read_definition
from ahvn_tools.loading.options import ReadOptions
from ahvn_tools.loading.python_modules import read_member, split_location
from ahvn_tools.spec import ToolSpec

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
    from ahvn_tools.loading.definitions_http import to_spec

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
