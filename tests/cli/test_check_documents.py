"""The sections check, pin, diff and install of docs/reference/cli.md show the real output, rules and clients."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ahvn_tools.cli.app import main
from ahvn_tools.cli.known_clients import CLIENTS
from ahvn_tools.lint import RULES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
SECTIONS = PAGE[PAGE.index("\n## check: ") : PAGE.index("\n`ahvn-tools uninstall notes")]
COMMANDS = re.findall(r"```console\n\$ ahvn-tools (.*?)\n(.*?)```", SECTIONS, re.DOTALL)


def block(name: str) -> str:
    """Return the code or the rows of the table after the comment with that name."""
    table = r"[^\n]*\n\|[-|]+\n((?:\|[^\n]*\n)+)"
    found = re.search(rf"<!-- {re.escape(name)} -->\n(?:```\w+\n(.*?)```|{table})", PAGE, re.DOTALL)
    assert found is not None
    return found[1] or found[2]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("tools.py", "later.py"):
        (tmp_path / name).write_text(block(name))
    return tmp_path


def test_every_command_has_the_output_of_the_page(folder, capsys):
    assert [command.split()[0] for command, _ in COMMANDS] == ["check", "pin", "diff", "install"]
    for command, output in COMMANDS:
        main(shlex.split(command))
        assert capsys.readouterr().out.replace(str(folder), "/home/ann") == output


def test_the_page_has_all_rules():
    rows = [f"| `{name}` | {rule.severity} | {rule.summary} |" for name, rule in RULES.items()]
    assert block("rules").splitlines() == rows


def test_the_page_has_all_clients_with_their_files():
    rows = {line.split("`")[1]: line for line in block("clients").splitlines()}
    assert list(rows) == list(CLIENTS)
    for name, client in CLIENTS.items():
        reference = client.reference or ("env_vars" if client.passes_variables else None)
        _, _, user, project, passed, _ = (cell.strip() for cell in rows[name].split("|"))
        assert client.user_file().name in user
        assert project == (f"`{client.project_file}`" if client.project_file else "none")
        assert passed == (f"`{reference}`" if reference else "no")
