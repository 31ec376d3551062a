"""The knowledge base over HTTP: two users of one server, each with a token."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ahvn_tools

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(example: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run an example with the package under test."""
    environment = {**os.environ, "PYTHONPATH": str(Path(ahvn_tools.__file__).parents[1]), "PYTHONUTF8": "1"}
    return subprocess.run(
        [sys.executable, str(EXAMPLES / example), *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


@pytest.mark.exhaustive
@pytest.mark.timeout(150)
def test_each_user_reads_only_their_own_notes(tmp_path):
    texts, database = tmp_path / "texts", tmp_path / "notes.db"
    texts.mkdir()
    (texts / "guide.md").write_text("# Guide\n\nA telescope shows far things.")
    assert run("knowledge_base.py", str(texts), "--database", str(database)).returncode == 0
    done = run("knowledge_base_http.py", str(database))
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"^http://127\.0\.0\.1:\d+/mcp offers search, read, add, update, delete, stats$", done.stdout, re.MULTILINE
    )
    for user, other in (("ann", "bob"), ("bob", "ann")):
        assert f"{user} reads: {{'text': 'A note that only {user} can read.'" in done.stdout
        assert f"{user} asks for the note of {other}: There is no text named" in done.stdout
    assert re.search(r"^a wrong token: .*HTTP 401", done.stdout, re.MULTILINE)


@pytest.mark.exhaustive
def test_a_missing_database_is_reported_in_one_line(tmp_path):
    done = run("knowledge_base_http.py", str(tmp_path / "none.db"))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
