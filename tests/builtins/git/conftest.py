"""A repository for each test, and the git tools of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ahvn_tools import Toolkit
from tests.builtins.git.repositories import git_kit, make_repository


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with two branches and a change that is not staged."""
    return make_repository(tmp_path / "work")


@pytest.fixture
def kit(folder: Path) -> Toolkit:
    """The git tools of the repository, which ask for no approval."""
    return git_kit(folder)
