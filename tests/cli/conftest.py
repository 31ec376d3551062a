"""Unload the modules that a command loads in the process of a test."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

LOADED = {"count_words", "desk", "garden", "hut", "json", "more", "part", "shed", "tools", "two words"}


@pytest.fixture(autouse=True)
def _modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in LOADED - {"json"}:  # another file of tests may have left one
        monkeypatch.delitem(sys.modules, name, raising=False)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.removeprefix("_loaded_").partition(".")[0] in LOADED:
            del sys.modules[name]
