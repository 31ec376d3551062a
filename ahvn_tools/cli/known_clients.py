"""MCP clients: where their configurations are, and how each starts a server."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ahvn_tools.cli.arguments import read_text
from ahvn_tools.cli.config_file import Syntax
from ahvn_tools.cli.output import UsageError
from ahvn_tools.cli.sources import LoadingOptions
from ahvn_tools.json_types import JsonObject
from ahvn_tools.roots import without_dots

Scope = Literal["project", "user"]
"""`"project"`: for the current folder. `"user"`: for all projects of the user."""

ClientName = Literal[
    "claude-code", "claude-desktop", "codex", "cursor", "gemini-cli", "goose", "vscode", "windsurf", "zed"
]

_REFERENCE: Final = re.compile(r"\$[{A-Za-z_]")
"""What a client with references may replace: `${NAME}`, `${env:NAME}`, `${command:…}`, and `$NAME` of Gemini CLI."""


@dataclass(frozen=True, kw_only=True)
class ClientEntry:
    """How a client starts a server."""

    name: str = ""
    command: str
    arguments: list[str]
    env: dict[str, str]
    """Variables with their values."""
    passed: Sequence[str] = ()
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
    to_entry: Callable[[ClientEntry], JsonObject]
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
    return Path.home() / "Library" / "Application Support" if sys.platform == "darwin" else _unix_config_folder()


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


def _to_plain_entry(server: ClientEntry) -> JsonObject:
    entry: JsonObject = {"command": server.command, "args": server.arguments}
    if server.env:
        entry["env"] = server.env
    if server.env_file is not None:
        entry["envFile"] = server.env_file
    return entry


def _to_typed_entry(server: ClientEntry) -> JsonObject:
    return {"type": "stdio", **_to_plain_entry(server)}


def _to_codex_entry(server: ClientEntry) -> JsonObject:
    entry = _to_plain_entry(server)
    env = {"env": entry.pop("env")} if "env" in entry else {}
    return {**entry, **({"env_vars": [*server.passed]} if server.passed else {}), **env}


def _to_goose_entry(server: ClientEntry) -> JsonObject:
    entry: JsonObject = {"name": server.name, "type": "stdio", "enabled": True, "cmd": server.command}
    return {**entry, "args": server.arguments, "envs": server.env, "timeout": 300}


def _to_zed_entry(server: ClientEntry) -> JsonObject:
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


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, kw_only=True)
class Variables:
    """What an entry says about the environment of its server."""

    values: dict[str, str]
    """By name; a value may refer to a variable of the client."""
    passed: list[str]
    """The names of variables that the client passes on."""
    file: str | None
    """A file with more variables, which the client reads."""
    known: dict[str, str]
    """The values that are known now, to load the sources with."""


def read_variables(client: Client, items: Sequence[str], env_file: Path | None) -> Variables:
    """Return what `--env` and `--env-file` say. Raises UsageError for what the client cannot do."""
    file = None if env_file is None else env_file.expanduser()
    if file is not None and not file.is_file():
        raise UsageError(f"There is no file {str(env_file)!r}.")
    is_read = file is not None and client.has_env_file
    known = {} if file is None else _read_file(file)
    copied = {} if is_read else dict(known)
    values, passed = dict(copied), []
    for item in items:
        name, separator, value = item.partition("=")
        if not _NAME.fullmatch(name):
            raise UsageError(f"--env {name!r} is no name of a variable: write NAME=VALUE, or NAME.")
        if separator:
            known[name] = values[name] = value
        elif client.reference is not None:
            values[name] = client.reference.replace("NAME", name)
        elif client.passes_variables:
            passed.append(name)
        else:
            raise UsageError(f"{client.title} does not pass on variables of its own: write --env {name}=VALUE.")
    for name, value in copied.items():
        if values[name] == value and client.replaces(value):
            raise UsageError(
                f"The value of {name!r} in {str(env_file)!r} has a '$' that {client.title} reads as a reference to a "
                f"variable of its own. Use --env {name}, and set the variable for {client.title}."
            )
    path = str(file.resolve()) if file is not None and is_read else None
    return Variables(values=values, passed=passed, file=path, known=known)


def _read_file(file: Path) -> dict[str, str]:
    """Return the variables in a file. Raises UsageError, without any part of their values."""
    from dotenv import dotenv_values

    text = read_text(file, f"The file {str(file)!r}")
    values = {name: value or "" for name, value in dotenv_values(stream=io.StringIO(text), interpolate=False).items()}
    for name, value in values.items():
        if not _NAME.fullmatch(name) or "\0" in value:
            raise UsageError(f"The file {str(file)!r} has no variable of an environment: {name!r}. Correct that line.")
    return values


_PREFIXES = ("openapi:", "mcp:")
_OPTIONS = ("profile", "audience", "trust", "root", "group", "tag", "include", "exclude")


def build_command(
    sources: Sequence[str],
    options: LoadingOptions,
    *,
    python: str | None = None,
    uvx: bool = False,
    packages: Sequence[str] = (),
) -> ClientEntry:
    """Return an unnamed entry that serves sources: with this interpreter, `python`, or `uvx` and these packages.

    Paths are absolute. Raises UsageError for a source that is code.
    """
    arguments = ["serve", *(to_absolute(source) for source in sources), *_to_arguments(options)]
    env = {"PYTHONPATH": str(Path.cwd())} if any(map(_is_module_here, sources)) else {}
    if uvx:
        extra = [part for package in packages for part in ("--with", package)]
        return ClientEntry(command="uvx", arguments=["--from", "ahvn-tools", *extra, "ahvn-tools", *arguments], env=env)
    if packages:
        raise UsageError("--with is for --uvx: another interpreter has its packages installed.")
    # -P: the client may start it in a repository of others, whose files must not take the place of modules
    program = str(without_dots(sys.executable)) if python is None else _find_program(python)
    return ClientEntry(command=program, arguments=["-P", "-m", "ahvn_tools", *arguments], env=env)


def to_absolute(source: str) -> str:
    """Return a source that means the same in any folder. Raises UsageError for code."""
    if "\n" in source:
        raise UsageError("Code cannot be installed: write it to a file.")
    for prefix in _PREFIXES:
        if source.startswith(prefix):
            return prefix + to_absolute(source.removeprefix(prefix))
    if source == "builtins":
        return source
    file, colon, name = source.rpartition(":")
    if Path(source).expanduser().exists():
        return _resolve(source)
    return f"{_resolve(file)}:{name}" if colon and file and Path(file).expanduser().exists() else source


def _resolve(path: str) -> str:
    return str(without_dots(Path(path).expanduser()))


def _is_module_here(source: str) -> bool:
    """Return whether a source is a module that is imported from the current folder."""
    first = source.partition(":")[0].partition(".")[0]
    is_file = to_absolute(source) != source or not first.isidentifier()
    return not is_file and (Path(first).is_dir() or Path(f"{first}.py").is_file())


def _find_program(program: str) -> str:
    """Return the absolute path of an interpreter. Raises UsageError if there is none, or if it lacks this package."""
    found = shutil.which(program)
    if found is None:
        raise UsageError(f"There is no program {program!r}.")
    check = [found, "-c", "import ahvn_tools"]
    if subprocess.run(check, capture_output=True, check=False, stdin=subprocess.DEVNULL).returncode:  # noqa: S603  # the program that the user names
        raise UsageError(f"{program!r} cannot import ahvn_tools: install ahvn-tools for it, or use --uvx.")
    return str(without_dots(found))


def _to_arguments(options: LoadingOptions) -> list[str]:
    arguments = []
    for name in _OPTIONS:
        value = getattr(options, name)
        for item in [value] if isinstance(value, str) else value or ():
            arguments += [f"--{name}", _LASTING.get(name, str)(item)]
    return arguments


def _to_lasting_trust(pattern: str) -> str:
    """Return a pattern of trust that means the same in any folder, and in which a client replaces nothing."""
    from ahvn_tools.trust import is_path  # as above: not for completion

    if pattern.startswith("${") and pattern.endswith("}"):
        return f"env:{pattern[2:-1]}"
    return pattern if "://" in pattern or not is_path(pattern) else _resolve(pattern)


_LASTING = {"trust": _to_lasting_trust, "root": _resolve}
"""The options with paths, and what makes them absolute."""
