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
from ahvn_tools.mcp.handlers import Handlers
from ahvn_tools.mcp.limits import Limits

Make = Callable[[Handlers, Mapping[str, str], Limits], Any]
"""Makes a client that nobody else has: `(handlers, headers, limits)`."""

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Target:
    """One server, and how to get a fresh client of it."""

    name: str
    make: Make = field(repr=False)
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


def targets(
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
    auth = opened(auth)
    if isinstance(auth, Mapping):
        auth, headers = None, {**auth, **(headers or {})}
    settings = _Settings(
        auth=auth, headers=opened(headers or {}), env=opened(env or {}), inputs=inputs or {}, stderr=stderr
    )
    found = _read(server, settings)
    if name is None:
        return found
    if len(found) != 1:
        raise DefinitionError(
            f"name={name!r} is for one server; there are {len(found)}: {[one.name for one in found]}."
        )
    return [replace(found[0], name=name)]


def _read(server: Any, settings: _Settings) -> list[Target]:
    if isinstance(server, str) and server.startswith(("http://", "https://")):
        return [_remote(server, settings)]
    if isinstance(server, str | Path) and str(server).endswith(".json"):
        from ahvn_tools.mcp import settings as files

        return _configured(*files.read(Path(server)), settings)
    if isinstance(server, Mapping):
        return _configured(server, Path.cwd(), settings)
    if isinstance(server, Path):
        return [_script(server, settings)]
    if isinstance(server, str):
        path = Path(server)
        if path.suffix in _LAUNCHERS and path.is_file():
            return [_script(path, settings)]
        return [_process(_words(server), settings)]
    if isinstance(server, Sequence) and not isinstance(server, bytes | bytearray):
        return [_process([str(word) for word in server], settings)]
    from ahvn_tools.mcp import clients

    if (config := clients.configuration(server)) is not None:
        return _configured(config, Path.cwd(), settings)
    return [_object(server, settings)]


_LAUNCHERS = {".py": sys.executable, ".js": "node", ".mjs": "node"}


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise DefinitionError(f"{command!r} cannot be read as words: {error}.") from error


def _script(path: Path, settings: _Settings) -> Target:
    if path.suffix not in _LAUNCHERS:
        raise DefinitionError(f"{str(path)!r} is no server; give a .py, .js or .json file, or the words of a command.")
    if not path.is_file():
        raise DefinitionError(f"There is no file {str(path)!r}.")
    return _process([_LAUNCHERS[path.suffix], str(path.resolve())], settings)


def _process(words: Sequence[str], settings: _Settings, name: str | None = None) -> Target:
    if not words:
        raise DefinitionError("A server's command has no words; the first one is the program.")
    if settings.auth is not None or settings.headers:
        raise DefinitionError(f"{words[0]!r} is a command, which takes no auth or headers; use env={{…}}.")

    for variable, value in settings.env.items():
        if not isinstance(value, str):
            raise DefinitionError(f"`env` holds a {type(value).__name__} for {variable!r}; write it as a text.")

    def make(handlers: Handlers, _headers: Mapping[str, str], limits: Limits) -> Any:
        from ahvn_tools.mcp import clients

        return clients.process(words, handlers, limits, env=settings.env, cwd=settings.cwd, stderr=settings.stderr)

    return Target(name=name or _named(words), make=make, is_stdio=True)


_RUNNERS = frozenset({"python", "python3", "node", "npx", "bunx", "bun", "deno", "uv", "uvx", "pipx", "docker"})


def _named(words: Sequence[str]) -> str:
    """Return a name for a command: its program, or what a mere runner runs."""
    names = [Path(word).name for word in words]
    program = Path(names[0]).stem if names[0].endswith(".exe") else names[0]
    if program not in _RUNNERS and not program.startswith("python"):
        return Path(program).stem or program
    for word in names[1:]:
        if not word.startswith("-") and word not in {"run", "exec", "tool", "dlx", "x"}:
            return word.removesuffix(".py").removesuffix(".js").split("@")[0] or program
    return program


def _remote(url: str, settings: _Settings, name: str | None = None, kind: str | None = None) -> Target:
    _refuse_unsendable(url, settings.auth, settings.headers)
    is_sse = kind == "sse" or (kind is None and urlsplit(url).path.rstrip("/").endswith("/sse"))
    kept: list[Any] = []

    def make(handlers: Handlers, headers: Mapping[str, str], limits: Limits) -> Any:
        from ahvn_tools.mcp import clients

        if not kept:  # one login for all clients
            kept.append(clients.oauth(url) if settings.auth == "oauth" else settings.auth)
        merged = {name.lower(): value for name, value in {**settings.headers, **headers}.items()}
        return clients.http(url, handlers, limits, headers=merged, auth=_auth(kept[0], headers), is_sse=is_sse)

    return Target(name=name or _host(url), make=make, takes_headers=True)


def opened(value: Any) -> Any:
    """Return a value with pydantic's secret types opened, those in a mapping too."""
    if isinstance(value, Mapping):
        return {name: opened(item) for name, item in value.items()}
    return value.get_secret_value() if hasattr(value, "get_secret_value") else value


def is_header(name: object, value: object) -> bool:
    """Tell whether this can be sent as a header, with something in it."""
    is_name = isinstance(name, str) and re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name)
    is_value = isinstance(value, str) and value.isascii() and value.isprintable() and value == value.strip()
    return bool(is_name and is_value)


def _refuse_unsendable(url: str, auth: Any, headers: Mapping[str, str]) -> None:
    """Raise DefinitionError, without showing a value, for what is no credentials of a server."""
    if not (auth is None or isinstance(auth, str) or hasattr(auth, "auth_flow")):
        raise DefinitionError(f'`auth` is a token, headers, "oauth" or an httpx2.Auth, not a {type(auth).__name__}.')
    given = {**headers, "Authorization": auth} if isinstance(auth, str) else headers
    for name, value in given.items():
        if not is_header(name, value):
            raise DefinitionError(f"{name!r} for {_host(url)!r} holds what cannot be sent as a header.")


def _host(url: str) -> str:
    return urlsplit(url).hostname or url


def _auth(auth: Any, headers: Mapping[str, str]) -> Any:
    """Return what authenticates requests: a call's own credentials come before a token of the server's."""
    return None if any(name.lower() == "authorization" for name in headers) else auth


def _object(server: Any, settings: _Settings) -> Target:
    from ahvn_tools.mcp import clients

    if settings.auth is not None or settings.headers or settings.env:
        raise DefinitionError(f"A {type(server).__name__} takes no auth, headers or env; set them where it is made.")
    if clients.is_server(server):
        return Target(
            name=server.name, make=lambda handlers, _headers, limits: clients.memory(server, handlers, limits)
        )
    if clients.is_client(server):
        where = clients.place(server)
        return Target(
            name=server.name if where is None else _host(where) if isinstance(where, str) else _named(where),
            make=lambda handlers, headers, limits: clients.clone(server, handlers, limits, headers),
            is_stdio=clients.is_stdio(server),
            takes_headers=clients.is_http(server),
        )
    raise DefinitionError(
        f"A {type(server).__name__} is no MCP server; give a URL, a command, a path, an mcp.json or a FastMCP object."
    )


def _configured(config: Mapping[str, Any], folder: Path, settings: _Settings) -> list[Target]:
    from ahvn_tools.mcp import settings as files

    entries = files.entries(config, folder, env={**os.environ, **settings.env}, inputs=settings.inputs)
    return [_entry(name, entry, settings) for name, entry in entries.items()]


def _entry(name: str, entry: Any, settings: _Settings) -> Target:
    if entry.url is None:
        own = replace(settings, env={**entry.env, **settings.env}, cwd=entry.cwd)
        return _process(entry.command, own, name)
    own = replace(settings, headers={**entry.headers, **settings.headers}, auth=settings.auth or entry.auth)
    return _remote(entry.url, own, name, entry.kind)
