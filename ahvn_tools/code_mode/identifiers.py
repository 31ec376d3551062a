"""The names of tools and parameters as Python identifiers."""

from __future__ import annotations

import builtins
import hashlib
import keyword
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

_RESERVED: Final = frozenset({*dir(builtins), *keyword.kwlist, "asyncio", "typing"})
"""Names that mean something else in a program."""


def to_identifier(name: str) -> str:
    """Return the name, changed as little as possible so that it is a Python identifier.

    >>> to_identifier("create-issue"), to_identifier("list"), to_identifier("3d")
    ('create_issue', 'list_', '_3d')
    """
    fitted = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
    if fitted[0].isdigit():
        fitted = f"_{fitted}"
    if fitted.startswith("__"):
        fitted = f"tool{fitted}"
    return f"{fitted}_" if fitted in _RESERVED else fitted


def assign_identifiers(names: Iterable[str]) -> dict[str, str]:
    """Return each name by an identifier of its own: names that would share one end with a part of their SHA-256.

    >>> assign_identifiers(["get", "a-b", "a.b"])
    {'get': 'get', 'a_b_d44362d6': 'a-b', 'a_b_2e7336dc': 'a.b'}
    """
    fitted = {name: to_identifier(name) for name in names}
    counts = Counter(fitted.values())
    assigned: dict[str, str] = {}
    for name, identifier in fitted.items():
        if counts[identifier] > 1 and identifier != name:
            digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
            assigned[f"{identifier}_{digest}"] = name
        else:
            assigned[identifier] = name
    return assigned
