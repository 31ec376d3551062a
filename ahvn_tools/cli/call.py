"""`ahvn-tools call`: call one tool of a source, and print its result."""

from __future__ import annotations

import contextlib
import math
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from ahvn_tools.cli import output
from ahvn_tools.cli.call_arguments import read_arguments
from ahvn_tools.cli.call_output import CallOutput
from ahvn_tools.cli.errors import CommandError, UsageError
from ahvn_tools.cli.sources import (
    Flag,
    MoreSources,
    Names,
    Source,
    SourceParameters,
    find_tool,
    open_toolkit,
    stdout_to_stderr,
)
from ahvn_tools.cli.state_file import read_state
from ahvn_tools.cli.terminal import TerminalApprover, ask_for_missing, describe_request, is_interactive
from ahvn_tools.cli.tool_facts import credentials
from ahvn_tools.errors import ApprovalRequiredError, BindError, StateKeyError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import ToolResult
from ahvn_tools.schema.keywords import WRAP_RESULT_KEY

if TYPE_CHECKING:  # the command line is parsed without pydantic
    from ahvn_tools.toolkit import Toolkit

FAILED_STATUS: Final = 1
TIMEOUT_STATUS: Final = 124
"""The exit status of a call that took too long, as of the command `timeout`."""

STATUSES: Final = {"invalid_parameters": 2, "not_found": 2, "timeout": TIMEOUT_STATUS}
"""The exit status of a result with this error code; of any other error it is 1."""


def call(
    source: Source,
    tool: Annotated[str, Parameter(name="TOOL")],
    /,
    *arguments: Annotated[str, Parameter(name="NAME=VALUE", allow_leading_hyphen=True)],
    json: Flag = False,
    timeout: Annotated[float | None, Parameter(validator=Number(gt=0, lt=math.inf))] = None,
    bind: Names = None,
    state: Path | None = None,
    set: Names = None,  # noqa: A002  # the option --set
    yes: Flag = False,
    output_dir: Path = Path(),
    source_: MoreSources = None,
    options: SourceParameters = None,
) -> int:
    """Call a tool and print its result.

    Missing required arguments are asked for in a terminal. The exit status is 0, 1 for an error of the tool, 2 for
    wrong arguments, 124 after the timeout, 130 after Ctrl-C.

    Parameters
    ----------
    source
        A Python file, a folder, a manifest, an MCP server, an OpenAPI document, …
    tool
        The name of the tool.
    arguments
        NAME=VALUE, read as the parameter's type; repeat it for the items of an array. NAME:=JSON, NAME@=FILE. Or one
        JSON object, or - for a JSON object from stdin.
    json
        Print the whole result as JSON; of a tool that makes items, a line for each item and one for the result.
    timeout
        Seconds that the call may take.
    bind
        PARAM=KEY: fill a parameter from this key of the state. Can be repeated.
    state
        A JSON or YAML file with the state.
    set
        KEY=VALUE or KEY:=JSON: a value of the state, in addition to those of the file. Can be repeated.
    yes
        Approve what the tool asks for.
    output_dir
        The folder for images, audio and files that the tool returns: the current one by default.
    source_
        Another source. Can be repeated.
    """
    if not output_dir.is_dir():
        raise UsageError(f"There is no folder {str(output_dir)!r}.")
    session_state = read_state(state, set or ())
    with CallOutput.open(tool=tool, folder=output_dir, is_json=json) as printing:

        def prepare(kit: Toolkit) -> None:
            _bind(kit, tool, bind or ())
            _set_host_options(kit, printing, is_approved=yes)

        with open_toolkit([source, *(source_ or ())], options, prepare=prepare) as kit:
            spec: Any = find_tool(kit, tool)
            values = read_arguments(arguments, spec.input_schema, spec.binds, credentials(spec))
            if is_interactive():
                values = ask_for_missing(values, spec.input_schema)
            session = kit.session(session_state, audience=None).activate(spec.group)
            printing.is_wrapped = (spec.output_schema or {}).get(WRAP_RESULT_KEY) is True
            result = _run(session, tool, values, timeout, printing)
            if options is not None and options.verbose:
                _print_frames(result)
            return _report(result, printing)


def _bind(kit: Toolkit, tool: str, words: Sequence[str]) -> None:
    spec = find_tool(kit, tool)
    for word in words:
        parameter, equals, key = word.partition("=")
        try:
            spec.bind(parameter, key if equals else None)
        except (BindError, StateKeyError) as error:
            raise UsageError(f"--bind: {error}") from None


def _set_host_options(kit: Toolkit, printing: CallOutput, *, is_approved: bool) -> None:
    """Let the person who runs the command see error texts, and decide on approvals unless the toolkit says who does."""
    store = kit._view.store  # noqa: SLF001  # a toolkit that is loaded has no setter: only its host may change this
    store.masks_errors = False
    if store.approver is None and is_approved:
        store.approver = lambda _request: True
    elif store.approver is None and is_interactive():
        store.approver = TerminalApprover(printing.pause)


def _run(kit: Toolkit, tool: str, arguments: JsonObject, timeout: float | None, printing: CallOutput) -> ToolResult:
    """Run the call, print its chunks as they come, and return its result. What the tool prints goes to stderr."""
    try:
        with stdout_to_stderr(), contextlib.closing(kit.stream(tool, arguments, timeout=timeout)) as results:
            for result in results:
                if result.is_last:
                    return result
                printing.print_chunk(result)
    except SystemExit as error:
        raise CommandError(f"The tool {tool!r} has ended the process (sys.exit).") from error
    raise AssertionError  # pragma: no cover  # a stream ends with its result


def _report(result: ToolResult, printing: CallOutput) -> int:
    """Print the result, and return the exit status."""
    if result.error is None:
        printing.print_result(result)
        return 0
    printing.print_failure(result)
    message = result.error.message
    if result.error.code == ApprovalRequiredError.code:
        message = f"{_describe_pending(result)} Repeat the command in a terminal, or with --yes."
    print(f"error: {output.escape(message)}", file=sys.stderr)  # noqa: T201  # the output of a command
    return STATUSES.get(result.error.code, FAILED_STATUS)


def _print_frames(result: ToolResult) -> None:
    """Print where a tool has raised an exception, without its text, which may contain bound values."""
    if result.exception is not None:
        frames = "".join(traceback.format_tb(result.exception.__traceback__))
        print(output.escape(frames), end="", file=sys.stderr)  # noqa: T201  # as above


def _describe_pending(result: ToolResult) -> str:
    request = result.meta.get("approval")
    if request is None or result.error is None:
        return "This call needs an approval."
    from ahvn_tools.middleware.approve import ApprovalRequest  # slow, and few calls need it

    return f"This call needs an approval: {describe_request(ApprovalRequest.from_json(request))}."
