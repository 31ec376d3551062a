"""Virtual environments of the packages, made once and kept in a folder outside of the project."""

from __future__ import annotations

import os
import shutil
import subprocess
import venv
from pathlib import Path

from tests.benchmarks.peers.packages import Package

TIME_LIMIT = 900
"""Seconds that pip may take for one package."""
COMPLETE = "complete"
"""The file that says that an installation has ended."""


def default_folder() -> Path:
    """Return the folder of the environments in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ahvn-tools-benchmarks"


def python_of(package: Package, folder: Path, *, is_fresh: bool = False) -> Path:
    """Return the interpreter of a package's environment; make it if it is not there, or if a fresh one is wanted."""
    home = folder / package.name
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not is_fresh and (home / COMPLETE).exists():
        return python
    shutil.rmtree(home, ignore_errors=True)
    venv.create(home, with_pip=True)
    command = [str(python), "-m", "pip", "install", "--quiet", *package.requirements]
    installed = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIME_LIMIT, check=False
    )
    if installed.returncode:
        raise RuntimeError(f"{package.name} cannot be installed:\n{installed.stderr}")
    (home / COMPLETE).touch()
    return python
