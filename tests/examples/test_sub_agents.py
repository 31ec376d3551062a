"""The example with sub-agents: real child processes, and a scripted model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "sub_agents.py"


@pytest.mark.exhaustive
def test_two_processes_count_in_their_folders_and_cannot_leave_them() -> None:
    run = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    first, second = run.stdout.split("----------------")
    assert "### Sub-agent 'a' Finished:\n2 lines with tea." in first
    assert "### Sub-agent 'b' Finished:\n1 lines with tea." in second
    assert run.stdout.count("outside") >= 2
    assert "list.txt" not in run.stdout
