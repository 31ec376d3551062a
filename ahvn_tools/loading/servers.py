"""MCP servers as a source: a URL, a command, a script, an mcp.json or some of its servers."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from ahvn_tools.command_words import split_command
from ahvn_tools.errors import DefinitionError, SourceError
from ahvn_tools.loading.contents import Contents, ServerSource
from ahvn_tools.loading.read_options import ReadOptions, exists
from ahvn_tools.trust import require_all

_INTERPRETERS: Final = {".py": sys.executable, ".js": "node", ".mjs": "node"}


def read(location: Any, options: ReadOptions) -> Contents:
    """Return the servers at a location, which are connected when they are added to a toolkit. Raises SourceError.

    `location` is a URL, a command, the path of a script, `FILE.json` or `FILE.json:NAME,NAME`, or the content of an
    mcp.json.
    """
    if isinstance(location, Mapping):
        return _read_config(location, options.folder, "The mcp.json", None, options, started_in=options.folder)
    if re.match(r"https?://", location, re.IGNORECASE):
        options.trust.require_server(location)
        return _contents(location)
    from ahvn_tools.mcp.client.mcp_config import CONFIG_PATH

    if (match := CONFIG_PATH.fullmatch(location)) and exists(match["file"], options.folder):
        options.require_readable(match["file"])
        return _read_config_file(options.resolve(match["file"]), match["file"], match["names"], options)
    if Path(location).suffix in _INTERPRETERS and exists(location, options.folder):
        path = options.resolve(location)
        options.trust.require_file(path)
        return _contents([_INTERPRETERS[path.suffix], str(path.resolve())], name=path.stem)
    return _read_command(location, options)


def _contents(server: Any, name: str | None = None) -> Contents:
    return Contents(name=name or "tools", servers=(ServerSource(server=server, name=name),))


def _read_config_file(file: Path, shown: str, names: str | None, options: ReadOptions) -> Contents:
    from ahvn_tools.mcp.client.mcp_config import read_config

    try:
        config, folder = read_config(file)
    except DefinitionError as error:
        raise SourceError(str(error), file=shown) from error
    return _read_config(config, folder, shown, names, options, started_in=Path.cwd())


def _read_config(
    config: Mapping[str, Any], folder: Path, shown: str, names: str | None, options: ReadOptions, *, started_in: Path
) -> Contents:
    from ahvn_tools.mcp.client.mcp_config import find_servers, parse_entries, select_servers

    try:
        chosen = find_servers(config)
        if names is not None:
            chosen = select_servers(chosen, names, shown)
        entries = parse_entries(
            {"mcpServers": chosen},
            folder,
            env=options.env,
            inputs=options.choices.get("inputs", {}),
            trust=options.trust,
        )
    except DefinitionError as error:
        hint = " Here: Toolkit.add_mcp(…, inputs=…), or `inputs` in a manifest." if "inputs=" in str(error) else ""
        text = str(error) if str(error).startswith(f"{shown} ") else f"{shown}: {error}"
        raise SourceError(f"{text}{hint}", file=shown) from error
    if not entries:
        raise SourceError(f"{shown} has no server that is not disabled.", file=shown)
    require_all(partial(entry.trusted, options.trust, started_in) for entry in entries.values())
    entries = {name: entry.trusted(options.trust, started_in) for name, entry in entries.items()}
    name = next(iter(entries)) if len(entries) == 1 else "tools"
    return Contents(name=name, servers=(ServerSource(server=entries),))


def _read_command(command: str, options: ReadOptions) -> Contents:
    try:
        words = split_command(command)
    except ValueError as error:
        raise SourceError(f"{command!r} cannot be split into words: {error}.") from error
    if not words:
        raise SourceError("The command of an MCP server is empty: write the program and its arguments.")
    if shutil.which(words[0], path=options.env.get("PATH")) is None:
        raise SourceError(
            f"There is no program {words[0]!r}, which would be the command of an MCP server, and no such file."
        )
    options.trust.require_program(words[0], options.folder)
    return _contents(words)
