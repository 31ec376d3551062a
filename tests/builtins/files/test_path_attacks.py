"""No path leads out of the roots, whatever is done with it, and none hangs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.builtins.files.walk import walk
from ahvn_tools.errors import ToolError
from tests.builtins.files.place import SECRET, open_descriptors, outside_of, within

LIMIT = 30.0
"""Seconds after which an operation counts as hanging."""

OUTSIDE = {
    "parent": "../SECRET.txt",
    "parent of the parent": "../../../../../../../../etc/passwd",
    "absolute and parent": "{root}/../SECRET.txt",
    "absolute": "{base}/SECRET.txt",
    "system file": "/etc/passwd",
    "file system root": "/",
    "the folder around the root": "..",
    "absolute folder around": "{base}",
    "prefix of the root's name": "{base}/root-evil/SECRET.txt",
    "relative prefix": "../root-evil/SECRET.txt",
    "link": "out",
    "relative link": "out_rel",
    "folder link": "out_dir/SECRET.txt",
    "relative folder link": "out_dir_rel/SECRET.txt",
    "folder link itself": "out_dir",
    "folder link with a dot": "out_dir/.",
    "chain of links": "chain",
    "chain of folder links": "chain_dir/SECRET.txt",
    "link to the parent": "up/SECRET.txt",
    "link to the parent itself": "up",
    "link to a prefix": "evil/SECRET.txt",
    "link in a folder": "sub/climb",
    "folder link in a folder": "sub/climb_dir/SECRET.txt",
    "link with a slash": "out/",
    "link with a dot": "out/.",
    "parent of a folder link": "out_sub/../SECRET.txt",
    "two parents of a folder link": "out_sub/../../SECRET.txt",
    "folder and parents": "sub/../../SECRET.txt",
    "deep folder and parents": "sub/deep/../../../SECRET.txt",
    "missing folder and parents": "missing/../../SECRET.txt",
    "file and parents": "a.txt/../../SECRET.txt",
    "dots": "././../SECRET.txt",
    "slashes": "sub//..//..//SECRET.txt",
    "two slashes at the start": "/{base}/SECRET.txt",
    "many slashes at the start": "///////{base}/SECRET.txt",
    "parent and back": "../root/../SECRET.txt",
    "uri": "file://{base}/SECRET.txt",
    "uri without slashes": "file:{base}/SECRET.txt",
    "uri with localhost": "file://localhost{base}/SECRET.txt",
    "uri with parent": "file://{root}/../SECRET.txt",
    "uri with an escaped parent": "file://{root}/%2e%2e/SECRET.txt",
    "uri with an escaped slash": "file://{root}/..%2fSECRET.txt",
    "uri of a link": "file://{root}/out",
    "uri in upper case": "FILE://{base}/SECRET.txt",
    "uri of a system file": "file:///proc/self/environ",
    "magic root": "/proc/self/root{base}/SECRET.txt",
    "magic cwd": "/proc/self/cwd/../SECRET.txt",
    "magic descriptor": "/proc/self/fd/0",
    "descriptor": "/dev/fd/0",
    "standard input": "/dev/stdin",
    "link to the environment": "environ",
    "link to the magic root": "proc_root{base}/SECRET.txt",
    "link to the magic root itself": "proc_root",
    "link to descriptors": "proc_fd/0",
    "link to the magic cwd": "proc_cwd/x",
    "device": "/dev/zero",
    "link to a device": "zero",
    "memory": "/dev/shm",
    "link to settings": "etc/passwd",
    "dangling link": "dangling",
    "dangling folder link": "dangling_dir/new.txt",
    "new file outside": "../NEW.txt",
    "new file behind a folder link": "out_dir/NEW.txt",
    "new folders behind a folder link": "out_dir/new/deep/NEW.txt",
    "new folder and parents": "new/../../NEW.txt",
}

UNUSABLE = {
    "empty": "",
    "empty uri": "file://",
    "nul": "a.txt\0",
    "nul behind a link": "out\0.txt",
    "home": "~/SECRET.txt",
    "home itself": "~",
    "web": "http://localhost/SECRET.txt",
    "data": "data://text/plain,x",
    "uri of a host": "file://evil{base}/SECRET.txt",
    "relative uri": "file:../SECRET.txt",
    "uri with a query": "file://{root}/a.txt?x",
    "uri that is no UTF-8": "file://{root}/%ff",
    "6000 characters": "x/" * 3000,
    "surrogate": "\ud800",
    "escaped byte": "\udcff",
    "drive": "C:\\SECRET.txt",
    "share": "\\\\host\\SECRET.txt",
    "loop": "loop",
    "ring": "ring",
    "loop and parent": "loop/../out",
    "link through a loop": "hidden",
}

MISSING = {
    "name of 300 characters": "x" * 300,
    "home of another user": "~root/SECRET.txt",
    "variable": "$HOME/SECRET.txt",
    "escape that is none": "%2e%2e/SECRET.txt",
    "double escape": "%252e%252e/SECRET.txt",
    "backslash": "..\\SECRET.txt",
    "full-width dots": "\uff0e\uff0e/SECRET.txt",
    "full-width slash": "..\uff0fSECRET.txt",
    "two-dot leader": "\u2025/SECRET.txt",
    "division slash": "..\u2215SECRET.txt",
    "overlong": "..\xc0\xafSECRET.txt",
    "case": "OUT",
    "space behind a link": "out ",
    "space before": " /etc/passwd",
    "three dots": ".../SECRET.txt",
    "stream of a file": "a.txt:SECRET",
    "reserved name": "CON",
    "file as folder": "a.txt/x",
    "glob": "../*",
    "glob of folders": "**/SECRET.txt",
    "direction marks": "\u202etxt.TERCES/..",
}

NO_FILE = {
    "root": ".", "absolute root": "{root}", "folder": "sub", "root by link": "self_up", "fifo": "fifo",
    "link to a fifo": "to_fifo", "socket": "socket", "giant": "giant",
}  # fmt: skip

ATTACKS = {**OUTSIDE, **UNUSABLE, **MISSING, **NO_FILE}

Operation = Callable[[ConfinedFolders, str], Any]


def open_whole(folders: ConfinedFolders, path: str) -> bytes:
    with folders.open(path) as (file, _):
        return file.read(1000)


READS: dict[str, Operation] = {
    "read": lambda folders, path: folders.read(path, max_bytes=10_000_000),
    "open": open_whole,
    "status": lambda folders, path: folders.status(path),
    "scan": lambda folders, path: folders.scan(path),
    "walk": lambda folders, path: list(walk(folders, path, hidden=True)),
}
CHANGES: dict[str, Operation] = {
    "update": lambda folders, path: folders.update(path, lambda content, _: content + b"!", max_bytes=10_000_000),
    "create": lambda folders, path: folders.create(path, b"new"),
    "overwrite": lambda folders, path: folders.create(path, b"new", overwrite=True),
    "make_folder": lambda folders, path: folders.make_folder(path),
    "move to": lambda folders, path: folders.move("a.txt", path),
    "move from": lambda folders, path: folders.move(path, "empty/moved"),
    "delete": lambda folders, path: folders.delete(path),
}


def params(attacks: dict[str, str]) -> Any:
    return pytest.mark.parametrize("attack", attacks.values(), ids=[name.replace(" ", "_") for name in attacks])


def path_of(attack: str, base: Path) -> str:
    return attack.replace("{base}", str(base)).replace("{root}", str(base / "root"))


def check_message(error: ToolError, path: str) -> None:
    """The message says nothing about places that the path does not name."""
    text = str(error).replace(repr(path), "")
    assert SECRET not in text
    assert not re.search(r"/(tmp|root|outside|etc|proc|dev)\b", text)
    assert len(text) < 400


def test_the_corpus_has_at_least_80_attacks():
    assert len(ATTACKS) >= 100


def check_nothing_outside_is_used(base, attack, operations):
    before, path = outside_of(base), path_of(attack, base)
    descriptors = open_descriptors()
    folders = ConfinedFolders(base / "root", hard_links="refuse")
    for operation in operations:
        try:
            outcome = within(LIMIT, lambda operation=operation: operation(folders, path))
        except ToolError as error:
            check_message(error, path)
        else:
            assert SECRET not in str(outcome).replace(path, "")
    assert outside_of(base) == before
    assert open_descriptors() <= descriptors


def test_no_path_is_read_or_created_outside(base):
    for attack in ATTACKS.values():
        check_nothing_outside_is_used(base, attack, [READS["read"], CHANGES["create"]])


@pytest.mark.exhaustive
@params(ATTACKS)
def test_no_operation_leaves_the_root(base, attack):
    check_nothing_outside_is_used(base, attack, (READS | CHANGES).values())


def test_what_is_outside_is_refused(base):
    """Deleting or moving a link that leads outside is the exception: the link itself is inside."""
    folders = ConfinedFolders(base / "root")
    for attack in (OUTSIDE | UNUSABLE).values():
        path = path_of(attack, base)
        for name, operation in (READS | CHANGES).items():
            if name not in {"delete", "move from", "move to"}:
                with pytest.raises(ToolError, match=r"outside|cannot be used|path|URI|drives|~"):
                    within(LIMIT, lambda operation=operation, path=path: operation(folders, path))


def test_what_is_no_readable_file_is_refused(base):
    folders = ConfinedFolders(base / "root")
    for attack in (MISSING | NO_FILE).values():
        with pytest.raises(ToolError):
            within(LIMIT, lambda path=path_of(attack, base): folders.read(path, max_bytes=10_000_000))


def test_a_path_outside_does_not_tell_what_is_there(base):
    folders = ConfinedFolders(base / "root")
    for attack in OUTSIDE.values():
        if attack.endswith("SECRET.txt"):
            texts = set()
            for path in (path_of(attack, base), path_of(attack, base).replace("SECRET", "missing")):
                with pytest.raises(ToolError) as caught:
                    folders.read(path, max_bytes=1000)
                texts.add(str(caught.value))
            assert len(texts) == 1


ALLOWED = {
    "plain": "sub/b.txt",
    "absolute": "{root}/sub/b.txt",
    "dot": "./sub/./b.txt",
    "slashes": "sub///b.txt",
    "parent": "empty/../sub/b.txt",
    "parent of a missing folder": "missing/../sub/b.txt",
    "out and back": "../root/sub/b.txt",
    "absolute out and back": "{root}/../root/sub/b.txt",
    "link": "in",
    "absolute link": "in_abs",
    "folder link": "in_dir/b.txt",
    "absolute folder link": "in_dir_abs/b.txt",
    "parent of a folder link": "in_deep/../b.txt",
    "chain": "in_chain",
    "link over the root": "sub/deep/over",
    "link out and back": "in_back",
    "uri": "file://{root}/sub/b.txt",
    "escaped uri": "file://{root}/sub/%62.txt",
    "slash at the end": "sub/b.txt/",
}


@pytest.mark.parametrize("is_changed", [False, True], ids=["read", "update"])
def test_what_is_inside_can_be_used(base, is_changed):
    root = base / "root"
    links = {
        "in": "sub/b.txt", "in_abs": root / "sub" / "b.txt", "in_dir": "sub", "in_dir_abs": root / "sub",
        "in_deep": "sub/deep", "in_chain": "in_abs", "sub/deep/over": "../../sub/b.txt", "in_back": "../root/sub/b.txt",
    }  # fmt: skip
    for name, target in links.items():
        (root / name).symlink_to(target)
    folders = ConfinedFolders(root)
    for number, attack in enumerate(ALLOWED.values()):
        path = path_of(attack, base)
        if is_changed:
            folders.update(path, lambda content, _, number=number: b"%d" % number, max_bytes=1000)
            assert (root / "sub" / "b.txt").read_text() == str(number), path
        else:
            assert folders.read(path, max_bytes=1000)[0] == b"content of sub/b.txt", path
            assert folders.display(path) == "sub/b.txt"
    assert all((root / name).is_symlink() for name in links)
