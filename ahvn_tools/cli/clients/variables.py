"""The environment variables of a server: with values, or by name."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ahvn_tools.cli.clients.known import Client
from ahvn_tools.cli.errors import UsageError
from ahvn_tools.regular_file import read_bounded

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

    try:
        with file.open("rb") as opened:
            text = read_bounded(opened).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise UsageError(f"The file {str(file)!r} cannot be read: {reason}.") from None
    values = {name: value or "" for name, value in dotenv_values(stream=io.StringIO(text), interpolate=False).items()}
    for name, value in values.items():
        if not _NAME.fullmatch(name) or "\0" in value:
            raise UsageError(f"The file {str(file)!r} has no variable of an environment: {name!r}. Correct that line.")
    return values
