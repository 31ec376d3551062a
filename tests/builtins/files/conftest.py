"""The place in which the tests of files work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builtins.files.place import build_place


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Return a folder with secrets and, in `root`, a root that leads to them in many ways."""
    build_place(tmp_path.resolve())
    return tmp_path.resolve()
