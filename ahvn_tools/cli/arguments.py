"""Values on a command line: arguments of a tool, values of the state, and how texts are read as JSON."""

from __future__ import annotations

import base64
import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from ahvn_tools.cli.output import UsageError
from ahvn_tools.errors import SourceError, StateKeyError, UnboundStateError, near_misses
from ahvn_tools.json_types import JsonObject
from ahvn_tools.regular_file import read_bounded
from ahvn_tools.schema.keywords import JSON_TYPES, type_names
from ahvn_tools.schema.refs import resolve_ref
from ahvn_tools.state import StateKey

_ROOT_KEYWORDS: Final = frozenset(
    {"$schema", "$id", "$defs", "definitions", "properties", "additionalProperties", "patternProperties"}
)
"""The parts of the root schema that say what one argument may be."""

_WORDS: Final = {
    "array": "a JSON array",
    "boolean": "true or false",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "a JSON object",
    "string": "a text",
}
_MAX_LISTED = 20
_NOT_JSON: Final = object()


class ValueReader:
    """Reads texts as values of the parameters of one tool.

    A text is taken as it is where the schema accepts it, and as JSON where the schema accepts that. Raises UsageError,
    which does not contain the text, where it accepts both or neither.
    """

    def __init__(self, schema: JsonObject) -> None:
        """Read the arguments of a tool with this input schema."""
        self._schema = schema
        self._validator: Any = None

    def read(self, name: str, texts: Sequence[str]) -> Any:
        """Return the value of a parameter that was written once, or the array of one that was written repeatedly."""
        if len(texts) == 1:
            found = self._fitting(name, texts[0])
            return found[0] if found else self._read_single_item(name, texts[0])
        if self.fits(name, texts[0]):
            raise UsageError(f"{name!r} is on the command line {len(texts)} times, and is not an array: write it once.")
        return [self._read_item(name, text) for text in texts]

    def fits(self, name: str, value: Any) -> bool:
        """Return whether the schema accepts a value for a parameter."""
        return not self.find_problem(name, value)

    def find_problem(self, name: str, value: Any) -> str:
        """Return which rule of the schema a value breaks, without the value; "" if it breaks none."""
        from ahvn_tools.schema.jsonschema import compile_validator, describe_first_error

        if self._validator is None:
            schema = {key: part for key, part in self._schema.items() if key in _ROOT_KEYWORDS}
            self._validator = compile_validator(schema)
        try:
            return describe_first_error(self._validator, {name: value})
        except ValueError:  # a text or number that jsonschema-rs cannot represent
            return "cannot be used"

    def describe(self, name: str) -> str:
        """Return in words what the schema asks for."""
        if choices := self.choices(name):
            listed = ", ".join(json.dumps(choice, ensure_ascii=False) for choice in choices[:_MAX_LISTED])
            return f"one of {listed}{', …' if len(choices) > _MAX_LISTED else ''}"
        kinds = _kinds(self.property(name), self._schema)
        return " or ".join(_WORDS[kind] for kind in kinds if kind in _WORDS) or "another value"

    def choices(self, name: str) -> list[Any]:
        """Return the values that the schema lists; none if it lists none."""
        schema = self.property(name)
        options = [resolve_ref(option, self._schema) for option in schema.get("anyOf", ()) if isinstance(option, dict)]
        lists = [part["enum"] for part in (schema, *options) if isinstance(part.get("enum"), list)]
        return lists[0] if lists else []

    def property(self, name: str) -> JsonObject:
        """Return the schema of a parameter, with its reference resolved; an empty one if there is none."""
        schema = self._schema.get("properties", {}).get(name, self._schema.get("additionalProperties"))
        return resolve_ref(schema, self._schema) if isinstance(schema, dict) else {}

    def _fitting(self, name: str, text: str, *, as_item: bool = False) -> list[Any]:
        """Return the value that fits, in a list of at most one."""
        value = parse_json(text)
        candidates = [text] if value is _NOT_JSON else [text, value]
        found = [one for one in candidates if self.fits(name, [one] if as_item else one)]
        if len(found) > 1:
            kind = _WORDS[JSON_TYPES[type(value)]]
            raise UsageError(
                f"The value of {name!r} can be read as a text and as {kind}: write {name}:=JSON, with the text in "
                "double quotes if you mean the text."
            )
        return found

    def _read_item(self, name: str, text: str) -> Any:
        found = self._fitting(name, text, as_item=True)
        return found[0] if found else self._refuse(name, text)

    def _read_single_item(self, name: str, text: str) -> Any:
        """Return an array of one item if that is what fits; else what the tool refuses with its own message."""
        found = [] if text.lstrip().startswith("[") else self._fitting(name, text, as_item=True)
        return [found[0]] if found else self._refuse(name, text)

    def _refuse(self, name: str, text: str) -> Any:
        """Return a value of the right type, about which the tool says more; raise UsageError for another."""
        kinds = _kinds(self.property(name), self._schema)
        value = parse_json(text)
        if not self.choices(name):
            if not kinds:
                return text if value is _NOT_JSON else value
            if "string" in kinds:
                return text
            kind = None if value is _NOT_JSON else JSON_TYPES[type(value)]
            if kind in kinds or (kind == "integer" and "number" in kinds):
                return value
        raise UsageError(f"{name!r} should be {self.describe(name)}.")


def parse_json(text: str) -> Any:
    """Return the value of a JSON text; a marker for a text that is no JSON."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return _NOT_JSON


def require_json(name: str, text: str) -> Any:
    """Return the value of a JSON text. Raises UsageError, which does not contain the text."""
    value = parse_json(text)
    if value is _NOT_JSON:
        raise UsageError(f"The value of {name!r} is no JSON. Quote it for your shell: {name}:='[1, 2]'.")
    return value


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _kinds(schema: JsonObject, root: JsonObject) -> list[str]:
    """Return the types that a schema accepts; none where it does not say."""
    found = type_names(schema)
    for keyword in ("anyOf", "oneOf"):
        for option in schema.get(keyword, ()):
            if isinstance(option, dict):
                found += type_names(resolve_ref(option, root))
    return list(dict.fromkeys(found))


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
    return sys.stdin.read() if file == STDIN else read_text(Path(file), f"The file for {name!r}")


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


def read_state(file: Path | None, assignments: Iterable[str]) -> JsonObject:
    """Return the mapping in a file, with `KEY=VALUE` words over it. Raises UsageError, without any value in it."""
    state = {} if file is None else _read_state_file(file)
    for key, value in read_assignments(assignments, "set").items():
        try:
            StateKey.parse(key).write(state, value)
        except StateKeyError as error:
            raise UsageError(f"--set: {error}") from None
    return state


def describe_unbound(error: UnboundStateError, binds: Mapping[str, str]) -> str:
    """Return why a bound parameter has no value, and the option that sets it; `binds` are those of its tool."""
    fix = f" Pass it with --set {error.key}=VALUE, or --state FILE." if error.parameter in binds else ""
    return f"{error.explanation or error.message}{fix}"


def read_text(file: Path, shown: str) -> str:
    """Return the text of a file, which errors call `shown`. Raises UsageError, without any part of the text."""
    try:
        with file.open("rb") as opened:
            return io.TextIOWrapper(io.BytesIO(read_bounded(opened)), encoding="utf-8-sig").read()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise UsageError(f"{shown} cannot be read: {reason}.") from None


def _read_state_file(file: Path) -> JsonObject:
    text = read_text(file, f"The state file {str(file)!r}")
    data = _parse_yaml_state(file, text) if file.suffix in {".yaml", ".yml"} else _parse_json_state(file, text)
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise UsageError(f"The state file {str(file)!r} must contain a mapping with texts as keys.")
    return data


def _parse_json_state(file: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise UsageError(f"The state file {str(file)!r} is no JSON{line}. A YAML file ends with .yaml.") from None


def _parse_yaml_state(file: Path, text: str) -> Any:
    from ahvn_tools.sources.yaml_file import read_yaml  # slow, and few calls need it

    try:
        return read_yaml(text).value
    except SourceError as error:
        line = f", line {error.line}" if error.line is not None else ""
        raise UsageError(f"The state file {str(file)!r} is no YAML{line}.") from None
