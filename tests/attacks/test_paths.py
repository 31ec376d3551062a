"""Attacks on roots: paths that a model sends to read, or to write, outside of the folders that the host has named."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ahvn_tools import ToolContext, Toolkit
from tests.attacks.attack import CANARY, Attack, equals, rows, shows_nothing


class Disk:
    """A folder of ann in one of all users, beside a file that only the host may read; and tools for it."""

    def __init__(self, home: Path) -> None:
        self.home, self.root = home, home / "ann"
        for folder in (self.root, home / "ann-2", self.root / "notes"):
            folder.mkdir()
        for place in (home / "key", home / "ann-2" / "key"):
            place.write_text(CANARY)
        (self.root / "notes" / "own").write_text("own")
        kit = Toolkit("disk", roots=home)

        def read(path: str, context: ToolContext) -> str:
            return context.check_path(path).read_text()

        def link(path: str, target: str, context: ToolContext) -> None:
            context.check_path(path).symlink_to(target)

        async def through(path: str, context: ToolContext) -> Any:
            return await context.toolkit.aexec("read", {"path": path})

        kit.add(read, link, through).add(*kit.background_tools())
        self.session = kit.session(roots=self.root)


def on_disk(act: Callable[[Disk], Any]) -> Callable[[], Any]:
    def attack() -> Any:
        with tempfile.TemporaryDirectory() as home:
            return act(Disk(Path(home).resolve()))

    return attack


def outside(disk: Disk) -> list[Any]:
    """Write the path of a file outside in many ways."""
    key = str(disk.home / "key")
    relative = ["../key", "./../key", "notes/../../key", "notes/own/../../../key", "../ann-2/key", "..\\key", ".. /key"]
    absolute = [key, f"//{key}", f"/.{key}", f"/proc/self/root{key}", f"{disk.root}/../key", f"{disk.root}-2/key"]
    uris = [f"{scheme}{key}" for scheme in ("file:", "file://", "FILE://localhost", "file:////")]
    uris += [f"file://{disk.root}{rest}" for rest in ("/%2e%2e/key", "/..%2fkey", "%00/../key")]
    uris.append(f"file://{quote(key, safe='')}")
    odd = ["~root/../../key", "", "\0", "\ud800", "a" * 5000, "../key\0", "\u2024\u2024/key", "..%2fkey", "%2e%2e/key"]
    return [disk.session.exec("read", {"path": path}) for path in (*relative, *absolute, *uris, *odd)]


def by_links(disk: Disk) -> list[Any]:
    """Make links inside of the folder: to a file, to a folder, to a link, and to itself."""
    targets = {"a": "../key", "b": "..", "c": "b", "d": "d", "e": str(disk.home), "f": "/proc/self/cwd"}
    for name, target in targets.items():
        disk.session.exec("link", {"path": name, "target": target})
    paths = ["a", "b/key", "c/key", "d", "d/../../key", "e/key", "f/key", "notes/../b/key", "c/ann-2/key"]
    return [disk.session.exec("read", {"path": path}) for path in paths]


def by_other_ways(disk: Disk) -> list[Any]:
    """Read in the background, through another tool, in a selection and with roots among the arguments."""
    session, path = disk.session, {"path": "../key"}
    found = [session.wait(session.start("read", path), 20).result, session.exec("through", path)]
    found += [session.select(names=["read"]).exec("read", path), session.session().exec("read", path)]
    found += [session.exec("read", {**path, "roots": ["/"]}), session.exec("read", path, roots=[])]
    started = session.call("start_call", {"name": "read", "arguments": path})
    return [*found, session.exec("wait_for_call", {"id": started["id"]})]


def in_a_replaced_root(disk: Disk) -> list[Any]:
    """Replace the folder itself by a link to another one."""
    with contextlib.suppress(OSError):
        disk.root.rename(disk.home / "moved")
        disk.root.symlink_to(disk.home / "ann-2")
    return [disk.session.exec("read", {"path": path}) for path in ("key", str(disk.root / "key"))]


def inside(disk: Disk) -> list[str]:
    """What is inside can still be read."""
    return [disk.session.call("read", {"path": path}) for path in ("notes/own", f"{disk.root}/notes/../notes/own")]


ATTACKS = [
    Attack("paths that lead outside", on_disk(outside), shows_nothing),
    Attack("links that lead outside", on_disk(by_links), shows_nothing),
    Attack("other ways to call", on_disk(by_other_ways), shows_nothing),
    Attack("a root that became a link", on_disk(in_a_replaced_root), shows_nothing),
    Attack("what is inside", on_disk(inside), equals(["own", "own"])),
]


@pytest.mark.parametrize("attack", rows(ATTACKS))
def test_what_must_hold_holds(attack, carry_out):
    outcome = carry_out(attack)
    assert attack.holds(outcome), outcome
