"""A writer that is killed at any moment leaves the old content or the new content, and no heap of temporary files."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time

import pytest

from ahvn_tools.builtins.files import atomic_write
from ahvn_tools.builtins.files.folders import ConfinedFolders

SIZE = 400_000
KILLS = 40

WRITER = """
import sys
from ahvn_tools.builtins.files.folders import ConfinedFolders
folders, size = ConfinedFolders(sys.argv[1]), int(sys.argv[2])
print("started", flush=True)
while True:
    for letter in b"abcdefgh":
        folders.update("file.txt", lambda content, _: bytes([letter]) * size, max_bytes=size)
        folders.create(f"new-{letter}.txt", bytes([letter]) * size, overwrite=True)
        folders.delete(f"new-{letter}.txt")
"""


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_a_killed_writer_leaves_old_or_new_content(tmp_path):
    (tmp_path / "file.txt").write_bytes(b"z" * SIZE)
    moments = random.Random(1)
    seen, names_max = set(), 0
    for _ in range(KILLS):
        program = [sys.executable, "-c", WRITER, str(tmp_path), str(SIZE)]
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "started\n"
            time.sleep(moments.random() * 0.03)  # the moment of the kill is the point of this test
            writer.send_signal(signal.SIGKILL)
        for path in tmp_path.glob("*.txt"):
            content = path.read_bytes()
            assert len(content) == SIZE
            assert len(set(content)) == 1
            seen.add(content[:1])
        names_max = max(names_max, len(list(tmp_path.iterdir())))
    assert len(seen) > 1
    assert names_max <= 10, "temporary files pile up"
    ConfinedFolders(tmp_path).create("last.txt", b"")
    assert not list(tmp_path.glob(".ahvn-*"))


def test_what_killed_writers_have_left_is_removed_by_the_next_change(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_write, "_swept", {})  # a folder of an earlier test may have had the same inode
    leftover = tmp_path / f".ahvn-{'0' * 16}.tmp"
    for name in (leftover.name, ".ahvn-notes.tmp", ".ahvn-0.tmp"):
        (tmp_path / name).write_text("half of a te")
    folders = ConfinedFolders(tmp_path)
    assert folders.scan(".").keys() == {".ahvn-notes.tmp", ".ahvn-0.tmp"}
    folders.create("a.txt", b"a")
    assert {path.name for path in tmp_path.iterdir()} == {".ahvn-notes.tmp", ".ahvn-0.tmp", "a.txt"}


def test_a_write_that_fails_leaves_no_temporary_file(tmp_path):
    """The name is too long: the temporary file is written, and then cannot be renamed."""
    folders = ConfinedFolders(tmp_path)
    with pytest.raises(Exception, match="too long"):
        folders.create("x" * 256, b"a")
    assert list(tmp_path.iterdir()) == []
