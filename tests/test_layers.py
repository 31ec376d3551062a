"""The check of import directions: it passes on the package and refuses planted violations, lazy ones included."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.skipif(
    shutil.which("lint-imports", path=str(Path(sys.executable).parent)) is None, reason="import-linter is not installed"
)

LAZY_CYCLE = """

def _planted() -> object:
    from ahvn_tools.execution import direct_call

    return direct_call
"""

LAZY_UPWARD_IMPORT = """

def _planted() -> object:
    from ahvn_tools.toolkit import Toolkit

    return Toolkit
"""


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the package in this folder."""
    return subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Copy the package and its configuration."""
    shutil.copytree(ROOT / "ahvn_tools", tmp_path / "ahvn_tools", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("module", "planted", "cycle"),
    [
        ("execution/consume.py", LAZY_CYCLE, "No cycles are allowed in ahvn_tools.execution"),
        ("execution/runner.py", LAZY_CYCLE, "No cycles are allowed in ahvn_tools.execution"),
        ("execution/plan.py", LAZY_UPWARD_IMPORT, "ahvn_tools.execution.plan -> ahvn_tools.toolkit"),
    ],
)
def test_an_import_inside_a_function_cannot_hide_a_violation(copy, module, planted, cycle):
    with (copy / "ahvn_tools" / module).open("a", encoding="utf-8") as source:
        source.write(planted)
    checked = check(copy)
    assert checked.returncode == 1, checked.stdout
    assert cycle in checked.stdout


def test_the_package_passes():
    checked = check(ROOT)
    assert checked.returncode == 0, checked.stdout
