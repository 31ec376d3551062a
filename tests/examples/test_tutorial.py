"""docs/tutorial.md, step by step in an empty folder: its files, its commands, and what they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.sealed import without_keys

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(
    r'^```(?:py title="(?P<file>[\w.]+)"|(?P<kind>bash|text))\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL
)


def test_the_tutorial_works_in_an_empty_folder(tmp_path):
    """Its environment exists already, so the commands that make and fill one are left out."""
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    environment = {
        **without_keys(os.environ),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "100",
    }
    printed = ""
    for block in BLOCK.finditer(page):
        file, kind, text = block["file"], block["kind"], block["text"]
        if file:
            (tmp_path / file).write_text(text, encoding="utf-8")
        elif kind == "text":
            assert printed == text.replace("[y/n] y\n", "[y/n] ")
        else:
            command = re.sub(r"^(mkdir notes-agent|python3 -m venv|pip install).*\n", "", text, flags=re.MULTILINE)
            printed = run(command, tmp_path, environment)


def run(command: str, folder: Path, environment: dict[str, str]) -> str:
    """Run commands in a shell whose user answers each question with `y`; return what they print."""
    finished = subprocess.run(
        ["bash", "-euc", command],
        cwd=folder,
        env=environment,
        input="y\n",
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout
