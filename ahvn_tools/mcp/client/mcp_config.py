"""mcp.json, as Claude Desktop, VS Code and Cursor write it: entries with their variables filled in."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ahvn_tools.errors import DefinitionError, near_misses


@dataclass(frozen=True, kw_only=True)
class ServerEntry:
    """One server of an mcp.json."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None
    url: str | None
    headers: Mapping[str, str]
    auth: Any
    transport: str | None
    """How a URL is spoken to: "sse", or anything else for Streamable HTTP; None says nothing."""


def read_config(path: Path) -> tuple[Mapping[str, Any], Path]:
    """Return what an mcp.json says, and the folder it is about. Comments and trailing commas may be in it."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError(f"{str(path)!r} cannot be read: {type(error).__name__}.") from error
    try:
        config = json.loads(_strip_comments(text))
    except ValueError as error:
        raise DefinitionError(f"{str(path)!r} is not JSON: {error}.") from error
    if not isinstance(config, Mapping):
        raise DefinitionError(f"{str(path)!r} holds no JSON object.")
    folder = path.resolve().parent
    return config, folder.parent if folder.name in {".vscode", ".cursor"} else folder


_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')


def _strip_comments(text: str) -> str:
    for pattern in (_COMMENT, _TRAILING_COMMA):
        text = pattern.sub(lambda found: found[1] or "", text)
    return text


def parse_entries(
    config: Mapping[str, Any], folder: Path, *, env: Mapping[str, str], inputs: Mapping[str, str]
) -> dict[str, ServerEntry]:
    """Return the servers of a configuration that are not disabled, by name. Raises DefinitionError."""
    found = _find_servers(config)
    fill = _VariableExpander(folder, env, inputs)
    return {name: _parse_entry(name, entry, fill) for name, entry in found.items() if not _is_disabled(entry)}


def _find_servers(config: Mapping[str, Any]) -> Mapping[str, Any]:
    for key in ("mcpServers", "servers", "mcp"):
        inner = config.get(key)
        if isinstance(inner, Mapping):
            return _find_servers(inner) if key == "mcp" else inner
    if config and all(isinstance(entry, Mapping) for entry in config.values()):
        return config
    raise DefinitionError("This is no mcp.json: it has neither `mcpServers` nor `servers`.")


def _is_disabled(entry: Any) -> bool:
    return isinstance(entry, Mapping) and (entry.get("disabled") is True or entry.get("enabled") is False)


class _VariableExpander:
    """Puts values in the place of `${…}`."""

    def __init__(self, folder: Path, env: Mapping[str, str], inputs: Mapping[str, str]) -> None:
        self.folder = folder
        self._env = env
        self._inputs = inputs
        self._predefined = {
            "workspaceFolder": str(folder),
            "workspaceFolderBasename": folder.name,
            "userHome": str(Path.home()),
            "pathSeparator": os.sep,
            "/": os.sep,
        }

    def __call__(self, text: str, where: str) -> str:
        return _VARIABLE.sub(lambda found: self._resolve_variable(found[1], where), text)

    def _resolve_variable(self, variable: str, where: str) -> str:
        if variable in self._predefined:
            return self._predefined[variable]
        if variable.startswith("input:"):
            return self._resolve_input(variable.removeprefix("input:"), where)
        name, has_default, default = variable.removeprefix("env:").partition(":-")
        if name in self._env and (self._env[name] or not has_default):
            return self._env[name]
        if has_default:
            return default
        raise DefinitionError(f"{where} needs the environment variable {name!r}, which is not set.")

    def _resolve_input(self, name: str, where: str) -> str:
        if name not in self._inputs:
            raise DefinitionError(
                f"{where} asks for the input {name!r}; give it: inputs={{{name!r}: …}}. "
                f"{near_misses(name, self._inputs) if self._inputs else ''}".rstrip()
            )
        return self._inputs[name]


_VARIABLE = re.compile(r"\$\{([^{}]*)\}")


def _parse_entry(name: str, entry: Any, expand: _VariableExpander) -> ServerEntry:
    where = f"Server {name!r}"
    if not isinstance(entry, Mapping):
        raise DefinitionError(f"{where} is no JSON object.")
    url = next((entry[key] for key in ("url", "serverUrl", "httpUrl") if entry.get(key)), None)
    command, arguments = entry.get("command"), entry.get("args") or []
    if (url is None) == (command is None):
        raise DefinitionError(f"{where} needs either a `command` or a `url`.")
    words = [*command, *arguments] if isinstance(command, list) else [command, *arguments]
    kind, cwd, auth = entry.get("type") or entry.get("transport"), entry.get("cwd"), entry.get("auth")
    return ServerEntry(
        command=() if command is None else tuple(expand(_to_text(word, where, "args"), where) for word in words),
        env={**_read_env_file(entry, where, expand), **_expand_values(entry, "env", where, expand)},
        cwd=None if cwd is None else expand(_to_text(cwd, where, "cwd"), where),
        url=None if url is None else expand(_to_text(url, where, "url"), where),
        headers=_expand_values(entry, "headers", where, expand),
        auth=expand(auth, where) if isinstance(auth, str) else None,
        transport=kind if isinstance(kind, str) else None,
    )


def _read_env_file(entry: Mapping[str, Any], where: str, expand: _VariableExpander) -> dict[str, str]:
    """Return the variables of VS Code's `envFile`: lines of `NAME=value`, where quotes may be around the value."""
    if not entry.get("envFile"):
        return {}
    given = expand(_to_text(entry["envFile"], where, "envFile"), where)
    try:
        lines = (expand.folder / given).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError(f"{where}: {given!r} cannot be read: {type(error).__name__}.") from error
    found = (_ENV_LINE.fullmatch(line) for line in lines)
    return {line["name"]: line["quoted"] or line["bare"] or "" for line in found if line}


_ENV_LINE = re.compile(
    r"""\s*(?:export\s+)?(?P<name>\w+)\s*=\s*(?:(?P<quote>["'])(?P<quoted>.*)(?P=quote)|(?P<bare>.*?))\s*"""
)


def _expand_values(entry: Mapping[str, Any], key: str, where: str, expand: _VariableExpander) -> dict[str, str]:
    values = entry.get(key) or {}
    if not isinstance(values, Mapping):
        raise DefinitionError(f"{where}: `{key}` is no JSON object.")
    return {str(name): expand(_to_text(value, where, f"{key}.{name}"), where) for name, value in values.items()}


def _to_text(value: Any, where: str, what: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return json.dumps(value)
    raise DefinitionError(f"{where}: `{what}` holds something that is no text.")
