"""The clients whose configuration is known, each after its own documentation."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ahvn_tools.cli.clients.config_file import Syntax
from ahvn_tools.cli.errors import UsageError
from ahvn_tools.json_types import JsonObject

Scope = Literal["project", "user"]
"""`"project"`: for the current folder. `"user"`: for all projects of the user."""

ClientName = Literal[
    "claude-code", "claude-desktop", "codex", "cursor", "gemini-cli", "goose", "vscode", "windsurf", "zed"
]

_REFERENCE: Final = re.compile(r"\$[{A-Za-z_]")
"""What a client with references may replace: `${NAME}`, `${env:NAME}`, `${command:…}`, and `$NAME` of Gemini CLI."""


@dataclass(frozen=True, kw_only=True)
class ServerEntry:
    """How a client starts a server."""

    name: str
    command: str
    arguments: list[str]
    env: dict[str, str]
    """Variables with their values."""
    passed: list[str]
    """Names of variables whose values the client takes from its own environment."""
    env_file: str | None = None


@dataclass(frozen=True, kw_only=True)
class Client:
    """A program that starts MCP servers, and its configuration file."""

    title: str
    page: str
    """Its documentation, from which the facts are."""
    syntax: Syntax
    section: str
    """The key of the object that has the servers by name."""
    user_file: Callable[[], Path]
    project_file: str | None = None
    """The path in the folder of a project; None: it has no configuration of projects."""
    to_entry: Callable[[ServerEntry], JsonObject]
    reference: str | None = None
    """How a value names a variable of the client's environment: `${env:NAME}`; None: it cannot, or in another way."""
    passes_variables: bool = False
    """Whether an entry can name variables that the client passes on."""
    has_env_file: bool = False
    """Whether an entry can name a file with variables."""

    def replaces(self, text: str) -> bool:
        """Return whether the client may replace a part of a text by something else, such as a variable of its own."""
        return self.reference is not None and _REFERENCE.search(text) is not None

    def get_file(self, scope: Scope | None) -> Path:
        """Return the file of a scope: by default that of the user. Raises UsageError for a scope that it lacks."""
        if scope != "project":
            return self.user_file()
        if self.project_file is None:
            raise UsageError(f"{self.title} has no configuration of projects: use --scope user.")
        return Path.cwd() / self.project_file


def _home(*parts: str) -> Callable[[], Path]:
    return lambda: Path.home().joinpath(*parts)


def _config_folder() -> Path:
    """Return the folder in which programs have their folders with configuration."""
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def _unix_config_folder() -> Path:
    """Return the folder of programs that use `~/.config` on macOS, too."""
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def _zed_file() -> Path:
    return _unix_config_folder() / ("Zed" if sys.platform == "win32" else "zed") / "settings.json"


def _goose_file() -> Path:
    if sys.platform == "win32":
        return _unix_config_folder() / "Block" / "goose" / "config" / "config.yaml"
    return _unix_config_folder() / "goose" / "config.yaml"


def _codex_file() -> Path:
    return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "config.toml"


def _to_plain_entry(server: ServerEntry) -> JsonObject:
    entry: JsonObject = {"command": server.command, "args": server.arguments}
    if server.env:
        entry["env"] = server.env
    if server.env_file is not None:
        entry["envFile"] = server.env_file
    return entry


def _to_typed_entry(server: ServerEntry) -> JsonObject:
    return {"type": "stdio", **_to_plain_entry(server)}


def _to_codex_entry(server: ServerEntry) -> JsonObject:
    entry = _to_plain_entry(server)
    env = {"env": entry.pop("env")} if "env" in entry else {}
    return {**entry, **({"env_vars": server.passed} if server.passed else {}), **env}


def _to_goose_entry(server: ServerEntry) -> JsonObject:
    entry: JsonObject = {"name": server.name, "type": "stdio", "enabled": True, "cmd": server.command}
    return {**entry, "args": server.arguments, "envs": server.env, "timeout": 300}


def _to_zed_entry(server: ServerEntry) -> JsonObject:
    return {"source": "custom", **_to_plain_entry(server), "env": server.env}


_SERVERS: Final[dict[str, Any]] = {"syntax": "json", "section": "mcpServers", "to_entry": _to_plain_entry}

CLIENTS: Final[dict[str, Client]] = {
    "claude-code": Client(
        **{**_SERVERS, "to_entry": _to_typed_entry},
        title="Claude Code",
        page="https://code.claude.com/docs/en/mcp",
        user_file=_home(".claude.json"),
        project_file=".mcp.json",
        reference="${NAME}",
    ),
    "claude-desktop": Client(
        **_SERVERS,
        title="Claude Desktop",
        page="https://modelcontextprotocol.io/docs/develop/connect-local-servers",
        user_file=lambda: _config_folder() / "Claude" / "claude_desktop_config.json",
    ),
    "codex": Client(
        title="Codex",
        page="https://developers.openai.com/codex/mcp",
        syntax="toml",
        section="mcp_servers",
        user_file=_codex_file,
        project_file=".codex/config.toml",
        to_entry=_to_codex_entry,
        passes_variables=True,
    ),
    "cursor": Client(
        **{**_SERVERS, "to_entry": _to_typed_entry},
        title="Cursor",
        page="https://cursor.com/docs/mcp",
        user_file=_home(".cursor", "mcp.json"),
        project_file=".cursor/mcp.json",
        reference="${env:NAME}",
    ),
    "gemini-cli": Client(
        **{**_SERVERS, "syntax": "jsonc"},
        title="Gemini CLI",
        page="https://geminicli.com/docs/get-started/configuration",
        user_file=_home(".gemini", "settings.json"),
        project_file=".gemini/settings.json",
        reference="${NAME}",
    ),
    "goose": Client(
        title="goose",
        page="https://block.github.io/goose/docs/guides/config-files",
        syntax="yaml",
        section="extensions",
        user_file=_goose_file,
        to_entry=_to_goose_entry,
    ),
    "vscode": Client(
        title="VS Code",
        page="https://code.visualstudio.com/docs/copilot/reference/mcp-configuration",
        syntax="jsonc",
        section="servers",
        user_file=lambda: _config_folder() / "Code" / "User" / "mcp.json",
        project_file=".vscode/mcp.json",
        to_entry=_to_typed_entry,
        reference="${env:NAME}",
        has_env_file=True,
    ),
    "windsurf": Client(
        **_SERVERS,
        title="Windsurf",
        page="https://docs.windsurf.com/windsurf/cascade/mcp",
        user_file=_home(".codeium", "windsurf", "mcp_config.json"),
        reference="${env:NAME}",
    ),
    "zed": Client(
        title="Zed",
        page="https://zed.dev/docs/ai/mcp",
        syntax="jsonc",
        section="context_servers",
        user_file=_zed_file,
        project_file=".zed/settings.json",
        to_entry=_to_zed_entry,
    ),
}
"""The clients by name: those of `ClientName`."""
