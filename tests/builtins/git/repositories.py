"""Real repositories for tests, made by git itself without the user's configuration."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from ahvn_tools import Toolkit
from ahvn_tools.builtins.git import Git

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.com",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.com",
    "GIT_ALLOW_PROTOCOL": "file:ext:ssh:https",
    "LC_ALL": "C.UTF-8",
}


def git(folder: Path, *arguments: str, stdin: str = "", check: bool = True, **environment: str) -> str:
    """Run git as a person would, and return what it wrote."""
    done = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *arguments],
        cwd=folder,
        env={**ENVIRONMENT, **environment},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout + ("" if check else done.stderr)


def make_repository(folder: Path) -> Path:
    """Return a repository with two branches that change a file in different places, and a change that is not staged."""
    shutil.copytree(_template(), folder, dirs_exist_ok=True)
    return folder


@functools.cache
def _template() -> Path:
    """Return the repository that the others are copies of. Pytest does not delete it, this process does."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 21)))
    (folder / "docs").mkdir()
    (folder / "docs/b.txt").write_text("b\n")
    commit_all(folder, "First")
    git(folder, "checkout", "-q", "-b", "other")
    (folder / "a.txt").write_text((folder / "a.txt").read_text().replace("line 1\n", "other 1\n"))
    commit_all(folder, "Other")
    git(folder, "checkout", "-q", "main")
    (folder / "a.txt").write_text((folder / "a.txt").read_text().replace("line 20\n", "main 20\n"))
    commit_all(folder, "Second")
    (folder / "docs/b.txt").write_text("b\nchanged\n")
    return folder


def commit_all(folder: Path, message: str) -> str:
    """Commit everything, and return the hash."""
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD").strip()


def git_kit(folder: Path, **options: Any) -> Toolkit:
    """Return a toolkit with the git tools of a folder, which ask for no approval."""
    options = {"approve": "never", "author": ("Bob", "bob@example.com"), "sandbox": "none", **options}
    return Toolkit("code").add(Git(folder, **options))


def run(kit: Toolkit, args: str, uri: str = ".") -> str:
    """Return the text that a model reads of a git command."""
    return kit.exec("git_cmd", {"uri": uri, "args": args}).text
