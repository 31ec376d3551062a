"""Skills in manifests and in folders that are loaded."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ahvn_tools import load
from ahvn_tools.errors import SourceError
from tests.manifest.conftest import Load
from tests.toolkit.test_skills import read, write_skill

SERVER = Path(__file__).resolve().parents[1] / "skills" / "skill_server.py"


@pytest.fixture(autouse=True)
def skills(folder: Path) -> Path:
    root = folder / "skills"
    write_skill(root, "notes", "Zero\u200bwidth.", front_matter="allowed-tools: find\n", scripts__run_py="")
    write_skill(root, "tea", "Boil.")
    return root


def test_a_path_and_its_options(load_text: Load):
    kit = load_text(
        "sources: [{source: notes.py, group: search}]\ngroups: {search: Find., kitchen: Cook.}\n"
        "skills:\n  - skills/notes\n  - {path: ./skills/tea, group: kitchen, audience: cook}\n"
    )
    assert {skill.name for skill in kit.skills.values()} == {"notes", "tea"}
    session = kit.session(audience="cook").activate("kitchen")
    assert read(session, "tea") == "Boil."
    assert list(kit.session().activate("kitchen").skills) == ["notes"]
    assert "\u200b" in read(session, "notes")
    assert session.groups["search"] is True


def test_trust_of_a_manifest(load_text: Load, skills):
    kit = load_text("skills: [{path: skills, trust: false}]")
    assert read(kit, "notes").startswith("Zero\\u200bwidth.")
    write_skill(skills, "Odd")
    kit = load_text("skills: [{path: skills, trust: true}]", trust=[])
    assert read(kit, "notes").startswith("Zero\\u200bwidth.")
    assert list(kit.skills) == ["notes", "tea"]
    assert "'Odd' is no name" in str(kit.load_errors)
    assert list(load_text("skills: [skills]", trust=["skills/"]).skills) == ["Odd", "notes", "tea"]


def test_what_is_outside_needs_trust(load_text: Load, folder):
    write_skill(folder.parent / "elsewhere", "post")
    assert list(load_text("skills: [../elsewhere]").skills) == ["post"]
    for text in ("skills: [../elsewhere]", "skills: [ahvn_tools:skills]", "skills: [/etc]"):
        with pytest.raises(SourceError, match="is not trusted"):
            load_text(text, trust=[])


def test_an_mcp_server_of_the_sources(load_text: Load, skills):
    command = [sys.executable, str(SERVER), str(skills)]
    kit = load_text(f"sources: [{{server: {command}, name: library}}]\nskills: [{{server: library}}]")
    try:
        assert read(kit, "notes").startswith("Zero\\u200bwidth.")
    finally:
        kit.remove_mcp()


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("skills:\n  - gone", 2, "There is no folder"),
        ("skills:\n  - server: gone", 2, "There is no MCP server 'gone'"),
        ("skills:\n  - {}", 2, "a `path` or a `server`"),
        ("skills:\n  - {path: a, server: b}", 2, "a `path` or a `server`"),
        ("skills:\n  - {paht: a}", 2, "path"),
        ("skills:\n  - skills\n  - {path: skills/tea, group: gone}", 3, "There is no group 'gone'"),
        ("skills: skills", 1, "list"),
    ],
)
def test_mistakes_have_their_line(load_text: Load, text, line, words):
    with pytest.raises(SourceError, match=words) as caught:
        load_text(text)
    assert str(caught.value).startswith(f"kit.yaml:{line}: ")


def test_a_manifest_for_an_audience_has_its_skills(folder):
    (folder / "kit.yaml").write_text("skills: [{path: skills/tea, audience: cook}, skills/notes]")
    assert list(load("kit.yaml", audience="guest").skills) == ["notes"]
    assert list(load("kit.yaml", audience="cook").skills) == ["tea", "notes"]


def test_toolkits_of_sources_bring_their_skills(folder, load_text: Load):
    (folder / "inner.yaml").write_text("skills: [skills/tea]\nsources: [notes.py]")
    (folder / "other.yaml").write_text("skills: [skills/notes]")
    kit = load_text("sources: [inner.yaml, other.yaml]")
    assert list(kit.skills) == ["tea", "notes"]
    assert [tool.name for tool in kit].count("read_skill") == 1
    kit = load("inner.yaml", "other.yaml")
    assert (list(kit.skills), read(kit, "tea")) == (["tea", "notes"], "Boil.")


def test_a_folder_that_is_loaded(folder, skills):
    script = skills / "notes" / "scripts" / "run.py"
    script.write_text("raise RuntimeError('it is not imported')")
    kit = load("skills", "notes.py")
    assert list(kit.skills) == ["notes", "tea"]
    assert kit.load_errors == ()
    assert list(load("skills/tea").skills) == ["tea"]
    (skills / "tea" / "SKILL.md").write_text("---\nname: tea\n---\n")
    with pytest.raises(SourceError, match=r"skills/tea/SKILL\.md, line 1: `description` is missing"):
        load("skills/tea")
    kit = load("skills")
    assert [(error.file, error.line) for error in kit.load_errors] == [("skills/tea/SKILL.md", 1)]
    assert list(kit.skills) == ["notes"]


def test_a_folder_in_a_manifest_with_the_options_of_its_source(load_text: Load):
    kit = load_text("sources: [{source: skills, group: search}]\ngroups: {search: Find.}")
    assert (list(kit.skills), kit.session().skills) == (["notes", "tea"], {})
