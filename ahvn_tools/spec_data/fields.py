"""Fields of the data of a tool: how they are read, and the import paths in them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from ahvn_tools.errors import SourceError, near_misses, quote_name
from ahvn_tools.execution.pickling import FunctionPath, is_program
from ahvn_tools.json_types import JsonObject

_WORDS: Final[Mapping[type, str]] = {
    dict: "an object", list: "a list", str: "a text", bool: "true or false", int: "a whole number",
}  # fmt: skip

MAX_DEPTH: Final = 200
"""How deep data is nested at most. Validators and copies of deeper data fail at their own limits."""


def error(problem: str) -> SourceError:
    """Return the error about data of a tool."""
    return SourceError(f"This is not the data of a tool as to_dict() writes it: {problem}")


def read_json(value: Any) -> JsonObject:
    """Return a copy of data, which nobody else can change. Raises SourceError for what is no object, or too deep."""
    try:
        plain = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as reason:
        raise error(f"it is not JSON ({type(reason).__name__}). Pass what json.loads() returns.") from reason
    if _is_too_deep(plain):
        raise error(f"it is nested deeper than {MAX_DEPTH} levels.")
    checked: JsonObject = read(plain, "", dict)
    return checked


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        parts = [part for part in level if isinstance(part, dict | list)]
        level = [member for part in parts for member in (part.values() if isinstance(part, dict) else part)]
    return any(isinstance(part, dict | list) for part in level)


def join(path: str, name: object) -> str:
    """Return the path of a member, as errors name it."""
    return f"{path}.{name}" if path else str(name)


def read_object(value: Any, path: str, required: Collection[str] = (), optional: Collection[str] = ()) -> JsonObject:
    """Return an object that has all required fields and no unknown ones. Raises SourceError."""
    read(value, path, dict)
    known = [*required, *optional]
    for name in value:
        if name not in known:
            raise error(f"unknown field {quote_name(join(path, name))}. {near_misses(name, known)}")
    for name in required:
        if name not in value:
            raise error(f"the field {join(path, name)!r} is missing. Write the data again with to_dict().")
    checked: JsonObject = value
    return checked


def read_true(fields: JsonObject, path: str, name: str) -> None:
    """Raise SourceError for a field that is there and not true: its absence means false."""
    if fields.get(name, True) is not True:
        raise error(f"{join(path, name)!r} can only be true: leave it out instead.")


def read(value: Any, path: str, kind: type) -> Any:
    """Return a value that is of one JSON type. Raises SourceError."""
    if type(value) is not kind:
        raise error(f"{quote_name(path) if path else 'it'} must be {_WORDS[kind]}, not {type(value).__name__}.")
    return value


def read_path(data: Any, path: str) -> FunctionPath:
    """Return the import path that data has. Raises SourceError."""
    return read_names(read_object(data, path, ("module", "qualname")), path)


def read_names(data: JsonObject, path: str) -> FunctionPath:
    """Return the import path that two fields of an object have. Raises SourceError."""
    for name in ("module", "qualname"):
        parts = read(data[name], join(path, name), str).split(".")
        if not all(part.isidentifier() for part in parts):
            raise error(f"{join(path, name)!r} must be names joined by dots.")
    if is_program(data["module"]):
        raise error(f"{join(path, 'module')!r} is __main__, which is another program here: use a module.")
    return FunctionPath(data["module"], data["qualname"])
