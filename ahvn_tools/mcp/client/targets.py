"""Where a server is: a URL, a command, a script, an mcp.json, a server object or a client, all read to targets."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from ahvn_tools.errors import DefinitionError
from ahvn_tools.mcp.client.handlers import Handlers
from ahvn_tools.mcp.trust.limits import Limits

ClientFactory = Callable[[Handlers, Mapping[str, str], Limits], Any]
"""Makes a client that nobody else has: `(handlers, headers, limits)`."""

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Target:
    """One server, and how to get a fresh client of it."""

    name: str
    make_client: ClientFactory = field(repr=False)
    """Gives a fresh FastMCP client, not connected, with a transport of its own."""
    is_stdio: bool = False
    """Whether each client starts a process."""
    takes_headers: bool = False
    """Whether it is reached over HTTP, so that headers can be sent to it."""


@dataclass(frozen=True, kw_only=True)
class _Settings:
    """What is said about a server besides where it is."""

    auth: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    cwd: str | Path | None = None
    stderr: str | os.PathLike[str] | None = None


def resolve_targets(
    server: Any,
    *,
    name: str | None = None,
    auth: Any = None,
    headers: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    inputs: Mapping[str, str] | None = None,
    stderr: str | os.PathLike[str] | None = None,
) -> list[Target]:
    """Return the servers that `server` names: mostly one, for an mcp.json each that is not disabled.

    `server` is a URL, a command as a string or as a list of words, a path of a script (.py, .js) or of an mcp.json, its
    content, a FastMCP server object, or a FastMCP client. `auth` is a token, headers, "oauth" or an httpx2.Auth; `env`
    is what a server process sees besides PATH and HOME; `inputs` answers `${input:…}`; `stderr` is a
    file that its stderr is appended to, ours by default. Raises DefinitionError.
    """
    auth = reveal_secrets(auth)
    if isinstance(auth, Mapping):
        auth, headers = None, {**auth, **(headers or {})}
    settings = _Settings(
        auth=auth,
        headers=reveal_secrets(headers or {}),
        env=reveal_secrets(env or {}),
        inputs=inputs or {},
        stderr=stderr,
    )
    found = _to_targets(server, settings)
    if name is None:
        return found
    if len(found) != 1:
        raise DefinitionError(
            f"name={name!r} is for one server; there are {len(found)}: {[one.name for one in found]}."
        )
    return [replace(found[0], name=name)]


def _to_targets(server: Any, settings: _Settings) -> list[Target]:
    if isinstance(server, str) and server.startswith(("http://", "https://")):
        return [_url_target(server, settings)]
    if isinstance(server, str | Path) and str(server).endswith(".json"):
        from ahvn_tools.mcp.client import mcp_config as files

        return _config_targets(*files.read_config(Path(server)), settings)
    if isinstance(server, Mapping):
        return _config_targets(server, Path.cwd(), settings)
    if isinstance(server, Path):
        return [_script_target(server, settings)]
    if isinstance(server, str):
        path = Path(server)
        if path.suffix in _INTERPRETERS and path.is_file():
            return [_script_target(path, settings)]
        return [_command_target(_split_command(server), settings)]
    if isinstance(server, Sequence) and not isinstance(server, bytes | bytearray):
        return [_command_target([str(word) for word in server], settings)]
    from ahvn_tools.mcp.client import fastmcp_clients

    if (config := fastmcp_clients.get_client_config(server)) is not None:
        return _config_targets(config, Path.cwd(), settings)
    return [_object_target(server, settings)]


_INTERPRETERS = {".py": sys.executable, ".js": "node", ".mjs": "node"}


def _split_command(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise DefinitionError(f"{command!r} cannot be read as words: {error}.") from error


def _script_target(path: Path, settings: _Settings) -> Target:
    if path.suffix not in _INTERPRETERS:
        raise DefinitionError(f"{str(path)!r} is no server; give a .py, .js or .json file, or the words of a command.")
    if not path.is_file():
        raise DefinitionError(f"There is no file {str(path)!r}.")
    return _command_target([_INTERPRETERS[path.suffix], str(path.resolve())], settings)


def _command_target(words: Sequence[str], settings: _Settings, name: str | None = None) -> Target:
    if not words:
        raise DefinitionError("A server's command has no words; the first one is the program.")
    if settings.auth is not None or settings.headers:
        raise DefinitionError(f"{words[0]!r} is a command, which takes no auth or headers; use env={{…}}.")

    for variable, value in settings.env.items():
        if not isinstance(value, str):
            raise DefinitionError(f"`env` holds a {type(value).__name__} for {variable!r}; write it as a text.")

    def make(handlers: Handlers, _headers: Mapping[str, str], limits: Limits) -> Any:
        from ahvn_tools.mcp.client import fastmcp_clients

        return fastmcp_clients.make_stdio_client(
            words, handlers, limits, env=settings.env, cwd=settings.cwd, stderr=settings.stderr
        )

    return Target(name=name or _command_name(words), make_client=make, is_stdio=True)


_RUNNERS = frozenset({"python", "python3", "node", "npx", "bunx", "bun", "deno", "uv", "uvx", "pipx", "docker"})


def _command_name(words: Sequence[str]) -> str:
    """Return a name for a command: its program, or what a mere runner runs."""
    names = [Path(word).name for word in words]
    program = Path(names[0]).stem if names[0].endswith(".exe") else names[0]
    if program not in _RUNNERS and not program.startswith("python"):
        return Path(program).stem or program
    for word in names[1:]:
        if not word.startswith("-") and word not in {"run", "exec", "tool", "dlx", "x"}:
            return word.removesuffix(".py").removesuffix(".js").split("@")[0] or program
    return program


def _url_target(url: str, settings: _Settings, name: str | None = None, transport: str | None = None) -> Target:
    _check_credentials(url, settings.auth, settings.headers)
    is_sse = transport == "sse" or (transport is None and urlsplit(url).path.rstrip("/").endswith("/sse"))
    kept: list[Any] = []

    def make(handlers: Handlers, headers: Mapping[str, str], limits: Limits) -> Any:
        from ahvn_tools.mcp.client import fastmcp_clients

        if not kept:  # one login for all clients
            kept.append(fastmcp_clients.make_oauth(url) if settings.auth == "oauth" else settings.auth)
        merged = {name.lower(): value for name, value in {**settings.headers, **headers}.items()}
        return fastmcp_clients.make_http_client(
            url, handlers, limits, headers=merged, auth=_select_auth(kept[0], headers), is_sse=is_sse
        )

    return Target(name=name or _host(url), make_client=make, takes_headers=True)


def reveal_secrets(value: Any) -> Any:
    """Return a value with pydantic's secret types opened, those in a mapping too."""
    if isinstance(value, Mapping):
        return {name: reveal_secrets(item) for name, item in value.items()}
    return value.get_secret_value() if hasattr(value, "get_secret_value") else value


def is_valid_header(name: object, value: object) -> bool:
    """Tell whether this can be sent as a header, with something in it."""
    is_name = isinstance(name, str) and re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name)
    is_value = isinstance(value, str) and value.isascii() and value.isprintable() and value == value.strip()
    return bool(is_name and is_value)


def _check_credentials(url: str, auth: Any, headers: Mapping[str, str]) -> None:
    """Raise DefinitionError, without showing a value, for what is no credentials of a server."""
    if not (auth is None or isinstance(auth, str) or hasattr(auth, "auth_flow")):
        raise DefinitionError(f'`auth` is a token, headers, "oauth" or an httpx2.Auth, not a {type(auth).__name__}.')
    given = {**headers, "Authorization": auth} if isinstance(auth, str) else headers
    for name, value in given.items():
        if not is_valid_header(name, value):
            raise DefinitionError(f"{name!r} for {_host(url)!r} holds what cannot be sent as a header.")


def _host(url: str) -> str:
    return urlsplit(url).hostname or url


def _select_auth(auth: Any, headers: Mapping[str, str]) -> Any:
    """Return what authenticates requests: a call's own credentials come before a token of the server's."""
    return None if any(name.lower() == "authorization" for name in headers) else auth


def _object_target(server: Any, settings: _Settings) -> Target:
    from ahvn_tools.mcp.client import fastmcp_clients

    if settings.auth is not None or settings.headers or settings.env:
        raise DefinitionError(f"A {type(server).__name__} takes no auth, headers or env; set them where it is made.")
    if fastmcp_clients.is_server(server):
        return Target(
            name=server.name,
            make_client=lambda handlers, _headers, limits: fastmcp_clients.make_memory_client(server, handlers, limits),
        )
    if fastmcp_clients.is_client(server):
        where = fastmcp_clients.get_location(server)
        return Target(
            name=server.name if where is None else _host(where) if isinstance(where, str) else _command_name(where),
            make_client=lambda handlers, headers, limits: fastmcp_clients.clone(server, handlers, limits, headers),
            is_stdio=fastmcp_clients.is_stdio(server),
            takes_headers=fastmcp_clients.is_http(server),
        )
    raise DefinitionError(
        f"A {type(server).__name__} is no MCP server; give a URL, a command, a path, an mcp.json or a FastMCP object."
    )


def _config_targets(config: Mapping[str, Any], folder: Path, settings: _Settings) -> list[Target]:
    from ahvn_tools.mcp.client import mcp_config as files

    entries = files.parse_entries(config, folder, env={**os.environ, **settings.env}, inputs=settings.inputs)
    return [_entry_target(name, entry, settings) for name, entry in entries.items()]


def _entry_target(name: str, entry: Any, settings: _Settings) -> Target:
    if entry.url is None:
        own = replace(settings, env={**entry.env, **settings.env}, cwd=entry.cwd)
        return _command_target(entry.command, own, name)
    own = replace(settings, headers={**entry.headers, **settings.headers}, auth=settings.auth or entry.auth)
    return _url_target(entry.url, own, name, entry.transport)
