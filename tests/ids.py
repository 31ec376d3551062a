"""Ids of parametrized tests that are the same in every process, so that the tests can be shared out between several."""

from __future__ import annotations

import re

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def named(value: object) -> str:
    """Return the repr of a value without the addresses of objects."""
    return ADDRESS.sub("", repr(value))
