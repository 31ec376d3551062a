"""docs/tutorial.md, step by step in an empty folder: its files, its commands, and what they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.sealed import without_keys

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCK = re.compile(
    r'^```(?:py title="(?P<file>[\w.]+)"|(?P<kind>bash|text))\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL
)


def test_the_tutorial_works_in_an_empty_folder(tmp_path):
    """Its environment exists already, so the commands that make and fill one are left out."""
    environment = make_environment()
    printed = ""
    for block in BLOCK.finditer(PAGE):
        file, kind, text = block["file"], block["kind"], block["text"]
        if file:
            (tmp_path / file).write_text(text, encoding="utf-8")
        elif kind == "text":
            assert printed == text.replace("[y/n] y\n", "[y/n] ")
        else:
            command = re.sub(r"^(mkdir notes-agent|python3 -m venv|pip install).*\n", "", text, flags=re.MULTILINE)
            printed = run(command, tmp_path, environment)


KILLED = """
import os, signal
import model

model.model = lambda messages, tools: os.kill(os.getpid(), signal.SIGKILL)
import decide
"""
"""Decides as decide.py, and is killed when the call has run, before the conversation is saved."""


def test_an_approval_after_a_kill_runs_nothing_and_replaces_no_newer_conversation(tmp_path):
    environment = make_environment()
    for block in BLOCK.finditer(PAGE):
        if block["file"]:
            (tmp_path / block["file"]).write_text(block["text"], encoding="utf-8")
    (tmp_path / "killed.py").write_text(KILLED, encoding="utf-8")
    for title in ("tea", "old"):
        (tmp_path / "notes" / "ann" / title).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "notes" / "ann" / title).write_text(title, encoding="utf-8")
    (tmp_path / "secret.key").write_text("b2f8c1d5e0a94f7689c35dbb1f6e4a07", encoding="utf-8")
    saved, old = tmp_path / "conversation.json", tmp_path / "notes" / "ann" / "old"
    run("python ask.py 'Delete the old one.'", tmp_path, environment)
    waiting = saved.read_text(encoding="utf-8")
    run('python killed.py || test "$?" = 137', tmp_path, environment)
    assert (old.exists(), saved.read_text(encoding="utf-8")) == (False, waiting)
    old.write_text("A new note of this title.", encoding="utf-8")
    deciding = subprocess.Popen(
        [sys.executable, "-u", "decide.py"],
        cwd=tmp_path, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert deciding.stdout is not None
    asked = ""
    while not asked.endswith("[y/n] "):  # until it has read the conversation
        asked += (character := deciding.stdout.read(1))
        assert character, asked
    saved.write_text("newer", encoding="utf-8")
    printed, _ = deciding.communicate("y\n", timeout=50)
    assert (deciding.returncode, printed.startswith("This was decided before.")) == (1, True)
    assert (old.exists(), saved.read_text(encoding="utf-8")) == (True, "newer")
    saved.write_text(waiting, encoding="utf-8")
    assert "may have run already; its result was lost" in run("echo n | python decide.py", tmp_path, environment)
    assert (old.exists(), '"stop_reason": "answered"' in saved.read_text(encoding="utf-8")) == (True, True)
    assert run("python decide.py", tmp_path, environment) == "Nothing waits.\n"


def make_environment() -> dict[str, str]:
    return {
        **without_keys(os.environ),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "100",
    }


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
