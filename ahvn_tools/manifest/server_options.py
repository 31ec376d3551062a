"""The options of an MCP server in a manifest, as `Toolkit.add_mcp` takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ahvn_tools.errors import ToolSpecError, near_misses
from ahvn_tools.loading import reader
from ahvn_tools.loading.contents import Contents, ServerSource
from ahvn_tools.manifest import source_model
from ahvn_tools.manifest.build import Build
from ahvn_tools.mcp.client.mcp_config import ServerEntry
from ahvn_tools.mcp.trust.limits import Budgets, Limits

_CREDENTIALS = ("auth", "env")


def to_server_source(build: Build, index: int, source: source_model.ServerSource) -> Contents:
    """Return the servers of a source, with the options of their connections. Raises SourceError."""
    contents = reader.read(
        "server", _to_target(source, build, index), replace(build.read_options, inputs=source.inputs)
    )
    options: dict[str, Any] = source.fields_set(
        "timeout", "idempotent", "tasks", "binds", "mode", "idle_timeout", "resource_tool", "prompts", *_CREDENTIALS
    )
    for key in ("stderr", "pin"):
        if (file := getattr(source, key)) is not None:
            options[key] = build.read_options.to_output(file)
    for variable in source.env:
        build.read_options.trust.require_variable(variable)
    for key, kind in (("limits", Limits), ("budgets", Budgets)):
        if values := getattr(source, key):
            with build.at("sources", index, key):
                options[key] = _to_limits(kind, values)
    is_file = isinstance(source.server, str) and source.server.endswith(".json")
    is_secret = (
        isinstance(source.server, str) and not is_file and build.resolved.contains_secret(("sources", index, "server"))
    )
    servers = tuple(
        ServerSource(
            server=in_folder(server.server, build.document.folder),
            name=source.name or (server.name if not is_secret else f"server_{index + 1}"),
            options={**server.options, **options},
        )
        for server in contents.servers
    )
    return Contents(name=contents.name, servers=servers, errors=contents.errors)


def _to_target(source: source_model.ServerSource, build: Build, index: int) -> Any:
    """Return what the reader of servers takes; one entry of an mcp.json becomes one with a name.

    A name is shown, so it is not made from a text with a variable.
    """
    server = source.server
    if isinstance(server, list):
        server = {"command": server[0], "args": server[1:]} if server else {}
    if isinstance(server, Mapping) and ("command" in server or "url" in server):
        is_secret = build.resolved.contains_secret(("sources", index, "server"))
        default = f"server_{index + 1}" if is_secret else _entry_name(server)
        return {"mcpServers": {source.name or default: server}}
    return server


def _entry_name(entry: Mapping[str, Any]) -> str:
    command, url = entry.get("command"), entry.get("url")
    host = urlsplit(url).hostname if isinstance(url, str) else None
    return Path(command).stem if isinstance(command, str) and command else host or "server"


def in_folder(server: Any, folder: Path) -> Any:
    """Return the server of a command, which starts in a folder; other servers unchanged."""
    return {"": ServerEntry(command=tuple(server), cwd=str(folder))} if isinstance(server, list) else server


def _to_limits(kind: type[Any], values: Mapping[str, float]) -> Any:
    known = {field.name: field for field in fields(kind)}
    for name in values:
        if name not in known:
            raise ToolSpecError(f"there is no limit {name!r}. {near_misses(name, known)}")
    return kind(**{name: int(value) if known[name].type == "int" else value for name, value in values.items()})
