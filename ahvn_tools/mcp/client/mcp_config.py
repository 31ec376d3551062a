"""mcp.json as Claude Desktop, VS Code and Cursor write it: its servers, with variables replaced."""

from __future__ import annotations

import io
import json
import logging
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from ahvn_tools.errors import DefinitionError, SourceError, near_misses
from ahvn_tools.mcp.client.connect_options import ConnectOptions
from ahvn_tools.regular_file import read_text
from ahvn_tools.trust import Trust, require_all

log = logging.getLogger(__name__)

CONFIG_PATH: Final = re.compile(r"(?P<file>.+\.json)(?::(?P<names>[^/\\]+))?")
"""The path of an mcp.json, and the names of some of its servers with commas between them."""

_OPTIONS: Final = ConnectOptions.__annotations__.keys() - {"auth", "env"} | {"include", "exclude", "prefix", "timeout"}
"""Options of `add_mcp` that somebody might write into an entry. Other programs have further keys, which are ignored."""

_URL_KEYS: Final = ("url", "serverUrl", "httpUrl")
_STRING = r'"(?:\\.|[^"\\])*+"?'  # one that does not end is read once
_COMMENT = re.compile(rf"{_STRING}|(//[^\r\n]*|/\*.*?(?:\*/|\Z))", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"{_STRING}|(,(?=\s*[}}\]]))", re.DOTALL)
_VARIABLE = re.compile(r"\$\{([^{}]*)\}")


@dataclass(frozen=True, kw_only=True, repr=False)
class ServerEntry:
    """One server of an mcp.json: a command or a URL, and its options."""

    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    auth: Any = None
    transport: str | None = None
    """`"sse"`, another name for Streamable HTTP, or None where the entry does not say."""
    verify: Any = None
    """How the certificate of the server is verified, as httpx2 takes it."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The variables of the environment, and the inputs, that were replaced in the entry."""
    problem: str | None = None
    """Why the server is left out, as one of several: a variable is not set, or the entry is invalid."""
    log_file: Any = None
    """The file that the stderr of the server is written to: its path, or an open one."""

    def trusted(self, trust: Trust, folder: Path) -> ServerEntry:
        """Return the entry with the folder in which its process starts: its `cwd` in `folder`, or `folder` itself.

        Raises SourceError unless the program may be started there, with these variables, or the URL be requested.
        """
        start = folder / (self.cwd or "")
        checks: list[Callable[[], None]] = [partial(trust.require_variable, name) for name in self.env]
        if self.url is not None:
            checks.append(partial(trust.require_server, self.url))
        if self.command:
            checks.append(partial(trust.require_program, self.command[0], start))
        require_all(checks)
        return replace(self, cwd=str(start)) if self.command else self


def read_config(path: Path) -> tuple[Mapping[str, Any], Path]:
    """Return the content of an mcp.json and the folder that it is for. It may have comments and trailing commas."""
    try:
        config = json.loads(without_comments(read_text(path, repr(str(path)))))
    except SourceError as error:
        raise DefinitionError(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise DefinitionError(f"{str(path)!r} is not JSON: {error}.") from error
    if not isinstance(config, Mapping):
        raise DefinitionError(f"{str(path)!r} does not contain a JSON object.")
    folder = path.resolve().parent
    return config, folder.parent if folder.name in {".vscode", ".cursor"} else folder


def without_comments(text: str, *, keeps_commas: bool = False) -> str:
    """Return JSON with spaces in place of the comments and trailing commas that editors allow in it."""
    for pattern in (_COMMENT,) if keeps_commas else (_COMMENT, _TRAILING_COMMA):
        text = pattern.sub(lambda match: re.sub(r"[^\r\n]", " ", match[0]) if match[1] else match[0], text)
    return text


def parse_entries(
    config: Mapping[str, Any],
    folder: Path,
    *,
    env: Mapping[str, str],
    inputs: Mapping[str, str],
    trust: Trust = Trust(),  # noqa: B008  # it does not change
) -> dict[str, ServerEntry]:
    """Return the servers of a configuration that are not disabled, by name; of several, invalid ones with a `problem`.

    Raises DefinitionError if no entry is valid, and SourceError for what is not trusted.
    """
    entries: dict[str, ServerEntry] = {}
    first_error: DefinitionError | None = None
    for name, entry in find_servers(config).items():
        if _is_disabled(entry):
            continue
        try:
            entries[name] = _EntryParser(name, folder, trust.environment(env), inputs, trust).parse(entry)
        except DefinitionError as error:
            entries[name] = ServerEntry(problem=str(error))
            first_error = first_error or error
    if first_error is not None and all(entry.problem is not None for entry in entries.values()):
        raise first_error
    return entries


def select_servers(servers: Mapping[str, Any], names: str, shown: str) -> Mapping[str, Any]:
    """Return some servers of a file by their names, which have commas between them. Raises DefinitionError."""
    for name in (wanted := [name.strip() for name in names.split(",")]):
        if name not in servers:
            raise DefinitionError(f"{shown} has no server {name!r}. {near_misses(name, servers)}")
    return {name: servers[name] for name in wanted}


def find_servers(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the entries of a configuration, by name; "" is that of one entry alone. Raises DefinitionError."""
    if any(isinstance(config.get(key), str) for key in ("command", *_URL_KEYS)):
        return {"": config}
    for key in ("mcpServers", "servers", "mcp"):
        inner = config.get(key)
        if isinstance(inner, Mapping):
            return find_servers(inner) if key == "mcp" else inner
    if config and all(isinstance(entry, Mapping) for entry in config.values()):
        return config
    raise DefinitionError("This is not an mcp.json: it has neither `mcpServers` nor `servers`.")


def _is_disabled(entry: Any) -> bool:
    return isinstance(entry, Mapping) and (entry.get("disabled") is True or entry.get("enabled") is False)


class _EntryParser:
    """Parses one entry, and replaces `${…}` in its texts."""

    def __init__(
        self, name: str, folder: Path, env: Mapping[str, str], inputs: Mapping[str, str], trust: Trust
    ) -> None:
        self._where = f"Server {name!r}" if name else "The server"
        self._folder = folder
        self._env = env
        self._inputs = inputs
        self._trust = trust
        self._known = {
            "workspaceFolder": str(folder),
            "workspaceFolderBasename": folder.name,
            "userHome": str(Path.home()),
            "pathSeparator": os.sep,
            "/": os.sep,
        }
        self._variables: dict[str, str] = {}
        """Those that were replaced, from the environment and the inputs."""

    def parse(self, entry: Any) -> ServerEntry:
        if not isinstance(entry, Mapping):
            raise DefinitionError(f"{self._where} is not a JSON object.")
        for option in _OPTIONS.intersection(entry):
            log.warning("%s: %r has no effect in an mcp.json: it is an option of add_mcp.", self._where, option)
        url = next((entry[key] for key in _URL_KEYS if entry.get(key)), None)
        command, arguments = entry.get("command"), entry.get("args") or []
        if not isinstance(arguments, list):
            raise DefinitionError(f"{self._where}: `args` is a list of texts, not a {type(arguments).__name__}.")
        if (url is None) == (command is None):
            raise DefinitionError(f"{self._where} needs either a `command` or a `url`.")
        words = (
            [] if command is None else [*command, *arguments] if isinstance(command, list) else [command, *arguments]
        )
        transport, cwd, auth = entry.get("type") or entry.get("transport"), entry.get("cwd"), entry.get("auth")
        return ServerEntry(
            command=tuple(self._expand(word, "args") for word in words),
            env={**self._read_env_file(entry.get("envFile")), **self._expand_values(entry, "env")},
            cwd=None if cwd is None else self._expand(cwd, "cwd"),
            url=None if url is None else self._expand(url, "url"),
            headers=self._expand_values(entry, "headers"),
            auth=self._expand(auth, "auth") if isinstance(auth, str) else None,
            transport=transport if isinstance(transport, str) else None,
            variables=self._variables,
        )

    def _read_env_file(self, written: Any) -> dict[str, str]:
        """Return the variables of VS Code's `envFile`: lines of `NAME=value`, the value with or without quotes."""
        from dotenv import dotenv_values  # few servers have such a file

        if not written:
            return {}
        path = self._expand(written, "envFile")
        self._trust.require_file(self._folder / path, str(written))  # errors have no value of a variable
        try:
            text = read_text(self._folder / path, repr(written))
        except SourceError as error:
            raise DefinitionError(f"{self._where}: {error}") from None
        values = dotenv_values(stream=io.StringIO(text), interpolate=False)
        return {name: value or "" for name, value in values.items()}

    def _expand_values(self, entry: Mapping[str, Any], key: str) -> dict[str, str]:
        values = entry.get(key) or {}
        if not isinstance(values, Mapping):
            raise DefinitionError(f"{self._where}: `{key}` is not a JSON object.")
        return {str(name): self._expand(value, f"{key}.{name}") for name, value in values.items()}

    def _expand(self, value: Any, key: str) -> str:
        """Return a text or number of the entry with its variables replaced."""
        if not isinstance(value, str | int | float):
            raise DefinitionError(f"{self._where}: `{key}` has a value that is not a string.")
        text = value if isinstance(value, str) else json.dumps(value)
        return _VARIABLE.sub(lambda match: self._resolve_variable(match[1]), text)

    def _resolve_variable(self, variable: str) -> str:
        if variable == "userHome":
            self._trust.require_variable("HOME")
        if variable in self._known:
            return self._known[variable]
        if variable.startswith("input:"):
            name = variable.removeprefix("input:")
            if name in self._inputs:
                return self._variables.setdefault(name, self._inputs[name])
            hint = f" {near_misses(name, self._inputs)}" if self._inputs else ""
            raise DefinitionError(f"{self._where} asks for the input {name!r}; pass inputs={{{name!r}: …}}.{hint}")
        name, has_default, default = variable.removeprefix("env:").partition(":-")
        if name in self._env and (self._env[name] or not has_default):
            return self._variables.setdefault(name, self._env[name])
        if has_default:
            return default
        raise DefinitionError(f"{self._where} needs the environment variable {name!r}, which is not set.")
