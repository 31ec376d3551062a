"""Twelve programs, each a user's task from start to end, written from README.md and docs/ alone."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sealed import without_keys

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = sorted(path for path in Path(__file__).parent.glob("*.py") if not path.name.startswith(("test_", "__")))
NEEDS = {
    "knowledge_base": ["openai"],
    "notebook": ["nbclient", "ipykernel"],
    "pickles": ["psutil"],
    "middleware": ["tenacity"],
    "type_checkers": ["mypy", "pyright"],
}
TIMEOUT_SECONDS = 570


def test_there_are_twelve_short_programs():
    assert len(PROGRAMS) == 12
    assert {program.stem: lines for program in PROGRAMS if (lines := len(program.read_text().splitlines())) >= 60} == {}


@pytest.mark.exhaustive  # each starts at least one process
@pytest.mark.timeout(TIMEOUT_SECONDS + 30)
@pytest.mark.parametrize("program", PROGRAMS, ids=[program.stem for program in PROGRAMS])
def test_a_program_works(program, tmp_path):
    for module in NEEDS.get(program.stem, []):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f'needs {module}: pip install -e ".[test,sdks]"')
    environment = {
        **without_keys(os.environ),
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(tmp_path),
        "MYPY_CACHE_DIR": str(ROOT / ".mypy_cache" / "typing"),
    }
    finished = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    own_errors = finished.stderr.partition("[IPKernelApp]")[0]  # ipykernel 7 may fail while its kernel is shut down
    assert "Traceback" not in own_errors
