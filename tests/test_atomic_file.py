"""A file is written whole or not at all, with its permissions, and never through a link."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ahvn_tools import atomic_file


def test_an_error_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "a.txt"
    file.write_text("old")

    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="the disk is full"):
        atomic_file.write_text(file, "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert file.read_text() == "old"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
def test_permissions_stay_and_those_of_a_new_file_are_the_usual_ones_or_chosen(tmp_path: Path):
    old, usual, private, plain = (tmp_path / name for name in ("old", "usual", "private", "plain"))
    old.write_text("x")
    old.chmod(0o640)
    plain.write_text("x")
    atomic_file.write_text(old, "y", new_mode=0o600)
    atomic_file.write_text(usual, "y")
    atomic_file.write_text(private, "y", new_mode=0o600)
    modes = [file.stat().st_mode & 0o777 for file in (old, usual, private)]
    assert modes == [0o640, plain.stat().st_mode & 0o777, 0o600]


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege on Windows")
@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_is_refused_and_not_replaced(tmp_path: Path, is_there: bool):
    file, link = tmp_path / "file", tmp_path / "link"
    if is_there:
        file.write_text("old")
    link.symlink_to(file)
    with pytest.raises(OSError, match="It is a link: use the path of the file that it leads to"):
        atomic_file.write_text(link, "new")
    assert link.is_symlink()
    assert file.exists() == is_there
    assert not is_there or file.read_text() == "old"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
def test_a_pipe_is_refused_and_not_replaced(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="no regular file"):
        atomic_file.write_text(pipe, "new")
    assert pipe.is_fifo()
