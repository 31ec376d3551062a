"""Problems of arguments in words, for models: each names a location and a rule, and repeats nothing of the input."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ahvn_tools.error_detail import ArgumentProblem
from ahvn_tools.errors import InvalidParametersError, near_misses
from ahvn_tools.schema.subschemas import InstancePath

MAX_PROBLEMS = 5
"""A message lists at most this many problems."""

MAX_ERRORS = 50
"""A message is made from at most this many of a validator's errors."""

_SAFE_NAME = re.compile(r"[^\W\d]\w{0,63}\Z")
"""A message repeats an unknown name only when it is a plain one: others may be misplaced values."""


def join_problems(problems: list[str], omitted: int = 0, *, is_complete: bool = True) -> str:
    """Return the message about some problems, with the number of those that are not listed."""
    more = max(len(problems) - MAX_PROBLEMS, 0) + omitted
    rest = f"; and {more} more" if more else ""
    return f"Invalid arguments: {'; '.join(problems[:MAX_PROBLEMS])}{rest if is_complete else '; and possibly more'}."


def unknown_argument(
    name: str, known: Iterable[str], *, has_hint: bool = True, none_known: str = "the tool takes no arguments"
) -> str:
    """Return the problem of an argument that is not a parameter; the hint contains the nearest known names.

    `none_known` is the hint without known names.
    """
    return f"unknown argument {_name_with_hint(name, known, none_known, has_hint=has_hint)}"


def unknown_property(
    location: str, name: str, known: Iterable[str], *, has_hint: bool = True, none_known: str = "it has no properties"
) -> str:
    """Return the problem of a member that an object inside of the arguments may not have."""
    hinted = _name_with_hint(name, known, none_known, has_hint=has_hint)
    return f"{location} has an unknown property {hinted}"


def _name_with_hint(name: str, known: Iterable[str], none_known: str, *, has_hint: bool) -> str:
    label, known = repr(name) if _SAFE_NAME.match(name) else "with an invalid name", list(known)
    if not has_hint or name in known:  # another alternative of the object has a member of this name
        return label
    hint = near_misses(name, known).rstrip(".") if known else none_known
    return f"{label} ({hint[0].lower()}{hint[1:]})"


def unknown_arguments_error(names: Sequence[str], known: Iterable[str]) -> InvalidParametersError:
    """Return the error about arguments that are not parameters."""
    known = list(known)
    problems = [
        to_problem([name], unknown_argument(name, known, has_hint=index < MAX_PROBLEMS))
        for index, name in enumerate(names[:MAX_ERRORS])
    ]
    texts = dict.fromkeys(problem.text for problem in problems)
    message = join_problems(list(texts), max(len(names) - MAX_ERRORS, 0))
    return InvalidParametersError(message, problems=tuple(problems))


def to_problem(path: Iterable[str | int], text: str) -> ArgumentProblem:
    """Return the problem at a path in the arguments."""
    return ArgumentProblem(to_pointer(path), text)


def to_pointer(path: Iterable[str | int]) -> str:
    """Return a path in JSON as a JSON pointer."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def format_location(location: InstancePath, arguments: Any, names: frozenset[str]) -> str:
    """Return a location in words. Keys of free objects belong to the input and are omitted.

    `names` are the names that the schema declares. Steps that are neither in the input nor declared are skipped:
    pydantic mixes in the names of union branches.
    """
    node = arguments
    text, is_inside = "", False
    for step in location:
        is_name = isinstance(step, str) and step in names
        if isinstance(node, dict) and step in node:
            node, is_inside = node[step], not is_name
        elif isinstance(node, list | tuple) and isinstance(step, int) and step < len(node):
            node, is_inside = node[step], False
            text += f"[{step}]"
            continue
        if is_name:
            text += f".{step}" if text else str(step)
    label = repr(text) if text else "the argument object"
    return f"a value in {label}" if is_inside else label


def find_changes(sent: Any, passed: Any, path: InstancePath = ()) -> Iterator[str]:
    """Yield a JSON pointer to each sent value that is passed on in another form, or not at all; added ones are none."""
    if isinstance(sent, dict) and isinstance(passed, dict):
        for name, value in sent.items():
            if name in passed:
                yield from find_changes(value, passed[name], (*path, name))
            else:
                yield to_pointer((*path, name))
    elif isinstance(sent, list) and isinstance(passed, list) and len(sent) == len(passed):
        for index, (value, other) in enumerate(zip(sent, passed, strict=True)):
            yield from find_changes(value, other, (*path, index))
    elif sent != passed or isinstance(sent, bool) is not isinstance(passed, bool):
        yield to_pointer(path)
