"""A root with links, pipes and sockets in it, secrets around it, and ways to see what left or reached them."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

SECRET = "SECRET"
"""Stands in the content and the name of every file outside."""
GIANT = 64 * 1024**3


def build_place(base: Path) -> Path:
    """Return a root in `base` with something of every kind in it; the rest of `base` is secret."""
    root = base / "root"
    for folder in (root / "sub" / "deep", root / "empty", base / "root-evil", base / "outside" / "sub"):
        folder.mkdir(parents=True)
    for file in (base / "SECRET.txt", base / "root-evil" / "SECRET.txt", base / "outside" / "SECRET.txt"):
        file.write_text(SECRET)
    for name in ("a.txt", "sub/b.txt", "sub/deep/c.txt"):
        (root / name).write_text(f"content of {name}")
    _make_links(root, base)
    os.mkfifo(root / "fifo")
    os.link(base / "SECRET.txt", root / "hard")
    _make_socket(root / "socket")
    with (root / "giant").open("wb") as file:
        file.truncate(GIANT)
    return root


def _make_links(root: Path, base: Path) -> None:
    links: dict[str, str | Path] = {
        "out": base / "SECRET.txt", "out_rel": "../SECRET.txt", "out_dir": base / "outside",
        "out_dir_rel": "../outside",
        "out_sub": base / "outside" / "sub", "chain": "out", "chain_dir": "out_dir", "up": "..", "self_up": "sub/..",
        "loop": "loop", "ring": "ring2", "ring2": "ring", "hidden": "loop/../out", "dangling": base / "NEW.txt",
        "dangling_dir": base / "newdir", "environ": "/proc/self/environ", "proc_root": "/proc/self/root",
        "proc_fd": "/proc/self/fd", "proc_cwd": "/proc/self/cwd", "zero": "/dev/zero", "to_fifo": "fifo",
        "evil": base / "root-evil", "sub/climb": "../../SECRET.txt", "sub/climb_dir": "../..", "etc": "/etc",
    }  # fmt: skip
    for name, target in links.items():
        (root / name).symlink_to(target)


def _make_socket(path: Path) -> None:
    server = socket.socket(socket.AF_UNIX)
    current = Path.cwd()
    os.chdir(path.parent)  # the path of a socket has at most 107 bytes
    try:
        server.bind(path.name)
    finally:
        os.chdir(current)
        server.close()


def outside_of(base: Path) -> dict[str, tuple[Any, ...]]:
    """Return what exists outside of the root, with contents and modes, to compare it later."""
    found: dict[str, tuple[Any, ...]] = {}
    for place, folders, files in os.walk(base):
        if Path(place) == base:
            folders.remove("root")
        for name in [*folders, *files]:
            path = Path(place, name)
            status = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            found[str(path)] = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ino, content)
    return found


def within(seconds: float, body: Callable[[], Any]) -> Any:
    """Return what `body` returns or raise what it raises; fail if it hangs."""
    outcome: list[tuple[bool, Any]] = []

    def run() -> None:
        try:
            outcome.append((True, body()))
        except BaseException as error:  # raised again below
            outcome.append((False, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert outcome, f"It still runs after {seconds} s."
    succeeded, value = outcome[0]
    if succeeded:
        return value
    raise value


def open_descriptors() -> set[str]:
    """Return what the descriptors of this process lead to, by number."""
    found = set()
    for number in Path("/proc/self/fd").iterdir():
        try:
            found.add(f"{number.name} {number.readlink()}")
        except FileNotFoundError:  # the one of this listing
            continue
    return found
