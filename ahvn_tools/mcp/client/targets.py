"""Targets: where a server is (URL, command, script, mcp.json, server object, client) and how to make its clients."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ahvn_tools.command_words import split_command
from ahvn_tools.errors import DefinitionError
from ahvn_tools.formats.json_data import replace_surrogates
from ahvn_tools.mcp.client.client_settings import ClientSettings
from ahvn_tools.mcp.client.mcp_config import (
    CONFIG_PATH,
    ServerEntry,
    find_servers,
    parse_entries,
    read_config,
    select_servers,
)
from ahvn_tools.redaction.names import is_secret_name
from ahvn_tools.redaction.texts import SecretTexts
from ahvn_tools.redaction.values import contains_secret, reveal_secrets

_INTERPRETERS = {".py": sys.executable, ".js": "node", ".mjs": "node"}
_RUNNERS = frozenset({"python", "python3", "node", "npx", "bunx", "bun", "deno", "uv", "uvx", "pipx", "docker"})


@dataclass(frozen=True, kw_only=True)
class Target:
    """One server, and how to make a client of it."""

    name: str
    make_client: Callable[[ClientSettings], Any] = field(repr=False)
    """Returns a new FastMCP client that is not connected and shares no transport."""
    takes_headers: bool = False
    """Whether the server is reached over HTTP, so that headers can be sent."""
    problem: str | None = None
    """Why there is no client, as of an entry whose variables are not set."""
    secrets: SecretTexts = field(default_factory=SecretTexts, repr=False)
    """The credentials of every connection to the server."""


def resolve_targets(
    server: Any,
    *,
    name: str | None = None,
    auth: Any = None,
    env: Mapping[str, str] | None = None,
    inputs: Mapping[str, str] | None = None,
    stderr: str | os.PathLike[str] | None = None,
) -> list[Target]:
    """Return the servers that `server` names: usually one, for an mcp.json all that are not disabled.

    `server` is a URL, a command as a string or as a list of words, a path of a script (.py, .js) or of an mcp.json,
    also with names of its servers (`mcp.json:a,b`), its content or one entry of it, its entries as `parse_entries`
    returns them, a FastMCP server object, a FastMCP client, or a FastMCP
    transport. The options are those of `ConnectOptions`; `auth` is no function here. Raises DefinitionError.
    """
    values = (*(env or {}).values(), *(inputs or {}).values())
    marked = [reveal_secrets(value) for value in values if contains_secret(value)]
    auth = reveal_secrets(auth) if contains_secret(auth) else auth
    env, inputs = reveal_secrets(env or {}), reveal_secrets(inputs or {})
    if auth == {}:
        auth = None
    targets = []
    sources = _find_sources(server, env, inputs)
    has_urls = any(isinstance(source, ServerEntry) and source.url is not None for source in sources.values())
    for default_name, source in sources.items():
        if isinstance(source, ServerEntry):
            own_auth = None if has_urls and source.url is None else auth  # that of a file is for its URLs
            target = _entry_target(default_name, source, own_auth, env, stderr)
            targets.append(replace(target, secrets=_find_secrets(source, own_auth, env, marked)))
        else:
            targets.append(_object_target(source, has_options=auth is not None or bool(env)))
    if name is not None and len(targets) != 1:
        names = [target.name for target in targets]
        raise DefinitionError(f"name={name!r} is for one server; there are {len(targets)}: {names}.")
    if name is not None:
        targets = [replace(targets[0], name=name)]
    for target in targets:
        if replace_surrogates(target.name) != target.name:
            raise DefinitionError(f"The name {target.name!r} of a server has half of a surrogate pair: choose another.")
    return targets


def _find_secrets(entry: ServerEntry, auth: Any, env: Mapping[str, str], marked: Sequence[str]) -> SecretTexts:
    """Return the credentials of a connection; `marked` are those of pydantic's secret types."""
    secrets = SecretTexts()
    secrets.add(*marked, *(item for item in (auth, entry.auth) if isinstance(item, str) and item != "oauth"))
    for name, value in (auth if isinstance(auth, Mapping) else {}).items():
        secrets.add_header(name, value)
    for name, value in entry.headers.items():
        secrets.add_header(name, value, only_in_errors=not is_secret_name(name))
    secrets.add_variables({**entry.variables, **entry.env, **env})
    secrets.add_command(entry.command)
    secrets.add_url(entry.url or "")
    return secrets


def _find_sources(server: Any, env: Mapping[str, str], inputs: Mapping[str, str]) -> dict[str, Any]:
    """Return a ServerEntry, or the server or client object, by the name of the server; "" where it has none."""
    config, folder = server, Path.cwd()
    if isinstance(server, str) and server.lower().startswith(("http://", "https://")):
        return {"": ServerEntry(url=server)}
    if isinstance(server, str | Path):
        match = CONFIG_PATH.fullmatch(str(server))
        if match is None or (match["names"] is not None and not Path(match["file"]).is_file()):
            return {"": ServerEntry(command=_to_command(server))}
        config, folder = read_config(Path(match["file"]))
        if match["names"] is not None:
            config = select_servers(find_servers(config), match["names"], match["file"])
    elif isinstance(server, Sequence) and not isinstance(server, bytes | bytearray):
        return {"": ServerEntry(command=tuple(map(str, server)))}
    elif isinstance(server, Mapping) and server and all(isinstance(entry, ServerEntry) for entry in server.values()):
        return dict(server)
    elif not isinstance(server, Mapping):
        from ahvn_tools.mcp.client import fastmcp_clients

        if isinstance(source := fastmcp_clients.read_transport(server), ServerEntry):
            return {"": source}
        config = source if isinstance(source, Mapping) else fastmcp_clients.get_client_config(server)
        if config is None:
            return {"": server if source is None else source}
    return dict(parse_entries(config, folder, env={**os.environ, **env}, inputs=inputs))


def _to_command(server: str | Path) -> tuple[str, ...]:
    """Return the words that start a script or are a command line."""
    path = Path(server)
    if isinstance(server, str) and not (path.suffix in _INTERPRETERS and path.is_file()):
        try:
            return tuple(split_command(server))
        except ValueError as error:
            raise DefinitionError(f"{server!r} cannot be split into words: {error}.") from error
    if path.suffix not in _INTERPRETERS:
        raise DefinitionError(f"{str(path)!r} is not a server; pass a .py, .js or .json file, or a command.")
    if not path.is_file():
        raise DefinitionError(f"There is no file {str(path)!r}.")
    return (_INTERPRETERS[path.suffix], str(path.resolve()))


def _entry_target(
    name: str, entry: ServerEntry, auth: Any, env: Mapping[str, str], stderr: str | os.PathLike[str] | None
) -> Target:
    """Return the target of an entry. `auth` and `env` have priority over the entry's own."""
    if entry.problem is not None:
        return Target(name=name, make_client=functools.partial(_refuse_client, entry.problem), problem=entry.problem)
    if entry.url is not None:
        headers, token = (auth, None) if isinstance(auth, Mapping) else ({}, auth)
        own = replace(entry, headers={**entry.headers, **headers}, auth=token or entry.auth)
        return _url_target(entry.url, own, name)
    if not entry.command:
        raise DefinitionError("A server's command has no words; the first one is the program.")
    if auth is not None:
        raise DefinitionError("A command takes no auth or headers; use env={…}.")
    return _command_target(replace(entry, env={**entry.env, **env}), name, stderr)


def _refuse_client(problem: str, _settings: ClientSettings) -> Any:
    raise DefinitionError(problem)


def _command_target(entry: ServerEntry, name: str, stderr: str | os.PathLike[str] | None) -> Target:
    for variable, value in entry.env.items():
        if not isinstance(value, str):
            raise DefinitionError(f"`env` has a {type(value).__name__} for {variable!r}; write it as a string.")
    log_file = entry.log_file if stderr is None else Path(stderr)

    def make_client(settings: ClientSettings) -> Any:
        from ahvn_tools.mcp.client import fastmcp_clients

        transport = fastmcp_clients.make_stdio_transport(
            entry.command, settings, env=entry.env, cwd=entry.cwd, log_file=log_file
        )
        return fastmcp_clients.make_client(transport, settings)

    return Target(name=name or _command_name(entry.command), make_client=make_client)


def _command_name(words: Sequence[str]) -> str:
    """Return a name for a command: its program, or what a runner such as `npx` runs."""
    names = [Path(word).name for word in words]
    program = Path(names[0]).stem if names[0].endswith(".exe") else names[0]
    if program not in _RUNNERS and not program.startswith("python"):
        return Path(program).stem or program
    for word in names[1:]:
        if not word.startswith("-") and word not in {"run", "exec", "tool", "dlx", "x"}:
            return word.removesuffix(".py").removesuffix(".js").split("@")[0] or program
    return program


def _url_target(url: str, entry: ServerEntry, name: str) -> Target:
    scheme, mark, rest = url.partition("://")
    url = f"{scheme.lower()}{mark}{rest}"  # FastMCP 4 knows no other
    _check_credentials(entry.auth, entry.headers)
    verify = entry.verify
    is_sse = entry.transport == "sse" or (entry.transport is None and urlsplit(url).path.rstrip("/").endswith("/sse"))

    @functools.cache  # one login for all clients
    def get_auth() -> Any:
        from fastmcp.client.auth import OAuth

        return OAuth(url) if entry.auth == "oauth" else entry.auth

    def make_client(settings: ClientSettings) -> Any:
        from ahvn_tools.mcp.client import fastmcp_clients

        merged = {name.lower(): value for name, value in {**entry.headers, **settings.headers}.items()}
        has_own_auth = "authorization" in map(str.lower, settings.headers)  # a call's credentials have priority
        auth = None if has_own_auth else get_auth()
        return fastmcp_clients.make_http_client(url, settings, headers=merged, auth=auth, is_sse=is_sse, verify=verify)

    return Target(name=name or _host(url), make_client=make_client, takes_headers=True)


def is_valid_header(name: object, value: object) -> bool:
    """Return whether this can be sent as a header."""
    is_name = isinstance(name, str) and re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name)
    is_value = isinstance(value, str) and value.isascii() and value.isprintable() and value == value.strip()
    return bool(is_name and is_value)


def _check_credentials(auth: Any, headers: Mapping[str, str]) -> None:
    """Raise DefinitionError, without quoting a value, for invalid credentials."""
    if not (auth is None or isinstance(auth, str) or hasattr(auth, "auth_flow")):
        raise DefinitionError(f'`auth` is a token, headers, "oauth" or an httpx2.Auth, not a {type(auth).__name__}.')
    for name, value in {**headers, "Authorization": auth}.items() if isinstance(auth, str) else headers.items():
        if not is_valid_header(name, value) or name.lower() == "host":  # it would be another server's
            raise DefinitionError(f"{name!r} cannot be sent as a header.")


def _host(url: str) -> str:
    return urlsplit(url).hostname or "server"


def _object_target(server: Any, *, has_options: bool) -> Target:
    from fastmcp import Client, FastMCP
    from fastmcp.client.transports import FastMCPTransport
    from mcp.server.mcpserver import MCPServer

    from ahvn_tools.mcp.client.fastmcp_clients import clone, get_location, make_client

    if has_options:
        raise DefinitionError(f"A {type(server).__name__} takes no auth, headers or env; set them where it is created.")
    if isinstance(server, FastMCP | MCPServer):
        return Target(name=server.name, make_client=lambda settings: make_client(FastMCPTransport(server), settings))
    if not isinstance(server, Client):
        raise DefinitionError(
            f"A {type(server).__name__} is not an MCP server; pass a URL, a command, a path, an mcp.json or a FastMCP "
            "server, client or transport."
        )
    location = get_location(server)
    name = server.name
    if name.startswith("Client-") and location is not None:  # FastMCP made that name up
        name = _host(location) if isinstance(location, str) else _command_name(location)
    return Target(
        name=name,
        make_client=functools.partial(clone, server),
        takes_headers=isinstance(location, str),
    )
