"""Fixtures: proof that nothing of the code is left, and a file that code must not reach."""

from __future__ import annotations

import shutil
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builtins.python_runner.running import (
    LONGEST,
    left_folders,
    left_processes,
    left_threads,
    open_descriptors,
    run_once,
)


@pytest.fixture(scope="session")
def first_run() -> None:
    """Make what is made at the first use and stays: the private folder, imports."""
    run_once("")


@pytest.fixture
def nothing_left(first_run: None) -> Iterator[None]:
    """Fail if the test leaves a process, a thread, a file descriptor or a temporary folder."""
    descriptors = open_descriptors()
    yield
    assert left_processes() == []
    assert left_folders() == []
    for thread in left_threads():
        thread.join(LONGEST)
    assert left_threads() == []
    assert open_descriptors() <= descriptors


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    """A file of the host outside of all roots."""
    folder = tmp_path / "outside"
    folder.mkdir()
    file = folder / "secret.txt"
    file.write_text("host-secret-4711")
    return file


@pytest.fixture(scope="session")
def own_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The Python of a virtual environment without packages."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder / "empty", with_pip=False, symlinks=True)
    yield str(folder / "empty" / "bin" / "python")
    shutil.rmtree(folder)
