"""The providers' own rules for exported tools: one linter per provider, independent of the code under test.

Each module has `broken(export, strict)`: the rules that one export breaks, as texts; none if it obeys them all.
`strict` states whether a strict export was requested. Limits on the number of tools in a request are not included,
because the caller decides which tools a request contains.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

Linter = Callable[[list[Any], bool], list[str]]


def linter(name: str) -> Linter:
    """Return the linter of a format."""
    found: Linter = importlib.import_module(f"{__name__}.{name.replace('-', '_')}").broken
    return found
