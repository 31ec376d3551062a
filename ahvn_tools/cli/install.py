"""`ahvn-tools install` and `uninstall`: a server in the MCP configuration of a client."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ahvn_tools.cli.config_file import ConfigFile, to_text
from ahvn_tools.cli.known_clients import CLIENTS, Client, ClientEntry, ClientName, Scope, build_command, read_variables
from ahvn_tools.cli.output import CommandError, UsageError, plural, print_message, print_text
from ahvn_tools.cli.sources import Flag, LoadingOptions, Names, SourceParameters, Sources, open_toolkit

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def install(
    *sources: Sources,
    client: ClientName,
    name: str | None = None,
    scope: Scope | None = None,
    config: Path | None = None,
    env: Names = None,
    env_file: Path | None = None,
    python: str | None = None,
    uvx: Flag = False,
    with_: Annotated[list[str] | None, Parameter(name="--with", negative="")] = None,
    print_: Annotated[bool, Parameter(name="--print", negative="")] = False,
    force: Flag = False,
    no_check: Flag = False,
    options: SourceParameters = None,
) -> None:
    """Let an MCP client start a server of these tools: write it to the client's configuration.

    A copy of the old file stays next to it, and everything else in the file stays as it is. The sources are loaded
    once, so that a mistake shows now, unless there is --no-check. --profile, --trust, --audience and the other options
    of sources are those of the server.

    Parameters
    ----------
    sources
        What the server serves: see `serve`. Paths may be relative; absolute ones are written.
    client
        The program that uses the tools.
    name
        The name of the server in the configuration; by default that of the toolkit.
    scope
        user: for all projects; the default. project: for the current folder, where the client has such a file.
    config
        Write to this file instead.
    env
        NAME=VALUE: a variable of the server, whose value is written to the file. NAME: the client takes the value from
        its own environment, so that no secret is in the file. Can be repeated.
    env_file
        A file with lines NAME=VALUE. The entry names the file if the client reads such files; else the values are
        written.
    python
        The interpreter that runs the server, by default the one of this command. It must have ahvn-tools installed.
    uvx
        Start the server with uvx, which installs ahvn-tools when it is needed.
    with_
        With --uvx: a package that the tools need. Can be repeated.
    print_
        Print the entry, and write nothing.
    force
        Replace another entry of this name without a question.
    no_check
        Do not load the sources, such as a server that does not run now. It needs --name.
    """
    target = CLIENTS[client]
    options = options or LoadingOptions()
    command = build_command(list(map(str, sources)), options, python=python, uvx=uvx, packages=with_ or ())
    for argument in filter(target.replaces, command.arguments):
        raise UsageError(f"{target.title} would replace the part of {argument!r} after '$'. Rename it.")
    variables = read_variables(target, env or (), env_file)
    if no_check:
        if not sources or name is None:
            raise UsageError("--no-check needs a SOURCE and --name: the sources are not loaded, which would name it.")
        server_name, found = name, ""
    else:
        with _environment(variables.known), open_toolkit(sources, options) as kit:
            server_name, found = (
                name or _to_name(kit.name),
                f" with {plural(len(kit.session().select(inactive=True)), 'tool')}",
            )
    if not _NAME.fullmatch(server_name):
        raise UsageError(f"--name {server_name!r}: use letters, digits, '-' and '_', at most 64.")
    values = {**command.env, **variables.values}
    server = replace(command, name=server_name, env=values, passed=variables.passed, env_file=variables.file)
    file = config.expanduser() if config is not None else target.get_file(scope)
    if print_:
        print_text(to_text(target.syntax, (target.section, server_name), target.to_entry(server)).rstrip())
        return
    _add(target, file, server, found, is_confined=config is not None or scope == "project", is_forced=force)


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Generator[None]:
    """Set variables of this process, as the server will have them."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _to_name(name: str) -> str:
    """Return the name of a toolkit as one of a server."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:64] or "tools"


def _add(client: Client, path: Path, server: ClientEntry, found: str, *, is_confined: bool, is_forced: bool) -> None:
    """Add an entry, and ask before it replaces another one.

    Other commands do not wait for the answer, so it holds for the entry that was asked about.
    """
    entry, keys = client.to_entry(server), (client.section, server.name)
    replaced = None
    while True:
        with ConfigFile.open(path, client.syntax, is_confined=is_confined, makes_folders=True) as file:
            known = file.get_entry(keys)
            is_allowed = is_forced or known is None or known == replaced
            backup = file.set_entry(keys, entry) if is_allowed and known != entry else None
        if known == entry:
            print_text(f"{client.title} has this server already: {server.name!r} in {path}.")
            return
        if is_allowed:
            break
        _confirm(server.name, path)
        replaced = known
    kept = f" The old file is {backup}." if backup is not None else ""
    print_text(f"Added {server.name!r}{found} to {path}.{kept}\nRestart {client.title} to use it.")


def _confirm(name: str, path: Path) -> None:
    """Ask whether another entry may be replaced. Raises CommandError for another answer than yes, and in a pipe."""
    question = f"{path} has another server {name!r}."
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise CommandError(f"{question} Add --force to replace it, or choose another --name.")
    print_message(f"{question} Replace it? [y/N]")
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise CommandError(f"Nothing was changed: {path} still has its server {name!r}.")


def uninstall(
    name: str,
    /,
    *,
    client: ClientName,
    scope: Scope | None = None,
    config: Path | None = None,
) -> None:
    """Remove a server from the MCP configuration of a client. A copy of the old file stays next to it.

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
