"""The command line: run a subcommand, print what went wrong, and return the exit status."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from ahvn_tools import __version__
from ahvn_tools.cli.errors import CommandError, UsageError
from ahvn_tools.cli.serve import serve
from ahvn_tools.errors import ToolCallError, ToolSpecError

INTERRUPTED_STATUS = 130
"""The exit status after Ctrl-C, as in shells."""

app = App(
    name="ahvn-tools",
    help="Tools for LLM agents, from the command line.",
    version=__version__,
    suppress_keyboard_interrupt=False,  # `main` handles it
)
app.command(serve)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, or those of the process, and return the exit status.

    0: success; 1: failure; 2: a command line that cannot be parsed; 130: interrupted by Ctrl-C. An error is printed to
    stderr as one line.
    """
    try:
        app(arguments, exit_on_error=False, print_error=False, result_action="return_none")
    except CycloptsError as error:
        return _report_error(UsageError(f"{error} See {app.name[0]} --help."))
    except CommandError as error:
        return _report_error(error)
    except (ToolSpecError, ToolCallError, OSError) as error:
        return _report_error(CommandError(str(error)))
    except KeyboardInterrupt:
        return INTERRUPTED_STATUS
    return 0


def _report_error(error: CommandError) -> int:
    print(f"error: {' '.join(str(error).split())}", file=sys.stderr)  # noqa: T201  # the output of a command
    return error.status
