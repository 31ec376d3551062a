"""What users' type checkers see: the claims in `claims/` hold for mypy and for pyright, both strict."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLAIMS = Path(__file__).with_name("claims")
SDK_CLAIMS = Path(__file__).with_name("sdk_claims")
SDKS = ("anthropic", "google.genai", "mistralai", "openai")
TIMEOUT_SECONDS = 570

pytestmark = pytest.mark.timeout(600)  # the first run of a type checker reads all dependencies


def require(module: str) -> None:
    """Skip where a type checker is not installed."""
    if importlib.util.find_spec(module) is None:
        pytest.skip(f'needs {module}: pip install -e ".[test]"')


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a type checker with this interpreter, and return what it prints."""
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


def run_mypy(*paths: Path) -> subprocess.CompletedProcess[str]:
    """Run mypy as a user's project does: strict, with its own configuration, and silent about installed packages."""
    options = ("--strict", "--config-file=", "--python-version=3.11", "--follow-imports=silent", "--no-error-summary")
    return run("mypy", *options, f"--cache-dir={ROOT / '.mypy_cache' / 'typing'}", *map(str, paths))


def run_pyright(tmp_path: Path, *paths: Path) -> list[str]:
    """Run pyright with strict rules, and return what it reports."""
    config = {
        "include": [os.path.relpath(path, tmp_path) for path in paths],  # it ignores absolute paths
        "extraPaths": [str(ROOT)],
        "pythonVersion": "3.11",
        "typeCheckingMode": "strict",
        "reportUnnecessaryTypeIgnoreComment": "error",
        "enableTypeIgnoreComments": False,  # those are for mypy
        "reportUnusedFunction": "none",
        "reportUnnecessaryIsInstance": "none",
    }
    file = tmp_path / "pyrightconfig.json"
    file.write_text(json.dumps(config))
    finished = run("pyright", "--project", str(file), "--pythonpath", sys.executable, "--outputjson")
    report = json.loads(finished.stdout)
    assert report["summary"]["filesAnalyzed"] >= len(paths), finished.stderr
    return [
        f"{Path(one['file']).name}:{one['range']['start']['line'] + 1}: {one['message']} ({one.get('rule')})"
        for one in report["generalDiagnostics"]
    ]


@pytest.mark.exhaustive  # 40 seconds without a cache
def test_mypy_accepts_the_claims():
    require("mypy")
    finished = run_mypy(*sorted(CLAIMS.glob("*.py")))
    assert (finished.stdout, finished.returncode) == ("", 0), finished.stderr


@pytest.mark.exhaustive
def test_mypy_reports_a_false_claim(tmp_path):
    """The run above can fail."""
    require("mypy")
    false = tmp_path / "false_claim.py"
    false.write_text("from typing import assert_type\nfrom ahvn_tools import Toolkit\nassert_type(Toolkit('t'), int)\n")
    assert "[assert-type]" in run_mypy(false).stdout


@pytest.mark.exhaustive
def test_pyright_accepts_the_claims(tmp_path):
    require("pyright")
    assert run_pyright(tmp_path, *sorted(CLAIMS.glob("*.py"))) == []


@pytest.mark.exhaustive
def test_exports_have_the_types_of_the_sdks(tmp_path):
    for module in ("mypy", "pyright"):
        require(module)
    for module in SDKS:
        pytest.importorskip(module, reason='needs the SDKs: pip install "ahvn-tools[sdks]"')
    paths = sorted(SDK_CLAIMS.glob("*.py"))
    finished = run_mypy(*paths)
    assert (finished.stdout, finished.returncode) == ("", 0), finished.stderr
    assert run_pyright(tmp_path, *paths) == []


@pytest.mark.exhaustive
def test_pyright_reports_a_false_claim(tmp_path):
    """The run above can fail."""
    require("pyright")
    false = tmp_path / "false_claim.py"
    false.write_text("from typing import assert_type\nfrom ahvn_tools import Toolkit\nassert_type(Toolkit('t'), int)\n")
    [report] = run_pyright(tmp_path, false)
    assert report.endswith("(reportAssertTypeFailure)")
