"""The command as a whole: its help, and its exit codes."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from ahvn_tools.cli.app import COMMANDS, main
from ahvn_tools.cli.output import CommandError, UsageError
from tests.cli.served import run


def test_the_help_lists_all_commands_with_a_summary_and_imports_none():
    program = (
        "import sys\nfrom ahvn_tools.cli.app import COMMANDS, main\nmain([])\n"
        "modules = ['ahvn_tools.cli.' + path.partition(':')[0] for path, _ in COMMANDS.values()]\n"
        "assert sys.modules.keys() & set(modules) <= {'ahvn_tools.cli.app'}"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    text = " ".join(ran.stdout.replace("│", " ").split())
    assert all(f"{name} {summary}" in text for name, (_, summary) in COMMANDS.items())


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_a_help_of_its_own(name):
    module, function = COMMANDS[name][0].split(":")
    assert getattr(importlib.import_module(f"ahvn_tools.cli.{module}"), function).__doc__


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (CommandError("it failed"), 1, "error: it failed\n"),
        (UsageError("it is wrong"), 2, "error: it is wrong\n"),
        (
            RuntimeError("first\nsecond \x1b[31m"),
            1,
            "error: RuntimeError: first second \\x1b[31m (--verbose prints where)\n",
        ),
        (OSError(28, "No space left on device"), 1, "error: [Errno 28] No space left on device\n"),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(), 0, ""),
    ],
)
def test_an_error_is_one_line_and_has_an_exit_code(error, status, message, capfd):
    from ahvn_tools.cli.app import run_command

    def fail() -> None:
        raise error

    assert run_command(fail) == status
    assert capfd.readouterr().err == message


@pytest.mark.exhaustive
def test_it_is_a_module_that_python_runs():
    ran = run("--version")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.strip()


def test_a_command_without_arguments_prints_its_help(capsys):
    assert main([]) == 0
    assert "Usage: ahvn-tools COMMAND" in capsys.readouterr().out
