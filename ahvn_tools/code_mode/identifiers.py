"""The names of tools and parameters as Python identifiers."""

from __future__ import annotations

import builtins
import hashlib
import keyword
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

MODULES: Final = (
    "asyncio", "base64", "bisect", "collections", "copy", "csv", "dataclasses", "datetime", "decimal", "functools",
    "hashlib", "itertools", "json", "math", "os", "pathlib", "random", "re", "sys", "time", "typing", "unicodedata",
)  # fmt: skip
"""The modules that programs import: no function has one of these names."""

_TYPE_NAMES: Final = ("Any", "Literal", "Mapping", "NotRequired", "Sequence", "TypedDict")
"""The names that declarations of functions use."""

_RESERVED: Final = frozenset({*dir(builtins), *keyword.kwlist, *MODULES, *_TYPE_NAMES, "start_of_program_"})
"""Names that mean something else in a program, or in its check."""

_SNAKE_CASE: Final = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*")


def to_identifier(name: str) -> str:
    """Return the name of a tool, changed as little as possible so that it is a Python identifier.

    >>> to_identifier("create-issue"), to_identifier("list"), to_identifier("3d")
    ('create_issue', 'list_', '_3d')
    """
    fitted = _fit(name)
    return f"{fitted}_" if fitted in _RESERVED else fitted


def to_parameter(name: str) -> str:
    """Return the name of a parameter as a Python identifier. Parameters may be called as built-in functions are.

    >>> to_parameter("from"), to_parameter("per-page"), to_parameter("id")
    ('from_', 'per_page', 'id')
    """
    fitted = _fit(name)
    return f"{fitted}_" if keyword.iskeyword(fitted) else fitted


def assign_identifiers(names: Iterable[str]) -> dict[str, str]:
    """Return the name of each tool by an identifier of its own.

    Names that would share one end with a part of their SHA-256, as do names that the type of another tool has.

    >>> assign_identifiers(["get", "a-b", "a.b"])
    {'get': 'get', 'a_b_d44362d6': 'a-b', 'a_b_2e7336dc': 'a.b'}
    """
    fitted = {name: to_identifier(name) for name in names}
    prefixes = {type_prefix(identifier) for identifier in fitted.values()}
    taken = {name for name, identifier in fitted.items() if identifier[: identifier.rfind("_") + 1] in prefixes}
    return _make_unique(fitted, taken)


def assign_parameters(names: Iterable[str]) -> dict[str, str]:
    """Return the name of each parameter of one tool by an identifier of its own."""
    return _make_unique({name: to_parameter(name) for name in names}, set())


def type_prefix(function: str) -> str:
    """Return how the names of the types of a function begin. The rest of them is made of letters and digits.

    >>> type_prefix("list_issues"), type_prefix("listIssues")
    ('ListIssues_', 'listIssues__')
    """
    if not _SNAKE_CASE.fullmatch(function):
        return f"{function}__"
    return "".join(part[:1].upper() + part[1:] for part in function.split("_")) + "_"


def _fit(name: str) -> str:
    fitted = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
    if fitted[0].isdigit():
        fitted = f"_{fitted}"
    return f"tool{fitted}" if fitted.startswith("__") else fitted


def _make_unique(fitted: dict[str, str], taken: set[str]) -> dict[str, str]:
    """Return the names by their identifiers; `taken` are names whose identifiers mean something else."""
    counts = Counter(fitted.values())
    kept = {
        identifier: name
        for name, identifier in fitted.items()
        if name not in taken and (identifier == name or counts[identifier] == 1)
    }
    assigned: dict[str, str] = {}
    for name, identifier in fitted.items():
        if kept.get(identifier) != name:
            digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
            identifier = next(  # noqa: PLW2901  # the name's own identifier
                longer
                for length in range(8, 65)
                if (longer := f"{identifier}_{digest[:length]}") not in kept and longer not in assigned
            )
        assigned[identifier] = name
    return assigned
