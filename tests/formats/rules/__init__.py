"""The providers' own rules for exported tools, one linter a provider; the room itself is not asked.

Each module has `broken(export, strict)`: what one export breaks of the provider's rules, in words; nothing when it
keeps them all. `strict` tells whether the export was asked to be strict. Limits on the number of tools of a request
are not among the rules: which tools go into a request is for the caller to say.
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
