"""The command `ahvn-tools`: its commands, its exit status, and its completion in shells."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Literal

from cyclopts import App, ArgumentCollection, CycloptsError, Parameter, UnknownOptionError

from ahvn_tools import __version__
from ahvn_tools.cli.output import CommandError, UsageError, flush_stdout, prepare_streams, print_message
from ahvn_tools.cli.sources import Flag
from ahvn_tools.errors import MIN_SIMILARITY, ToolCallError, ToolSpecError

INTERRUPTED_STATUS = 130
"""The exit status after Ctrl-C, as in shells."""

COMMANDS: Final = {
    "list": ("tools:list_tools", "List the tools of sources."),
    "show": ("tools:show", "Show one tool: parameters, bindings, labels, schemas."),
    "search": ("tools:search", "Find tools by words."),
    "call": ("call:call", "Call a tool and print its result."),
    "export": ("export:export", "Print tools as JSON in a provider's format."),
    "prompt": ("export:prompt", "Print tools as text for a model."),
    "check": ("check:check", "Check what providers do with tools, and what is wrong with them."),
    "pin": ("export:pin", "Write the definitions of tools to a lock file."),
    "diff": ("export:diff", "Compare the tools of two sources, or of a lock file and a source."),
    "install": ("install:install", "Let an MCP client start a server of tools."),
    "uninstall": ("install:uninstall", "Remove a server from the configuration of an MCP client."),
    "serve": ("serve:serve", "Serve tools to MCP clients."),
    "ui": ("ui:ui", "See and try tools in a browser."),
    "new": ("new:new", "Write a small working file to start from, with a test."),
    "completion": ("app:completion", "Print or install the script for completion in a shell."),
}
"""The commands: the module of this package and its function, and what the list of commands says."""


def create_app(*, with_summaries: bool = False) -> App:
    """Return the command; with summaries for its own `--help`, where no command is imported to be described."""
    app = App(
        name="ahvn-tools",
        help="Tools for LLM agents, from the command line.",
        version=__version__,
        suppress_keyboard_interrupt=False,  # `main` handles it
    )
    for number, (name, (path, summary)) in enumerate(COMMANDS.items()):
        options: dict[str, Any] = {"help": summary} if with_summaries else {}
        app.command(f"ahvn_tools.cli.{path}", name=name, sort_key=number, **options)
    return app


app = create_app()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, or those of the process, and return the exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    chosen = create_app(with_summaries=True) if words in ([], ["--help"], ["-h"]) else app
    return run_command(lambda: chosen(words, exit_on_error=False, print_error=False, result_action="return_value"))


def run_command(command: Callable[[], int | None]) -> int:
    """Run a command, which returns None for success or its status, and return the exit status.

    0: success; 1: failure; 2: a wrong command line; 130: interrupted by Ctrl-C. An error is printed to stderr as one
    line. When the reader of stdout has gone, as behind `| head`, the command ends successfully, without a message.
    """
    prepare_streams()
    try:
        status = command()
        flush_stdout()
    except UnknownOptionError as error:
        return _report_error(_describe_option(error), status=2)
    except CycloptsError as error:
        return _report_error(f"{error} {_see_help(error)}", status=2)
    except UsageError as error:
        return _report_error(str(error), status=2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else the interpreter would fail to flush stdout when it exits
        return 0
    except (CommandError, ToolSpecError, ToolCallError, OSError) as error:
        return _report_error(str(error), status=1)
    except KeyboardInterrupt:
        return INTERRUPTED_STATUS
    except Exception as error:  # noqa: BLE001  # code of a source may raise anything
        return _report_error(f"{type(error).__name__}: {error} (--verbose prints where)", status=1)
    return status or 0


def _see_help(error: CycloptsError) -> str:
    return f"See {' '.join([app.name[0], *(error.command_chain or ())])} --help."


def _describe_option(error: UnknownOptionError) -> str:
    """Return which option the command does not have, and a similar one, or the commands that have it."""
    option = (error.token.keyword or error.token.value).partition("=")[0]
    names = {name.lstrip("-"): name for name in _option_names(error.argument_collection)}
    if close := difflib.get_close_matches(option.lstrip("-"), names, 1, MIN_SIMILARITY):
        fix = f"Did you mean {names[close[0]]}? "
    else:
        collections = ((command, app[command].assemble_argument_collection()) for command in COMMANDS)
        commands = [command for command, arguments in collections if option in _option_names(arguments)]
        fix = f"It is an option of: {', '.join(commands)}. " if commands else ""
    return f"Unknown option: {option}. {fix}{_see_help(error)}"


def _option_names(arguments: ArgumentCollection) -> list[str]:
    return [name for argument in arguments for name in argument.names if name.startswith("-")]


def _report_error(message: str, *, status: int) -> int:
    print_message(f"error: {message}")
    return status


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

    try:
        if install:
            print_message(f"Wrote {app.install_completion(shell=shell)}. Start a new shell to use it.")
        else:
            print(app.generate_completion(shell=shell))  # noqa: T201  # code: nothing in it is escaped
    except ShellDetectionError:
        raise CommandError("The shell is unknown: name it, as in `ahvn-tools completion bash`.") from None
