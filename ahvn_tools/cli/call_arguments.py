"""The arguments of a call as they are written on a command line: `name=value`, one JSON object, `-` for stdin."""

from __future__ import annotations

import base64
import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ahvn_tools.cli.errors import UsageError
from ahvn_tools.cli.value_reader import ValueReader, parse_json, require_json
from ahvn_tools.errors import near_misses
from ahvn_tools.json_types import JsonObject
from ahvn_tools.regular_file import read_bounded
from ahvn_tools.schema.refs import resolve_ref

STDIN = "-"

_MAX_DEPTH = 3
"""How deep in alternatives and items a file is found: a file or null, in a list of files or null."""


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """One `NAME=TEXT`, `NAME:=JSON`, or `NAME@=FILE`."""

    name: str
    text: str
    is_json: bool
    file: str | None = None
    """The path of the file that is not read yet, because the parameter takes its bytes; `text` is empty."""

    @classmethod
    def parse(cls, word: str, known: Iterable[str] = (), binary: Iterable[str] = ()) -> Assignment:
        """Parse a word; a name in `known` may end with `:` or `@`. Raises UsageError.

        The files of parameters in `binary` are not read as text.
        """
        left, equals, text = word.partition("=")
        if not equals or not left:
            raise UsageError("Write an argument as NAME=VALUE, as one JSON object, or - for JSON from stdin.")
        is_file = is_json = False
        name = left
        if name not in known and name.endswith("@"):
            name, is_file = name[:-1], True
        if name not in known and name.endswith(":"):
            name, is_json = name[:-1], True
        if is_file and name in binary and not is_json and text != STDIN:
            return cls(name=name, text="", is_json=False, file=text)
        return cls(name=name, text=_read_file(name, text) if is_file else text, is_json=is_json)


def read_arguments(
    words: Sequence[str], schema: JsonObject, binds: Mapping[str, str], credentials: Iterable[str] = ()
) -> JsonObject:
    """Return the arguments that words of a command line stand for, for a tool with this input schema.

    `binds` are the parameters of the tool that are bound, `credentials` those that no caller sets. Raises UsageError,
    without any value in it, for what cannot be read, for a name that the tool does not have, and for one that is given
    twice.
    """
    known = schema.get("properties", {})
    binary = [name for name in known if _takes_bytes(known[name], schema)]
    arguments: JsonObject = {}
    assigned: dict[str, list[Assignment]] = {}
    for word in words:
        if word == STDIN or word.startswith("{"):
            _merge(arguments, _read_object(sys.stdin.read() if word == STDIN else word, is_stdin=word == STDIN))
        else:
            assignment = _parse(word, known, binary)
            assigned.setdefault(assignment.name, []).append(assignment)
    reader = ValueReader(schema)
    for name, assignments in assigned.items():
        _require_known(name, schema, binds, credentials)
        _merge(arguments, {name: _to_value(name, assignments, reader)})
    return arguments


def read_assignments(words: Iterable[str], option: str) -> JsonObject:
    """Return the values of `KEY=TEXT`, `KEY:=JSON` and `KEY@=FILE` words of an option. Raises UsageError."""
    values: JsonObject = {}
    for word in words:
        if word.partition("=")[1] != "=":
            raise UsageError(f"Write --{option} as KEY=VALUE.")
        assignment = Assignment.parse(word)
        value = require_json(assignment.name, assignment.text) if assignment.is_json else assignment.text
        _merge(values, {assignment.name: value})
    return values


def _parse(word: str, known: Iterable[str], binary: Iterable[str]) -> Assignment:
    if word.startswith("-"):
        raise UsageError(f"There is no option {word.partition('=')[0]!r}. See ahvn-tools call --help.")
    if "=" not in word and (first := next(iter(known), None)) is not None:
        raise UsageError(
            f"Write arguments with their names, as in {first}=VALUE; or as one JSON object, or - for JSON from stdin."
        )
    return Assignment.parse(word, known, binary)


def _takes_bytes(node: Any, schema: JsonObject, depth: int = 0) -> bool:
    """Return whether a parameter is base64, a file of a form, or a list of these."""
    if not isinstance(node, dict) or depth > _MAX_DEPTH:
        return False
    node = resolve_ref(node, schema)
    parts = [node.get("items"), *node.get("anyOf", ())]
    return node.get("contentEncoding") == "base64" or any(_takes_bytes(part, schema, depth + 1) for part in parts)


def _to_value(name: str, assignments: Sequence[Assignment], reader: ValueReader) -> Any:
    if all(one.file is not None for one in assignments):
        return _to_files(name, [str(one.file) for one in assignments], reader)
    if any(one.file is not None for one in assignments):
        raise UsageError(f"{name!r} is a file and a value on the command line: write only files, or one JSON array.")
    if not any(one.is_json for one in assignments):
        return reader.read(name, [one.text for one in assignments])
    if len(assignments) > 1:
        raise UsageError(f"{name!r} is on the command line {len(assignments)} times: write one JSON array.")
    return require_json(name, assignments[0].text)


def _require_known(name: str, schema: JsonObject, binds: Mapping[str, str], credentials: Iterable[str]) -> None:
    known = schema.get("properties", {})
    if name in known:
        return
    if name in binds:
        raise UsageError(f"{name!r} is bound to the state key {binds[name]!r}: pass it with --set {binds[name]}=VALUE.")
    if name in credentials:
        raise UsageError(f"{name!r} is a credential and no argument: pass --bind {name}={name} --set {name}=VALUE.")
    if _accepts_unlisted(schema):
        return
    outer = name.partition(".")[0]
    if outer in known:
        raise UsageError(f"There is no parameter {name!r}. Pass the object whole: {outer}:='{{…}}'.")
    fix = near_misses(name, known) if known else "The tool has no parameters."
    raise UsageError(f"There is no parameter {name!r}. {fix}")


def _accepts_unlisted(schema: JsonObject) -> bool:
    """Return whether the schema says that it accepts other names; that it does not refuse them is not enough."""
    others = schema.get("additionalProperties")
    return others is True or isinstance(others, dict) or "patternProperties" in schema


def _read_object(text: str, *, is_stdin: bool) -> JsonObject:
    value = parse_json(text)
    if not isinstance(value, dict):
        raise UsageError(f"{'The input on stdin' if is_stdin else 'The argument'} is no JSON object.")
    return value


def _to_files(name: str, files: Sequence[str], reader: ValueReader) -> Any:
    """Return files as base64, with their names where the parameter takes them; a list of them for a list."""
    contents = [base64.b64encode(_read_bytes(name, file)).decode() for file in files]
    named = [{"content": text, "filename": Path(file).name} for text, file in zip(contents, files, strict=True)]
    choices = [*named[:1], *contents[:1]] if len(files) == 1 else []
    fitting = next((value for value in (*choices, named, contents) if reader.fits(name, value)), None)
    if fitting is None:
        raise UsageError(f"{name!r} takes no files, or fewer: {reader.find_problem(name, contents)}")
    return fitting


def _read_file(name: str, file: str) -> str:
    if file == STDIN:
        return sys.stdin.read()
    try:
        return io.TextIOWrapper(io.BytesIO(_read_bytes(name, file)), encoding="utf-8").read()
    except UnicodeDecodeError:
        raise UsageError(f"The file for {name!r} is no UTF-8 text.") from None


def _read_bytes(name: str, file: str) -> bytes:
    try:
        with Path(file).open("rb") as opened:
            return read_bounded(opened)
    except OSError as error:
        raise UsageError(f"The file for {name!r} cannot be read: {error.strerror or type(error).__name__}.") from None


def _merge(arguments: JsonObject, more: JsonObject) -> None:
    if twice := sorted(arguments.keys() & more.keys()):
        raise UsageError(f"{', '.join(map(repr, twice))}: written twice.")
    arguments.update(more)
