"""Modules that a test imports from its folder are forgotten afterwards."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def forgotten(folder: Path) -> Iterator[None]:
    """Forget the modules of a folder that are imported in the block."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if name.startswith("_loaded_") or Path(file).is_relative_to(folder):
            del sys.modules[name]
