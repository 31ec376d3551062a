"""`ahvn-tools completion`: what bash completes, and where the script is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ahvn_tools.cli.app import main
from tests.cli.served import LONGEST

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the script for bash."""
    from ahvn_tools.cli.app import app

    file = tmp_path_factory.mktemp("completion") / "ahvn-tools.bash"
    file.write_text(app.generate_completion(shell="bash"))
    return file


def completed(script: Path, *words: str) -> set[str]:
    """Return what bash completes for the last of these words."""
    program = (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _ahvn_tools; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    command = ["bash", "--norc", "-c", program, "bash", str(script), "ahvn-tools", *words]
    ran = subprocess.run(command, cwd=script.parent, capture_output=True, text=True, timeout=LONGEST, check=True)
    return set(ran.stdout.split())


@needs_bash
def test_bash_completes_commands_options_formats_and_files(script):
    assert {"show", "search", "serve"} <= completed(script, "s")
    assert "list" not in completed(script, "s")
    assert completed(script, "list", "--js") == {"--json"}
    assert completed(script, "export", "tools.py", "--format", "open") == {"openai", "openai-responses"}
    assert completed(script, "list", "ahvn") == {"ahvn-tools.bash"}
    assert completed(script, "show", "ahvn") == {"ahvn-tools.bash"}


@pytest.mark.parametrize("shell", ["zsh", "fish", "powershell"])
@pytest.mark.exhaustive
def test_there_is_a_script_for_other_shells(shell, capsys):
    assert main(["completion", shell]) == 0
    printed = capsys.readouterr().out
    for word in ("list", "export", "--format", "--include"):
        assert word.lstrip("-") in printed


@pytest.mark.exhaustive
def test_the_script_is_installed_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    startup = []
    for _ in range(2):
        assert main(["completion", "bash", "--install"]) == 0
        startup.append((tmp_path / ".bashrc").read_text())
    assert "Wrote" in capsys.readouterr().err
    assert (tmp_path / ".local/share/bash-completion/completions/ahvn-tools").is_file()
    assert startup[0] == startup[1]


def test_an_unknown_shell_is_an_error(monkeypatch, capsys):
    assert main(["completion", "cmd"]) == 2
    assert "bash" in capsys.readouterr().err
