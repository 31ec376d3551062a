"""Questions to the person at the terminal: parameters that are missing, and approvals."""

from __future__ import annotations

import getpass
import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ahvn_tools.cli import output
from ahvn_tools.cli.errors import UsageError
from ahvn_tools.cli.value_reader import ValueReader
from ahvn_tools.json_types import JsonObject
from ahvn_tools.redaction import is_secret_name, is_secret_schema

if TYPE_CHECKING:
    from ahvn_tools.middleware.approve import ApprovalRequest

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
    _print(f"{name} ({reader.describe(name)}){f': {description}' if description else ''}")
    while True:
        text = _read_secret() if is_secret else _read_line(f"{name}= ")
        if not text:
            _print(f"{name!r} is required. Ctrl-C ends the command.")
            continue
        try:
            value = reader.read(name, [text])
        except UsageError as error:
            _print(str(error))
            continue
        if reader.fits(name, value):
            return value
        _print(f"{name!r} {reader.find_problem(name, value)}.")


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


def _print(text: str) -> None:
    output.print_message(text)


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
