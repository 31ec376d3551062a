"""Laws of skills: no text breaks a reader or a prompt, and no path leads out of a skill."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ahvn_tools import Toolkit, invisible
from ahvn_tools.errors import SourceError, ToolError
from ahvn_tools.skills.folders import FolderFiles, find_skill_folders
from ahvn_tools.skills.skill import is_standard_name, read_skill_text
from tests.toolkit.test_skills import write_skill

WRITTEN = [
    "---", "name: tea", "name: &a [x]", "description: Text.", "description: a: b", "metadata:", "  a: *a", "\t", "- x",
    "allowed-tools: [a, [b]]", "? y", "<<: *a", "!!python/name:os.system", "```", "[a](b.md)", "%YAML 9",
]  # fmt: skip
LINES = st.lists(st.one_of(st.sampled_from(WRITTEN), st.text(max_size=20)), max_size=12)


@given(LINES, st.booleans())
def test_any_text_is_a_skill_or_a_source_error_with_its_file(lines, is_trusted):
    text = "\n".join(["---", *lines])
    found: Any
    try:
        found = read_skill_text(text, "p/SKILL.md", "tea", is_trusted=is_trusted)
    except SourceError as error:
        found = error
    if isinstance(found, SourceError):
        assert found.file == "p/SKILL.md"
        assert str(found).startswith("p/SKILL.md")
        return
    skill, _ = found
    assert skill.name.strip()
    assert skill.description.strip()
    if not is_trusted:
        assert is_standard_name(skill.name)
        assert invisible.find(skill.description) == []


@given(st.text(min_size=1, max_size=80).filter(str.strip), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_prompt_is_xml_with_each_description_in_its_place(tmp_path_factory, description, is_trusted):
    folder = tmp_path_factory.mktemp("skills")
    written = yaml.safe_dump({"name": "tea", "description": description}, allow_unicode=False)
    (folder / "tea").mkdir()
    (folder / "tea" / "SKILL.md").write_text(f"---\n{written}---\nBoil.\n", "utf-8")
    try:
        kit = Toolkit("k").add_skills(folder, trust=is_trusted)
    except SourceError:
        return
    text = kit.skills_prompt()
    root = ET.fromstring(text[text.index("<available_skills>") :])  # the text is under test
    assert [element.tag for element in root.iter()] == ["available_skills", "skill", "name", "description"]
    assert invisible.find(text) == []
    assert root.findtext("skill/name") == "tea"


PARTS = st.sampled_from([
    "..", ".", "", "a", "a.md", "inside", "link", "out", "secret", "SKILL.md", "~", "%2e%2e", "\\", "etc", "\0", "C:",
])  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> FolderFiles:
    place = tmp_path_factory.mktemp("place")
    (place / "out").mkdir()
    (place / "out" / "secret").write_text("SECRET")
    root = write_skill(place, "tea", inside__a_md="Inside.")
    (root / "link").symlink_to(place / "out")
    (root / "inside" / "link").symlink_to(place / "out" / "secret")
    (root / "secret").symlink_to("/etc/passwd")
    (root / "out").symlink_to("inside/a.md")
    return FolderFiles(root, str(root))


@given(st.lists(PARTS, min_size=1, max_size=5).map("/".join), st.sampled_from(["", "/", "file://", "./", "//", "\\\\"]))
def test_no_path_leads_out_of_a_skill(files, path, prefix):
    found: Any
    try:
        found = files.read_now(prefix + path)
    except ToolError as error:
        found = str(error)
    assert "SECRET" not in str(found)
    assert str(files.root) not in str(found)
    assert isinstance(found, str) or found in (b"Inside.", (files.root / "SKILL.md").read_bytes())


def test_links_in_a_circle_and_to_a_folder_above(tmp_path):
    root = tmp_path / "skills"
    place = write_skill(root / "group", "tea")
    (root / "group" / "again").symlink_to(root)
    (root / "self").symlink_to(root / "self")
    (root / "gone").symlink_to(tmp_path / "nowhere")
    other = write_skill(tmp_path / "elsewhere", "post")
    (root / "post").symlink_to(other)
    assert [path.name for path in find_skill_folders(root)] == ["tea", "post"]
    assert find_skill_folders(root, follows_links=False) == [place]
    assert list(Toolkit("k").add_skills(root, trust=False).skills) == ["tea"]
    assert list(Toolkit("k").add_skills(root).skills) == ["tea", "post"]


@pytest.mark.skipif(os.getuid() == 0, reason="the superuser reads everything")
def test_a_folder_that_cannot_be_read(tmp_path):
    write_skill(tmp_path / "skills", "tea")
    closed = tmp_path / "skills" / "closed"
    closed.mkdir(mode=0)
    try:
        assert list(Toolkit("k").add_skills(tmp_path / "skills").skills) == ["tea"]
    finally:
        closed.chmod(0o700)


def test_a_folder_with_too_many_folders(tmp_path, monkeypatch):
    monkeypatch.setattr("ahvn_tools.skills.folders._MAX_FOLDERS", 20)
    for number in range(30):
        Path(tmp_path, str(number)).mkdir()
    with pytest.raises(SourceError, match="name a folder in it"):
        Toolkit("k").add_skills(tmp_path)
