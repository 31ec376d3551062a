"""Changes of one file by threads and processes at the same time: nothing is lost."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from ahvn_tools.builtins.files.atomic_write import locked_folder
from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.errors import CallCancelledError, ToolError

FILES = 20

WORKER = """
import sys
from ahvn_tools.builtins.files.folders import ConfinedFolders
root, worker, edits, files = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
folders = ConfinedFolders(root)
for number in range(edits):
    line = f"{worker} {number}\\n".encode()
    folders.update(f"{number % files}.txt", lambda content, _: content + line, max_bytes=1_000_000)
"""


def lines_of(folder):
    return sorted(line for file in folder.glob("*.txt") for line in file.read_text().splitlines())


@pytest.fixture
def files(tmp_path):
    for number in range(FILES):
        (tmp_path / f"{number}.txt").write_text("")
    return tmp_path


def test_200_updates_of_20_files_by_16_threads_are_all_there(files):
    folders = ConfinedFolders(files)

    def edit(number):
        line = f"thread {number}\n".encode()
        folders.update(f"{number % FILES}.txt", lambda content, _: content + line, max_bytes=100_000)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(edit, range(200)))
    assert lines_of(files) == sorted(f"thread {number}" for number in range(200))
    assert len(list(files.iterdir())) == FILES


@pytest.mark.exhaustive
def test_200_updates_of_20_files_by_4_processes_are_all_there(files):
    programs = [
        subprocess.Popen([sys.executable, "-c", WORKER, str(files), str(worker), "50", str(FILES)])
        for worker in range(4)
    ]
    assert [program.wait(timeout=60) for program in programs] == [0] * 4
    assert lines_of(files) == sorted(f"{worker} {number}" for worker in range(4) for number in range(50))
    assert len(list(files.iterdir())) == FILES


@pytest.mark.parametrize("is_move", [False, True], ids=["create", "move"])
def test_one_of_many_that_make_the_same_file_succeeds(tmp_path, is_move):
    folders = ConfinedFolders(tmp_path)
    (tmp_path / "new").mkdir()
    for number in range(64):
        (tmp_path / f"{number}").touch()

    def make(number):
        try:
            folders.move(f"{number}", "new/file") if is_move else folders.create("new/file", b"%d" % number)
        except ToolError as error:
            return str(error)
        return "done"

    with ThreadPoolExecutor(16) as pool:
        answers = Counter(pool.map(make, range(64)))
    assert list(answers.values()) in ([1, 63], [63, 1])
    assert all(answer == "done" or "exists already" in answer for answer in answers)
    assert len(list((tmp_path / "new").iterdir())) == 1
    assert len(list(tmp_path.iterdir())) == 65 - is_move


def test_a_cancelled_change_stops_waiting(tmp_path):
    (tmp_path / "a.txt").write_text("old")
    folders = ConfinedFolders(tmp_path)
    entered, release = threading.Event(), threading.Event()

    def change(content, _):
        entered.set()
        assert release.wait(30)
        return b"first"

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(folders.update, "a.txt", change, max_bytes=100)
        assert entered.wait(30)
        with pytest.raises(CallCancelledError):
            folders.update("a.txt", lambda content, _: b"second", max_bytes=100, is_cancelled=lambda: True)
        release.set()
        first.result()
    assert (tmp_path / "a.txt").read_text() == "first"


@pytest.mark.exhaustive
def test_a_change_waits_10_seconds_for_another_one(tmp_path):
    (tmp_path / "a.txt").write_text("old")
    folders = ConfinedFolders(tmp_path)
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        with locked_folder(folder), pytest.raises(ToolError, match="10 seconds"):
            folders.update("a.txt", lambda content, _: b"new", max_bytes=100)
    finally:
        os.close(folder)
    assert (tmp_path / "a.txt").read_text() == "old"
    folders.update("a.txt", lambda content, _: b"new", max_bytes=100)


def test_what_another_program_writes_during_a_change_is_not_overwritten(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("old")
    folders = ConfinedFolders(tmp_path)

    def change(content, status):
        file.write_text("written by an editor")
        return b"new"

    with pytest.raises(ToolError, match="changed by another program"):
        folders.update("a.txt", change, max_bytes=100)
    assert file.read_text() == "written by an editor"


def test_the_status_in_a_change_is_that_of_the_content(tmp_path):
    (tmp_path / "a.txt").write_text("old")
    folders = ConfinedFolders(tmp_path)
    version = folders.status("a.txt").version
    seen = []
    after = folders.update("a.txt", lambda content, status: seen.append(status.version) or b"new", max_bytes=100)
    assert seen == [version]
    assert after.version == folders.status("a.txt").version != version


def test_what_a_change_raises_leaves_the_file_as_it_is(tmp_path):
    (tmp_path / "a.txt").write_text("old")
    folders = ConfinedFolders(tmp_path)

    def change(content, status):
        raise TimeoutError("too late")

    with pytest.raises(TimeoutError, match="too late"):
        folders.update("a.txt", change, max_bytes=100)
    assert (tmp_path / "a.txt").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_change_that_waited_is_made_in_the_folder_that_has_the_name_then(tmp_path):
    for name in ("folder", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(name)
    folders = ConfinedFolders(tmp_path)
    waits = threading.Event()
    folder = os.open(tmp_path / "folder", os.O_RDONLY)
    try:
        with ThreadPoolExecutor(1) as pool, locked_folder(folder):
            change = pool.submit(
                folders.update, "folder/a.txt", lambda content, _: content + b"!", max_bytes=100, is_cancelled=waits.set
            )
            assert waits.wait(30)
            (tmp_path / "folder").rename(tmp_path / "old")
            (tmp_path / "other").rename(tmp_path / "folder")
            fcntl.flock(folder, fcntl.LOCK_UN)
            change.result(30)
    finally:
        os.close(folder)
    assert (tmp_path / "old" / "a.txt").read_text() == "folder"
    assert (tmp_path / "folder" / "a.txt").read_text() == "other!"
