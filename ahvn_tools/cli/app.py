"""The app: reads the command line, runs a subcommand, and ends with a status."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from ahvn_tools import __version__
from ahvn_tools.cli.errors import CommandError, UsageError
from ahvn_tools.cli.serve import serve
from ahvn_tools.errors import ToolCallError, ToolSpecError

INTERRUPTED_STATUS = 130
"""What a process ends with that Ctrl-C has stopped, as shells have it."""

app = App(
    name="ahvn-tools",
    help="Tools for LLM agents, from the command line.",
    version=__version__,
    suppress_keyboard_interrupt=False,  # `main` sees to it
)
app.command(serve)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, or the process's own, and return its status.

    0: done; 1: it cannot be done; 2: the command was not written right; 130: stopped by Ctrl-C. What went wrong stands
    on stderr, in one line.
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
    print(f"error: {' '.join(str(error).split())}", file=sys.stderr)  # noqa: T201  # a command speaks on stderr
    return error.status
