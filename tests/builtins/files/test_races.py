"""Another program exchanges files and folders for links that lead outside, as fast as it can, while tools use them."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.builtins.files.walk import walk
from ahvn_tools.errors import ToolError
from tests.builtins.files.place import SECRET, open_descriptors, outside_of

SECONDS = 4.0

EXCHANGE = """
import ctypes, sys
libc, AT_FDCWD, RENAME_EXCHANGE = ctypes.CDLL(None), -100, 2
pairs = [(name.encode(), other.encode()) for name, other in zip(sys.argv[1::2], sys.argv[2::2])]
print("started", flush=True)
while True:
    for name, other in pairs:
        libc.renameat2(AT_FDCWD, name, AT_FDCWD, other, RENAME_EXCHANGE)
"""

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform != "linux", reason="renames that exchange two files are those of Linux"),
]


@contextlib.contextmanager
def exchanging(*paths: Path) -> Iterator[None]:
    """Exchange each first path for each second one until the block ends."""
    program = [sys.executable, "-c", EXCHANGE, *map(str, paths)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n"
            yield
            assert process.poll() is None
        finally:
            process.kill()


@pytest.fixture
def root(base: Path) -> Path:
    """Return a root with a file and a folder, and a link for each to be exchanged for."""
    root = base / "root"
    (root / "swap").write_text("inside")
    (root / "swap_link").symlink_to(base / "SECRET.txt")
    (root / "folder").mkdir()
    for name in ("SECRET.txt", "x.txt"):
        (root / "folder" / name).write_text("inside")
        (base / "outside" / name).write_text(SECRET)
    (root / "folder_link").symlink_to(base / "outside")
    (root / "stable.txt").write_text("stable")
    return root


def repeat(body: Callable[[int], object]) -> Counter[str]:
    """Call `body` for some seconds and count the answers; a ToolError is one."""
    answers: Counter[str] = Counter()
    texts: set[str] = set()
    end, number = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        number += 1
        try:
            answers[str(body(number))] += 1
        except ToolError as error:
            answers["refused"] += 1
            texts.add(str(error))
    assert not any(SECRET in text.replace("SECRET.txt", "") for text in texts)
    return answers


def test_reads_never_leak(root, base):
    folders = ConfinedFolders(root)
    descriptors = open_descriptors()

    def read(number: int) -> str:
        assert folders.read("stable.txt", max_bytes=100)[0] == b"stable"
        path = ("swap", "folder/SECRET.txt", "folder/../folder/x.txt", "folder/./x.txt")[number % 4]
        return folders.read(path, max_bytes=100)[0].decode()

    with exchanging(root / "swap", root / "swap_link", root / "folder", root / "folder_link"):
        answers = repeat(read)
    assert set(answers) == {"inside", "refused"}
    assert answers["inside"] > 100
    assert open_descriptors() <= descriptors


def test_changes_never_reach_the_outside(root, base):
    folders = ConfinedFolders(root)
    before = outside_of(base)
    changes: list[Callable[[int], object]] = [
        lambda number: folders.update("swap", lambda content, _: content, max_bytes=100),
        lambda number: folders.update("folder/x.txt", lambda content, _: content, max_bytes=100),
        lambda number: folders.create("swap", b"inside", overwrite=True),
        lambda number: folders.create("folder/x.txt", b"inside", overwrite=True),
        lambda number: folders.create(f"folder/new{number}/deep.txt", b"inside"),
        lambda number: folders.make_folder(f"folder/made{number}/deep"),
        lambda number: folders.create(f"moving{number}", b"inside"),
        lambda number: folders.move(f"moving{number - 1}", f"folder/moved{number}/x"),
        lambda number: folders.move("folder/x.txt", "folder/other.txt"),
        lambda number: folders.move("folder/other.txt", "folder/x.txt"),
        lambda number: folders.delete("folder/SECRET.txt"),
    ]

    def change(number: int) -> str:
        changes[number % len(changes)](number)
        return f"change {number % len(changes)}"

    with exchanging(root / "swap", root / "swap_link", root / "folder", root / "folder_link"):
        answers = repeat(change)
    assert outside_of(base) == before
    assert len(answers) > len(changes) // 2, "most kinds of changes succeed now and then"


def test_walks_never_leave_the_root(root, base):
    folders = ConfinedFolders(root)
    (base / "outside" / "ONLY_OUTSIDE.txt").write_text(SECRET)
    (root / "folder" / "deep").mkdir()
    (root / "folder" / "deep" / "y.txt").write_text("inside")
    (base / "outside" / "deep").mkdir()
    (base / "outside" / "deep" / "ONLY_OUTSIDE.txt").write_text(SECRET)

    def search(_: int) -> str:
        found = [file.path for file in walk(folders, ".")] + [file.path for file in walk(folders, "folder")]
        found += list(folders.scan("folder"))
        assert "stable.txt" in found
        assert not any("ONLY_OUTSIDE" in path for path in found)
        return "walked"

    with exchanging(root / "folder", root / "folder_link"):
        answers = repeat(search)
    assert answers["walked"] > 10


def test_a_root_that_is_exchanged_is_not_used(base):
    """The root itself becomes a link or another folder, again and again."""
    root = base / "root"
    (base / "root_link").symlink_to(base / "outside")
    (base / "other").mkdir()
    (base / "other" / "a.txt").write_text(SECRET)
    (base / "outside" / "a.txt").write_text(SECRET)
    folders = ConfinedFolders(root)
    with exchanging(root, base / "root_link", root, base / "other"):
        answers = repeat(lambda _: folders.read("a.txt", max_bytes=100)[0].decode())
    assert set(answers) <= {"content of a.txt", "refused"}
    assert answers["content of a.txt"]
