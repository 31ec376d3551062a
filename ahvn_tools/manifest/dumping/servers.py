"""The MCP servers of a toolkit as sources of a manifest, without their credentials."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from ahvn_tools.json_types import JsonObject
from ahvn_tools.manifest.dumping.middleware import to_items
from ahvn_tools.manifest.dumping.problems import Problems, UndumpableError
from ahvn_tools.manifest.dumping.tools import to_key
from ahvn_tools.manifest.dumping.variables import escape, reference
from ahvn_tools.mcp.client.targets import reveal_secrets
from ahvn_tools.mcp.trust.limits import Budgets, Limits
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.entry_options import options_of_tool, to_name_set
from ahvn_tools.toolkit.imported_server import ImportedServer
from ahvn_tools.toolkit.store import ToolStore

_DEFAULT_TIMEOUT: Final = 30

_NAMES: Final = frozenset({"allowed_callers", "audience", "binds", "exclude", "include", "tags"})
"""Options that are one name or several."""

_PLAIN: Final = (
    "arguments", "coerce_numbers_to_str", "describe", "exclusive", "group", "idle_timeout", "mode", "on_duplicate",
    "prefix", "prompts", "rename", "requires_approval", "resource_tool", "task", "tasks",
)  # fmt: skip

_FUNCTIONS: Final = ("elicitation", "on_change", "postprocess", "sampling")

_SECRET_WORDS: Final = ("auth", "key", "password", "secret", "signature", "token")


def to_sources(servers: Iterable[ImportedServer], folder: Path, problems: Problems) -> dict[int, JsonObject]:
    """Return the sources of these servers, one for each call of `add_mcp`, by the id of what it added."""
    by_call: dict[int, list[ImportedServer]] = {}
    for imported in servers:
        by_call.setdefault(id(imported.added), []).append(imported)
    sources = {}
    for call, same_call in by_call.items():
        with problems.of(f"the MCP server {same_call[0].server.name!r}"):
            sources[call] = _to_source(same_call, folder)
    return sources


def _to_source(servers: Sequence[ImportedServer], folder: Path) -> JsonObject:
    first = servers[0]
    if not first.is_owned:
        raise UndumpableError("it was connected by `mcp.connect`: pass its URL or its command to add_mcp")
    source: JsonObject = {"server": _to_target(first.added.server, folder)}
    if first.added.name is not None:
        source["name"] = first.added.name
    if first.timeout != _DEFAULT_TIMEOUT:
        source["timeout"] = first.timeout
    return {**source, **_to_options(first.options, folder), **_to_removed(servers)}


def _to_removed(servers: Sequence[ImportedServer]) -> JsonObject:
    """Return `exclude` with the tools that were removed from the toolkit, too."""
    store, options = servers[0].store, servers[0].options
    excluded = options.get("exclude", ())
    removed = sorted(
        name
        for imported in servers
        for name, entry in imported.entries.items()
        if entry.refusal is None and store.entries.get(entry.name) is not entry
    )
    patterns = [*([excluded] if isinstance(excluded, str) else excluded), *removed]
    return {"exclude": patterns} if patterns else {}


def _to_target(server: Any, folder: Path) -> Any:
    """Return where a server is, as a manifest says it. Raises UndumpableError for an object and for credentials."""
    if isinstance(server, Path):
        path = server.resolve()
        return str(path.relative_to(folder) if path.is_relative_to(folder) else path)
    if isinstance(server, str):
        _refuse_credentials(server)
        return escape(server)
    if isinstance(server, Mapping):
        return {name: _to_entry(name, value) for name, value in server.items()}
    if isinstance(server, Sequence):
        return [escape(str(word)) for word in server]
    raise UndumpableError(f"a {type(server).__name__} is in this process only: pass its URL or its command to add_mcp")


def _refuse_credentials(url: str) -> None:
    if not url.lower().startswith(("http://", "https://")):
        return
    parts = urlsplit(url)
    names = [name for name, _ in parse_qsl(parts.query) if any(word in name.lower() for word in _SECRET_WORDS)]
    if names or "@" in parts.netloc:
        raise UndumpableError("its URL contains credentials: pass them as auth=…, from the environment")


def _to_entry(key: str, value: Any) -> Any:
    """Return a part of the data of an mcp.json. Its own variables stay, and credentials become variables."""
    if key in {"env", "headers"} and isinstance(value, Mapping):
        return _to_secrets(value)
    if isinstance(value, Mapping):
        return {name: _to_entry(name, item) for name, item in value.items()}
    if isinstance(value, list):
        return [_to_entry("", item) for item in value]
    if key == "auth" and value != "oauth":
        return _to_secret("auth", value)
    if isinstance(value, str):
        _refuse_credentials(value)
        return escape(value)
    return value


def _to_options(options: Mapping[str, Any], folder: Path) -> JsonObject:
    found: JsonObject = {}
    for name, value in options.items():
        if name in _FUNCTIONS and value is not None:
            raise UndumpableError(f"its `{name}` is a function, which a manifest cannot hold: add it in code")
        if name in _NAMES and name != "exclude":
            found[name] = [value] if isinstance(value, str) else sorted(value) if name == "tags" else list(value)
        elif name in _PLAIN:
            found[name] = value
    if callable(found.get("requires_approval")) or callable(found.get("exclusive")):
        raise UndumpableError("a manifest cannot hold a function: write True for `requires_approval` and `exclusive`")
    if options.get("middleware"):
        found["middleware"] = to_items(options["middleware"], folder)
    if options.get("preset"):
        found["presets"] = {tool: dict(values) for tool, values in options["preset"].items()}
    return {**escape(found), **_to_connection(options, folder)}


def _to_connection(options: Mapping[str, Any], folder: Path) -> JsonObject:
    found: JsonObject = {}
    if (auth := reveal_secrets(options.get("auth"))) is not None and auth != {}:
        found["auth"] = _to_auth(auth)
    for name in ("env", "inputs"):
        if options.get(name):
            found[name] = _to_secrets(reveal_secrets(options[name]))
    for name in ("pin", "stderr"):
        if options.get(name) is not None:
            path = Path(options[name]).absolute()
            found[name] = str(path.relative_to(folder) if path.is_relative_to(folder) else path)
    if (idempotent := options.get("idempotent")) is not None:
        found["idempotent"] = idempotent if isinstance(idempotent, bool | str) else list(idempotent)
    for name, default in (("limits", Limits()), ("budgets", Budgets())):
        if options.get(name) is not None:
            fields = dataclasses.asdict(options[name]).items()
            found[name] = {key: value for key, value in fields if value != getattr(default, key)}
    return found


def _to_auth(auth: Any) -> Any:
    if isinstance(auth, Mapping):
        return _to_secrets(auth)
    if auth == "oauth":
        return auth
    if not isinstance(auth, str):
        raise UndumpableError('its `auth` is an object: pass a token from the environment, or "oauth"')
    return _to_secret("auth", auth)


def _to_secrets(values: Mapping[str, Any]) -> JsonObject:
    return {name: _to_secret(name, value) for name, value in values.items()}


def _to_secret(name: str, value: Any) -> str:
    """Return the reference to the environment variable with this value. Raises UndumpableError without the value."""
    if isinstance(value, str) and "${" in value:
        return str(escape(value))  # a variable of the mcp.json
    if isinstance(value, str) and (found := reference(name, value, os.environ)) is not None:
        return found
    raise UndumpableError(f"{name!r} is a credential: set it in an environment variable, and pass os.environ[…]")


def changed_options(entry: Entry, store: ToolStore) -> JsonObject:
    """Return the options of a server's tool that were changed since it was added. Raises UndumpableError."""
    imported: ImportedServer = store.imported_servers[str(entry.server_name)]
    added = options_of_tool(imported.options.get("tools", {}), entry.name, ())
    options: JsonObject = {}
    tags = {
        *entry.spec.tags,
        *to_name_set("tags of a server", imported.options.get("tags", ())),
        *added.get("tags", ()),
    }
    if entry.has_changed_tags and (lost := sorted(tags - entry.tags)):
        raise UndumpableError(f"its tag {lost[0]!r} was removed here: leave it out where the server is added")
    if new := sorted(entry.tags - tags):
        options["tags"] = new
    if entry.own_bindings:
        options["binds"] = {name: to_key(binding) for name, binding in entry.own_bindings.items()}
    return options
