"""A toolkit that is written as a skill."""

from __future__ import annotations

import json
import re
import shlex
import stat
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from ahvn_tools import Toolkit, ToolSpec, invisible
from ahvn_tools.cli.app import main
from ahvn_tools.errors import ToolkitError
from ahvn_tools.skills import SKILL_FILE
from ahvn_tools.skills.export import make_files
from ahvn_tools.skills.skill import MAX_DESCRIPTION_CHARS, find_missing_files, read_skill_text
from tests.cli.test_skills import TOOLS
from tests.toolkit.subjects import add, search
from tests.toolkit.test_skills import read, write_skill


@pytest.fixture
def kit() -> Toolkit:
    return Toolkit("notes").add(add).add(search).bind("user", default="SECRET")


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def findings(folder: Path) -> list[str]:
    kit = Toolkit("k").add_skills(folder)
    return [str(finding) for skill in kit.skills.values() for finding in skill.problems]


def test_what_is_written_is_a_skill_without_findings(kit, tmp_path):
    kit.to_skill(tmp_path / "my-notes", source="tools.py")
    assert findings(tmp_path / "my-notes") == []
    reader = Toolkit("k").add_skills(tmp_path)
    skill = reader.skills["my-notes"]
    assert skill.compatibility == "Requires the command ahvn-tools, of the Python package ahvn-tools."
    assert skill.description == "Calls tools by a command. Use it for what these do: add, search."
    assert "`ahvn-tools call tools.py TOOL" in read(reader, "my-notes").replace("\nahvn", "`ahvn")
    text = read(reader, "my-notes", file="references/search.md")
    assert "ahvn-tools call tools.py search '{" in text
    assert "SECRET" not in "".join(path.read_text() for path in tmp_path.rglob("*.md"))
    assert '"user"' not in text


def test_only_what_the_view_lists(kit, tmp_path):
    kit.select(names=["add"]).to_skill(tmp_path / "sums", source=["a b.py", "acme.tools"], description="Sums: add.")
    assert names_in(tmp_path / "sums" / "references") == ["add.md"]
    text = (tmp_path / "sums" / SKILL_FILE).read_text()
    assert "ahvn-tools call 'a b.py' TOOL --source acme.tools" in text
    assert Toolkit("k").add_skills(tmp_path / "sums").skills["sums"].description == "Sums: add."


def test_the_commands_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("tools.py").write_text(TOOLS)
    assert main(["export", "tools.py", "--skill", "notes"]) == 0
    command = re.search(r"^ahvn-tools (call .*)$", Path("notes/references/find.md").read_text(), re.MULTILINE)
    capsys.readouterr()
    assert main(shlex.split(command[1])) == 0
    assert json.loads(capsys.readouterr().out) == ["…"] * 10
    assert main(["check", "notes"]) == 0
    assert main(["export", "tools.py", "--skill", "notes"]) == 1
    assert "--force" in capsys.readouterr().err
    assert main(["export", "tools.py", "--skill", "notes", "--force"]) == 0
    assert main(["export", "tools.py", "--skill", "Notes"]) == 1
    assert main(["export", "tools.py"]) == 2
    assert main(["export", "tools.py", "--skill", "x", "--format", "openai"]) == 2


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("Notes", {}, "has the name of its folder"),
        ("a--b", {}, "has the name of its folder"),
        ("notes", {"source": []}, "Name the sources"),
        ("notes", {"source": "https://user:pw@example.com/mcp"}, "without credentials"),
        ("notes", {"source": "https://example.com/mcp?token=abc"}, "without credentials"),
    ],
)
def test_what_cannot_be_written(kit, tmp_path, name, options, words):
    with pytest.raises(ToolkitError, match=words):
        kit.to_skill(tmp_path / name, **{"source": "tools.py", **options})
    with pytest.raises(ToolkitError, match="here are 0"):
        Toolkit("empty").to_skill(tmp_path / "notes", source="tools.py")
    assert names_in(tmp_path) == []


def test_tools_that_are_no_commands_and_inactive_groups_are_left_out_and_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("tools.py").write_text(
        "from ahvn_tools import Toolkit, middleware\n"
        "from ahvn_tools.builtins import AskUser, Shell, Workspace\n"
        "kit = Toolkit('k').add(Shell(Workspace('.'))).add(AskUser()).add_group('more', 'More.')\n"
        "kit.add(len, name='size', group='more')\n"
        "kit.use(middleware.keep_large(max_chars=10_000))\n"
        "kit.add(kit.groups_tool())\n"
        "kit.tool(name='far', external=True)(lambda x: x)\n"
    )
    assert main(["export", "tools.py", "--skill", "kit"]) == 0
    assert names_in(Path("kit/references")) == ["shell_exec.md"]
    assert "in the folder that contains `tools.py`" in Path("kit", SKILL_FILE).read_text()
    of_sessions = "shell_output, start_job, job_status, job_output, job_input, stop_job, set_groups"
    assert capsys.readouterr().err.splitlines()[1:] == [
        f"Left out, because it needs a session of several calls: {of_sessions}, read_result, search_result.",
        "Left out, because a program or a person supplies its result: ask_user, far.",
        "Left out, because the group 'more' is not active: size.",
    ]
    assert main(["export", "tools.py", "--skill", "more", "--group", "more"]) == 0
    assert names_in(Path("more/references")) == ["size.md"]


class TestFolder:
    def test_a_skill_is_replaced_only_if_the_host_says_so(self, kit, tmp_path):
        place = write_skill(tmp_path, "notes", "Mine.", old_md="old")
        with pytest.raises(ToolkitError, match="replace=True"):
            kit.to_skill(place, source="tools.py")
        assert (place / "old.md").exists()
        kit.to_skill(place, source="tools.py", replace=True)
        assert names_in(place) == [SKILL_FILE, "references"]
        assert names_in(tmp_path) == ["notes"]

    @pytest.mark.parametrize("kind", ["file", "folder", "link"])
    def test_nothing_else_is_replaced(self, kit, tmp_path, kind):
        place = tmp_path / "notes"
        other = write_skill(tmp_path / "other", "notes", "Mine.")
        if kind == "file":
            place.touch()
        elif kind == "folder":
            (place / "precious").mkdir(parents=True)
        else:
            place.symlink_to(other)
        with pytest.raises(ToolkitError, match="is there and is no skill"):
            kit.to_skill(place, source="tools.py", replace=True)
        assert "Mine." in (other / SKILL_FILE).read_text()
        assert names_in(tmp_path) == ["notes", "other"]

    @pytest.mark.parametrize("failing", ["open", "rename"])
    def test_after_an_error_all_is_as_before(self, kit, tmp_path, monkeypatch, failing):
        place = write_skill(tmp_path, "notes", "Mine.")
        original = getattr(Path, failing)

        def fail(path: Path, *arguments: object, **options: object) -> object:
            if path.name in {"search.md", "new"} and (failing != "rename" or arguments == (place,)):
                raise OSError(28, "No space left on device")
            return original(path, *arguments, **options)

        monkeypatch.setattr(Path, failing, fail)
        with pytest.raises(OSError, match="No space"):
            kit.to_skill(place, source="tools.py", replace=True)
        monkeypatch.undo()
        assert names_in(tmp_path) == ["notes"]
        assert "Mine." in (place / SKILL_FILE).read_text()

    def test_permissions_are_the_usual_ones(self, kit, tmp_path):
        kit.to_skill(tmp_path / "notes", source="tools.py")
        (tmp_path / "usual").mkdir()
        assert stat.S_IMODE((tmp_path / "notes").stat().st_mode) == stat.S_IMODE((tmp_path / "usual").stat().st_mode)


def tool(name: str, description: str = "Text.") -> ToolSpec:
    schema = {"type": "object", "properties": {"x": {"type": "string", "description": description}}, "required": ["x"]}
    return ToolSpec.from_schema(name, schema, lambda x: x, description=description)


def test_names_that_a_file_system_takes_for_each_other(tmp_path):
    kit = Toolkit("k").add(tool("get")).add(tool("GET")).add(tool("get/it")).add(tool("../x"))
    kit.to_skill(tmp_path / "notes", source="tools.py")
    names = names_in(tmp_path / "notes" / "references")
    assert len({name.casefold() for name in names}) == 4
    assert findings(tmp_path / "notes") == []


def test_many_tools(tmp_path):
    kit = Toolkit("k").add(*(tool(f"tool_number_{number}") for number in range(900)))
    kit.to_skill(tmp_path / "notes", source="tools.py")
    assert len(findings(tmp_path / "notes")) == 1  # a note about the length
    assert len(Toolkit("k").add_skills(tmp_path).skills["notes"].description) < MAX_DESCRIPTION_CHARS
    with pytest.raises(ToolkitError, match="here are 1100"):
        kit.add(*(tool(f"more_{number}") for number in range(200))).to_skill(tmp_path / "more", source="tools.py")


@example("", "tools.py", "\r\n")
@example("", "tools.py", "a\n```\n| `b` | c")
@given(st.text(max_size=60), st.text(max_size=60), st.text(min_size=1, max_size=20))
def test_no_text_of_a_tool_leaves_its_place(text, source, name):
    hostile = f"{text}\n---\n```\n| a | [x](gone.md) {text}"
    spec = tool(name, hostile)
    if not source or invisible.find_in_name(source):
        with pytest.raises(ToolkitError, match="Name the sources"):
            make_files("notes", [spec.definition], [source] if source else [])
        source = "tools.py"
    files = make_files("notes", [spec.definition], [source], description=hostile)
    front_matter = yaml.safe_load(files[SKILL_FILE].split("\n---\n", 1)[0].removeprefix("---\n"))
    assert set(front_matter) == {"name", "description", "compatibility"}
    skill, body = read_skill_text(files[SKILL_FILE], "p", "notes", is_trusted=False)
    assert [one.problem for one in skill.problems if one.rule == "hidden-unicode"] == []
    assert list(find_missing_files(body, "p", list(files))) == []
    assert len([line for line in body.split("\n") if line.startswith("| `")]) == 1
    (reference,) = [content for path, content in files.items() if path != SKILL_FILE]
    assert reference.count("\n```json\n") + reference.count("\n````json\n") == 1
