"""`ahvn-tools completion`: the script by which a shell completes the command."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from ahvn_tools.cli.errors import CommandError
from ahvn_tools.cli.output import print_message
from ahvn_tools.cli.sources import Flag


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish", "powershell"] | None, Parameter(name="SHELL")] = None,
    /,
    *,
    install: Flag = False,
) -> None:
    """Print the script that completes commands, options and their values in a shell.

    Parameters
    ----------
    shell
        The shell; by default the one that started the command.
    install
        Write the script to the folder where the shell looks for it. For bash, zsh and PowerShell, a line is added to
        the shell's own startup file, unless it is there already.
    """
    from cyclopts.completion import ShellDetectionError

    from ahvn_tools.cli.app import app

    try:
        if install:
            print_message(f"Wrote {app.install_completion(shell=shell)}. Start a new shell to use it.")
        else:
            print(app.generate_completion(shell=shell))  # noqa: T201  # code: nothing in it is escaped
    except ShellDetectionError:
        raise CommandError("The shell is unknown: name it, as in `ahvn-tools completion bash`.") from None
