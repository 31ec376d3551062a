"""Files with tools in the folder of a test. What a test imports from there is forgotten afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.imported_modules import forgotten


@pytest.fixture(autouse=True)
def forgotten_modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Forget the modules in the folder of a test. A test file that imports this fixture has it for all its tests."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    with forgotten(tmp_path):
        yield


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write files in a folder, by their paths there, and return the folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder
