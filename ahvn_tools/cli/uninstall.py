"""`ahvn-tools uninstall`: remove a server from the MCP configuration of a client."""

from __future__ import annotations

from pathlib import Path

from ahvn_tools.cli.clients.config_file import ConfigFile
from ahvn_tools.cli.clients.known import CLIENTS, ClientName, Scope
from ahvn_tools.cli.errors import CommandError
from ahvn_tools.cli.output import print_text


def uninstall(
    name: str,
    /,
    *,
    client: ClientName,
    scope: Scope | None = None,
    config: Path | None = None,
) -> None:
    """Remove a server from the MCP configuration of a client. The old file is kept as a copy beside it.

    Parameters
    ----------
    name
        The name of the server in the configuration.
    client
        The program whose configuration it is.
    scope
        user: for all projects; the default. project: for the current folder.
    config
        The file, if it is another one.
    """
    target = CLIENTS[client]
    path = config.expanduser() if config is not None else target.get_file(scope)
    keys, is_confined = (target.section, name), config is not None or scope == "project"
    missing = CommandError(f"{str(path)!r} has no server {name!r}.")
    if not path.parent.is_dir():
        raise missing
    with ConfigFile.open(path, target.syntax, is_confined=is_confined) as file:
        if file.get_entry(keys) is None:
            raise missing
        backup = file.remove_entry(keys)
    print_text(f"Removed {name!r} from {path}. The old file is {backup}.")
