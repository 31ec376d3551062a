"""Every test of files runs with both techniques of opening a path."""

from __future__ import annotations

from pathlib import Path

import pytest

from ahvn_tools.builtins.files.beneath import Technique
from ahvn_tools.builtins.files.kernel import has_openat2
from tests.builtins.files.place import build_place


@pytest.fixture(params=["openat2", "walk"])
def technique(request: pytest.FixtureRequest) -> Technique:
    if request.param == "openat2" and not has_openat2():
        pytest.skip("this kernel has no openat2")
    return request.param


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Return a folder with secrets and, in `root`, a root that leads to them in many ways."""
    build_place(tmp_path.resolve())
    return tmp_path.resolve()
