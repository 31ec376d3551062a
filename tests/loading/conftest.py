"""Each test has a folder of its own; what it imports from there is forgotten afterwards."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from ahvn_tools.sources.http import connections
from tests.imported_modules import forgotten
from tests.toolkit.conftest import idle_workers_end, nothing_is_left

__all__ = ["idle_workers_end", "nothing_is_left"]


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with forgotten(tmp_path):
        yield


@pytest.fixture
def write() -> Callable[..., str]:
    """Return a function that writes a file of the folder and returns its name."""

    def write_file(text: str, name: str = "shed.py") -> str:
        file = Path(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text), encoding="utf-8")
        return name

    return write_file


@pytest.fixture(autouse=True)
def short_keepalive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Close unused connections of HTTP tools soon, so that no file of tests waits for it."""
    monkeypatch.setattr(connections, "KEEPALIVE_SECONDS", 0.1)
