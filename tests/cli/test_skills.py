"""Skills on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ahvn_tools.cli.app import main
from tests.toolkit.test_skills import write_skill

TOOLS = '''
from ahvn_tools import tool


@tool
def find(query: str, limit: int = 10) -> list[str]:
    """Find notes.

    Args:
        query: The words to find.
        limit: How many notes to return.
    """
    return [query] * limit
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.py").write_text(TOOLS)
    write_skill(tmp_path / "skills", "notes", "See [rules](references/rules.md).", front_matter="allowed-tools: find\n",
                references__rules_md="Be brief.")  # fmt: skip
    write_skill(tmp_path / "skills", "tea", "Boil.")
    return tmp_path


def test_check_passes_good_skills(capsys):
    assert main(["check", "skills", "tools.py"]) == 0
    assert "[invalid-skill]" not in capsys.readouterr().out


def test_check_finds_what_is_wrong_with_skills(capsys, folder):
    write_skill(folder / "skills", "bad-links", "[a](gone.md)", front_matter="allowed-tools: fidn\nautor: me\n")
    (folder / "skills" / "broken").mkdir()
    (folder / "skills" / "broken" / "SKILL.md").write_text("---\nname: broken\ndescription: [\n---\n")
    (folder / "skills" / "tea").rename(folder / "skills" / "coffee")
    assert main(["check", "skills", "tools.py"]) == 1
    text = capsys.readouterr().out
    for line in (
        "skills/broken/SKILL.md:4: error: skills/broken/SKILL.md, line 4: ",
        "skills/bad-links/SKILL.md:1: warning: it names 'gone.md', which is no file of the skill [missing-skill-file]",
        "skills/bad-links/SKILL.md:5: note: the standard has no key 'autor' [invalid-skill]",
        "`allowed-tools` names 'fidn', which is no tool and no group here [unmatched-skill-tool]",
        "Did you mean 'find'?",
        "skills/coffee/SKILL.md:2: warning: the name 'tea' is not that of the folder, 'coffee' [invalid-skill]",
    ):
        assert line in text
    assert main(["check", "skills", "tools.py", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert {"invalid-skill", "load-error"} <= {finding["rule"] for finding in report["findings"]}
    assert ("skills/coffee/SKILL.md", 2) in {(one.get("file"), one.get("line")) for one in report["findings"]}


def test_a_broken_skill_alone_is_an_error_with_its_line(capsys, folder):
    (folder / "skills" / "tea" / "SKILL.md").write_text("---\nname: tea\ndescription: x: [y\n  z\n---\n")
    assert main(["check", "skills/tea"]) != 0
    assert "skills/tea/SKILL.md, line " in capsys.readouterr().err


def test_the_list_has_the_skills(capsys):
    assert main(["list", "skills", "tools.py"]) == 0
    text = capsys.readouterr().out
    assert "read_skill" in text
    assert "tea" in text
    assert "What tea is for." in text


def test_the_prompt_has_the_skills(capsys):
    assert main(["prompt", "skills"]) == 0
    assert "<name>tea</name>" in capsys.readouterr().out


def test_a_skill_is_read(capsys):
    assert main(["call", "skills", "read_skill", "name=notes", "file=references/rules.md"]) == 0
    assert capsys.readouterr().out == "Be brief.\n"
