"""Validation: what is wrong with a manifest, in the words of YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ahvn_tools.errors import near_misses
from ahvn_tools.loading.read_options import Place
from ahvn_tools.manifest.document import MAX_PROBLEMS, Problem
from ahvn_tools.manifest.model import LOCATIONS, Manifest

_EXPECTED: Final = {
    "bool": "true or false is",
    "dict": "a mapping is",
    "float": "a number is",
    "int": "a whole number is",
    "list": "a list is",
    "model": "a mapping is",
    "string": "a text is",
}
"""What is expected, by the first word of the type of an error of pydantic."""

_CONDITIONS: Final = {
    "greater_than": "must be greater than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    "finite_number": "must be a finite number",
    "int_from_float": "must be a whole number",
}


def validate(data: Any) -> tuple[Manifest | None, list[Problem]]:
    """Return the manifest of this data, or what is wrong with it."""
    known_keys: dict[int, list[str]] = {}
    try:
        return Manifest.model_validate(data, context=known_keys), []
    except ValidationError as error:
        details = error.errors(include_input=False, include_url=False)
    problems = [
        _to_problem(detail, data, known_keys, has_hint=index < MAX_PROBLEMS) for index, detail in enumerate(details)
    ]
    return None, _without_doubles(problems)


def validate_written(data: Any) -> list[Problem]:
    """Return what is wrong with data in which variables are not replaced yet."""
    problems = validate(data)[1]
    return [problem for problem in problems if not _is_open(problem.path, _part(data, problem.path))]


def describe_option_errors(name: str, error: ValueError, model: type[BaseModel]) -> str:
    """Return what is wrong with the options of a middleware, without their values."""
    if not isinstance(error, ValidationError):
        return str(error)
    texts = []
    for detail in error.errors(include_input=False, include_url=False):
        option = str(detail["loc"][0])
        if detail["type"] == "extra_forbidden":
            texts.append(f"`{name}` has no option {option!r}. {near_misses(option, model.model_fields)}")
        else:
            texts.append(f"the option {option!r} of `{name}` does not fit: {_explain(detail, ...)}.")
    return " ".join(dict.fromkeys(texts))


def _to_problem(detail: ErrorDetails, data: Any, known_keys: Mapping[int, Sequence[str]], *, has_hint: bool) -> Problem:
    """Return what is wrong; to look for the key that may be meant takes time."""
    path = _to_path(detail["loc"], data)
    if detail["type"] != "extra_forbidden":
        return Problem(path=path, message=f"{_explain(detail, _part(data, path))}.".replace("?.", "?"))
    owner, key = _part(data, path[:-1]), str(path[-1])
    known = known_keys.get(id(owner), ())
    if key in LOCATIONS and (others := [name for name in LOCATIONS if name in known and name in owner]):
        message = f"the source has `{others[0]}` already: it has only one of {_join(LOCATIONS)}."
        if key == "http" and "openapi" in others:
            message += " How its requests are sent is `http_options`."
        return Problem(path=path, message=message)
    hint = f" {_hint(key, known)}" if has_hint else ""
    return Problem(path=path, message=f"there is no such key.{hint}")


def _hint(key: str, known: Sequence[str]) -> str:
    """Return what may be meant by a key, or all keys that are allowed."""
    hint = near_misses(key, known)
    return hint if hint.startswith("Did you mean") else f"The keys are {_join(known)}."


def _to_path(loc: Sequence[str | int], data: Any) -> Place:
    """Return the part of a location that is in the data: pydantic adds the names of types and of functions."""
    path: Place = ()
    for part in loc:
        here = _part(data, path)
        if (isinstance(here, dict) and part in here) or (isinstance(here, list) and isinstance(part, int)):
            path = (*path, part)
    return path


def _part(data: Any, path: Place) -> Any:
    for key in path:
        data = data[key]
    return data


def _explain(detail: ErrorDetails, value: Any) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind in _CONDITIONS:
        return _CONDITIONS[kind].format(**context)
    if kind == "literal_error":
        choices = str(context["expected"]).replace(" or ", ", ")
        hint = (
            near_misses(value, [choice.strip("'") for choice in choices.split(", ")]) if isinstance(value, str) else ""
        )
        start = f"it is one of {choices}" if "," in choices else f"it can only be {choices}"
        return f"{start}. {hint}" if hint.startswith("Did") else start
    if kind == "source" and isinstance(value, Mapping) and value:
        return f"a source has one of the keys {_join(LOCATIONS)}. {_source_hint(value)}".rstrip(". ")
    if kind == "shorthand":
        return f"{detail['msg']} is expected, not {_name_type(value)}"
    expected = _EXPECTED.get(kind.split("_")[0])
    if expected is None:
        return detail["msg"].rstrip(".")
    if value is ...:
        return f"{expected} expected"
    hint = ". Put it in quotes" if kind == "string_type" and isinstance(value, int | float) else ""
    return f"{expected} expected, not {_name_type(value)}{hint}"


def _source_hint(source: Mapping[str, Any]) -> str:
    hints = (near_misses(key, LOCATIONS) for key in source)
    return next((hint for hint in hints if hint.startswith("Did you mean")), "")


def _name_type(value: Any) -> str:
    names = {bool: "true or false", dict: "a mapping", list: "a list", str: "a text", type(None): "null"}
    return names.get(type(value), "a number")


def _without_doubles(problems: Sequence[Problem]) -> list[Problem]:
    """Return one problem for each path: a value that may be of several types has a problem for each of them."""
    by_path: dict[Place, list[str]] = {}
    for problem in problems:
        by_path.setdefault(problem.path, []).append(problem.message)
    return [Problem(path=path, message=_combine(messages)) for path, messages in by_path.items()]


def _combine(messages: Sequence[str]) -> str:
    middle = " is expected, not "
    if len(messages) > 1 and all(middle in message for message in messages):
        expected = dict.fromkeys(message.split(middle)[0] for message in messages)
        return f"{' or '.join(expected)}{middle}{messages[0].split(middle)[1]}"
    return messages[0]


def _is_open(path: Place, value: Any) -> bool:
    """Return whether a value is replaced later: a variable, or a null of a profile, which removes what is below it."""
    is_in_part = path[:1] in {("profiles",), ("audiences",)} and len(path) > len(("profiles", "name"))
    return (isinstance(value, str) and "${" in value) or (value is None and is_in_part)


def _join(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
