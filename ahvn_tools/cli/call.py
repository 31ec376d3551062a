"""`ahvn-tools call`: call a tool, print what it sends, and ask the person at the terminal."""

from __future__ import annotations

import contextlib
import getpass
import json
import math
import os
import re
import sys
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, TextIO

from cyclopts import Parameter
from cyclopts.validators import Number

from ahvn_tools.cli import output
from ahvn_tools.cli.arguments import ValueReader, describe_unbound, read_arguments, read_state
from ahvn_tools.cli.output import CommandError, UsageError
from ahvn_tools.cli.output_file import has_file, write_media_file
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
from ahvn_tools.cli.tools import credentials
from ahvn_tools.errors import ApprovalRequiredError, BindError, ResultRequiredError, StateKeyError, UnboundStateError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.redaction.names import is_secret_name, is_secret_schema
from ahvn_tools.results import ToolResult, to_sendable, whole_value

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from ahvn_tools.middleware.pending import ApprovalRequest
    from ahvn_tools.toolkit import Toolkit

_OUTPUT: Final = re.compile(
    r"^STD(?:OUT|ERR|OUT AND STDERR):\n(?P<text>.*?)(?=^[A-Z]+:$|\Z)|<(?P<tag>stdout|stderr)>(?P<inner>.*?)</(?P=tag)>",
    re.MULTILINE | re.DOTALL,
)
"""The output of a process in the results of the built-in tools."""

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
            result = _run(session, tool, values, timeout, printing)
            if options is not None and options.verbose:
                _print_frames(result)
            return _report(result, printing, spec.binds)


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
    plan = find_tool(kit, tool).compiled.plan
    has_chunks = plan.output.is_stream or plan.takes_context
    try:
        if not has_chunks:  # in this thread, so that Ctrl-C runs what cleans up in the tool
            with stdout_to_stderr():
                return kit.exec(tool, arguments, timeout=timeout)
        with stdout_to_stderr(), contextlib.closing(kit.stream(tool, arguments, timeout=timeout)) as results:
            for result in results:
                if result.is_last:
                    return result
                printing.print_chunk(result)
    except SystemExit as error:
        raise CommandError(f"The tool {tool!r} has ended the process (sys.exit).") from error
    raise AssertionError  # pragma: no cover  # a stream ends with its result


def _report(result: ToolResult, printing: CallOutput, binds: Mapping[str, str]) -> int:
    """Print the result of a tool with these bound parameters, and return the exit status."""
    if result.error is None:
        printing.print_result(result)
        return 0
    printing.print_failure(result)
    message = result.error.message
    if result.error.code == ApprovalRequiredError.code:
        message = f"{_describe_pending(result)} Repeat the command in a terminal, or with --yes."
    if result.error.code == ResultRequiredError.code:
        message = f"{message} A program supplies it, with `Toolkit.resume`."
    if isinstance(result.exception, UnboundStateError):
        message = describe_unbound(result.exception, binds)
    print(f"error: {output.escape(message)}", file=sys.stderr)  # noqa: T201  # the output of a command
    return STATUSES.get(result.error.code, FAILED_STATUS)


def _print_frames(result: ToolResult) -> None:
    """Print where a tool has raised an exception, without its text, which may contain bound values."""
    if result.exception is not None:
        frames = "".join(traceback.format_tb(result.exception.__traceback__))
        print(output.escape(frames), end="", file=sys.stderr)  # noqa: T201  # as above


def _describe_pending(result: ToolResult) -> str:
    from ahvn_tools.middleware.pending import ApprovalRequest, pending_requests  # slow, and few calls need it

    described = [describe_request(one) for one in pending_requests(result.meta) if isinstance(one, ApprovalRequest)]
    return f"This call needs an approval{': ' * bool(described)}{'; '.join(described)}."


class CallOutput:
    """Prints to the command's stdout, also while `sys.stdout` is stderr for the tool."""

    def __init__(self, stdout: TextIO, *, tool: str, folder: Path, is_json: bool) -> None:
        """Print the results of a call of `tool`, and write its files to `folder`."""
        self._stdout = stdout
        self._tool, self._folder, self._is_json = tool, folder, is_json
        self._is_terminal = stdout.isatty()
        self._progress = ProgressBar() if sys.stderr.isatty() else None
        self._has_items = False
        self._shown: set[str] | None = set() if self._is_terminal and sys.stderr.isatty() else None
        """The lines that the person has seen already; None if the result does not follow them in one terminal."""

    @classmethod
    @contextlib.contextmanager
    def open(cls, *, tool: str, folder: Path, is_json: bool) -> Generator[Self]:
        """Yield one that prints to what is stdout now."""
        with _own_stdout() as stdout:
            printing = cls(stdout, tool=tool, folder=folder, is_json=is_json)
            try:
                yield printing
            finally:
                printing.pause()

    def print_chunk(self, chunk: ToolResult) -> None:
        """Print what a tool sends before its result: items to stdout, other output and progress to stderr."""
        if "progress" in chunk.meta:
            if self._progress is not None:
                self._progress.update(chunk)
        elif chunk.meta.get("output"):
            self.pause()
            text = _to_text(chunk.value)
            print(output.escape(text), file=sys.stderr, flush=True)  # noqa: T201  # the output of a command
            if self._shown is not None:
                self._shown.update(text.splitlines())
        else:
            self._has_items = True
            self.pause()
            self._print_json(chunk) if self._is_json else self._print_value(chunk)

    def print_result(self, result: ToolResult) -> None:
        """Print the last result of a call that has succeeded. Items that were printed are not printed again."""
        self.pause()
        if self._is_json:
            self._print_json(result)
        elif not self._has_items:
            self._print_value(result)

    def print_failure(self, result: ToolResult) -> None:
        """Print the last result of a call that has failed, for machines only."""
        self.pause()
        if self._is_json:
            self._print_json(result)

    def pause(self) -> None:
        """Remove the progress bar, until there is new progress."""
        if self._progress is not None:
            self._progress.stop()

    def _print_json(self, result: ToolResult) -> None:
        data, is_ascii = to_json(result), not output.is_unicode(self._stdout)
        text = json.dumps(data, ensure_ascii=is_ascii, default=_to_plain_block)
        if self._is_terminal and output.escape(text) != text:
            text = json.dumps(data, default=_to_plain_block).replace("\x7f", "\\u007f")
        self._print(text)

    def _print_value(self, result: ToolResult) -> None:
        blocks = result.blocks or ()
        if result.blocks is None or result.structured_content is not None:
            self._print_content(whole_value(result))
            blocks = tuple(block for block in blocks if has_file(block))
        for block in blocks:
            if has_file(block):
                self._print(output.escape(str(write_media_file(block, self._folder, self._tool))))
            else:
                self._print_content(_block_text(block))

    def _print_content(self, value: Any) -> None:
        if value is None:
            return
        if not self._is_terminal:
            self._print(_to_text(value, is_ascii=not output.is_unicode(self._stdout)))
        elif isinstance(value, str):
            if text := self._without_shown(value):
                self._print(output.escape(text))
        else:
            output.print_data(value, self._stdout)
            self._stdout.flush()

    def _without_shown(self, text: str) -> str:
        """Return a text without the outputs in it whose lines were all shown while the tool ran."""
        if not (shown := self._shown):
            return text

        def left(match: re.Match[str]) -> str:
            lines = (match["text"] or match["inner"] or "").splitlines()
            return "" if shown.issuperset(lines) else match[0]

        return _OUTPUT.sub(left, text).rstrip("\n")

    def _print(self, text: str) -> None:
        print(text, file=self._stdout, flush=True)


class ProgressBar:
    """The progress of one call, as a bar on stderr."""

    def __init__(self) -> None:
        """Show nothing before the first report."""
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def update(self, chunk: ToolResult) -> None:
        """Show the progress that a tool reports, and its message."""
        report, message = chunk.meta["progress"], output.escape_line(_to_text(chunk.value)) if chunk.value else ""
        if self._bar is None or self._task is None:
            self._bar = _create_bar()
            self._task = self._bar.add_task("")
        self._bar.update(self._task, completed=report["progress"], total=report["total"], description=message)
        self._bar.start()

    def stop(self) -> None:
        """Remove the bar from the terminal, until there is another report."""
        if self._bar is not None:
            self._bar.stop()


def to_json(result: ToolResult) -> JsonObject:
    """Return a result as JSON data: its fields, its content as MCP writes it, and `is_error`."""
    sendable = to_sendable(result)
    return {
        "value": None if sendable.is_error else whole_value(sendable) if sendable.is_raw else sendable.value,
        "structured_content": sendable.structured_content,
        "content": _to_content(sendable),
        "is_error": sendable.is_error,
        "error": None if sendable.error is None else {"code": sendable.error.code, "message": sendable.error.message},
        "meta": sendable.meta,
        "is_last": result.is_last,
        "is_interrupted": result.is_interrupted,
        "id": result.id,
    }


def _to_content(result: ToolResult) -> list[Any]:
    """Return the content as JSON data; without mcp for a result that has no blocks."""
    if result.blocks is not None:
        return [_to_plain_block(block) for block in result.blocks]
    return [] if whole_value(result) is None and not result.is_error else [{"type": "text", "text": result.text}]


def _to_plain_block(block: Any) -> Any:
    return block.model_dump(mode="json", by_alias=True, exclude_none=True)


def _block_text(block: Any) -> str:
    """Return the text of a block, the URI of a link, or the text of a resource."""
    if block.type == "text":
        return str(block.text)
    if block.type == "resource":
        return str(block.resource.text)
    return str(getattr(block, "uri", f"[{block.type}]"))


def _to_text(value: Any, *, is_ascii: bool = False) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=is_ascii)


def _create_bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)


@contextlib.contextmanager
def _own_stdout() -> Iterator[TextIO]:
    """Yield a stream to what is stdout now; it stays so while file descriptor 1 is stderr."""
    from ahvn_tools.mcp.server.standard_streams import is_process_stream

    if not is_process_stream(sys.stdout, 1):
        yield sys.stdout
        return
    sys.stdout.flush()
    encoding = sys.stdout.encoding
    with os.fdopen(os.dup(1), "w", encoding=encoding, errors="backslashreplace", newline=None) as stream:
        yield stream


_YES = frozenset({"y", "yes"})
_NO = frozenset({"n", "no"})
_MAX_ANSWER_BYTES = 4096


def is_interactive() -> bool:
    """Return whether a person can be asked: stdin, stdout and stderr are terminals."""
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def ask_for_missing(arguments: JsonObject, schema: JsonObject) -> JsonObject:
    """Return the arguments with the required ones that were missing; each is asked for until it fits.

    Raises UsageError when the input ends.
    """
    missing = [name for name in schema.get("required", ()) if name not in arguments]
    reader = ValueReader(schema)
    return {**arguments, **{name: _ask_for(name, reader) for name in missing}}


def _ask_for(name: str, reader: ValueReader) -> Any:
    schema = reader.property(name)
    is_secret = is_secret_schema(schema) or is_secret_name(name)
    description = schema.get("description") or schema.get("title") or ""
    output.print_message(f"{name} ({reader.describe(name)}){f': {description}' if description else ''}")
    while True:
        text = _read_secret() if is_secret else _read_line(f"{name}= ")
        if not text:
            output.print_message(f"{name!r} is required. Ctrl-C ends the command.")
            continue
        try:
            value = reader.read(name, [text])
        except UsageError as error:
            output.print_message(str(error))
            continue
        if reader.fits(name, value):
            return value
        output.print_message(f"{name!r} {reader.find_problem(name, value)}.")


def _read_line(prompt: str) -> str:
    sys.stderr.write(output.escape_line(prompt) + " ")
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise UsageError("The input ended before all required parameters had a value.")
    return line.strip()


def _read_secret() -> str:
    try:
        return getpass.getpass("(hidden) ", stream=sys.stderr)
    except EOFError:
        raise UsageError("The input ended before all required parameters had a value.") from None


class TerminalApprover:
    """Asks the person at the terminal to approve a call, or what its tool asks for."""

    def __init__(self, before_question: Callable[[], None]) -> None:
        """`before_question` makes room in the terminal."""
        self._before_question = before_question

    def __call__(self, request: ApprovalRequest) -> bool:
        """Return whether the person approves. In a thread of its own, which Ctrl-C leaves behind."""
        self._before_question()
        output.print_message(describe_request(request))
        while True:
            sys.stderr.write("Approve? [y/N] ")
            sys.stderr.flush()
            answer = _read_answer()
            if answer in _YES:
                return True
            if not answer or answer in _NO:
                return False
            output.print_message("Answer y or n.")


def describe_request(request: ApprovalRequest) -> str:
    """Return what is to be approved, with the arguments or details, in which secrets are masked."""
    if request.action is None:
        return f"{request.tool} wants to run with {json.dumps(request.arguments, ensure_ascii=False)}"
    details = f" {json.dumps(request.details, ensure_ascii=False)}" if request.details else ""
    return f"{request.tool} asks: {request.action}{details}"


def _read_answer() -> str:
    """Read a line without Python's lock of stdin: a thread that waits for that lock would block the exit."""
    data = b""
    while not data.endswith(b"\n") and len(data) < _MAX_ANSWER_BYTES:
        received = os.read(sys.stdin.fileno(), _MAX_ANSWER_BYTES)
        if not received:
            break
        data += received
    return data.decode("utf-8", "replace").strip().lower()
