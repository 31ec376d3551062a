"""Toolset files beside a manifest become toolsets."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from ahvn_tools import aload, manifest
from ahvn_tools.errors import SourceError
from tests.toolkit.subjects import check

TOOLS = """
from ahvn_tools import tool

@tool
def sql(query: str) -> str:
    '''Query.'''
    return query

@tool
def excel(sheet: str) -> str:
    '''Read a sheet.'''
    return sheet

@tool
def plot(data: str) -> str:
    '''Plot.'''
    return data
"""

ANALYSIS = """
name: data_analysis_set
description: 数据分析工具集
tools:
  - plot
  - sql
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own_tools.py").write_text(TOOLS)
    (tmp_path / "kit.yaml").write_text("sources: [own_tools.py]\n")
    return tmp_path


def write(folder: Path, name: str, text: str) -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def load(folder: Path):
    return manifest.load(str(folder / "kit.yaml"))


def names(view) -> list[str]:
    return [tool.name for tool in view]


@pytest.mark.parametrize("place", ["configs/tool_sets/data.yaml", "configs/tool-sets/data.yml"])
def test_a_file_becomes_a_toolset_in_the_order_of_its_list(folder, place):
    write(folder, place, ANALYSIS)
    kit = load(folder)
    assert kit.toolset("data_analysis_set").description == "数据分析工具集"
    assert names(kit.select(toolset="data_analysis_set")) == ["plot", "sql"]
    assert [tool["name"] for tool in kit.select(toolset="data_analysis_set").to("anthropic")] == ["plot", "sql"]
    assert check(kit) == []


def test_both_folders_are_read_in_the_order_of_their_files(folder):
    write(folder, "configs/tool_sets/b.yaml", "name: b\ntools: [sql]\nmetadata: {owner: ann}\n")
    write(folder, "configs/tool_sets/a.yaml", "name: a\ntools: [sql]\nenabled: true\n")
    write(folder, "configs/tool-sets/c.yaml", "name: c\ntools: sql\n")
    write(folder, "configs/tool-sets/_group.yaml", "anything: [goes\n")
    write(folder, "configs/tool-sets/notes.md", "no toolset")
    assert list(load(folder).toolsets) == ["a", "b", "c"]


def test_a_disabled_file_is_not_used_and_frees_its_name(folder):
    write(folder, "configs/tool_sets/a.yaml", "name: a\ntools: [sql]\nenabled: false\n")
    write(folder, "configs/tool_sets/b.yaml", "name: a\ntools: [plot]\n")
    assert names(load(folder).select(toolset="a")) == ["plot"]


def test_two_files_with_one_name_are_an_error(folder):
    write(folder, "configs/tool_sets/a.yaml", "name: a\ntools: [sql]\n")
    write(folder, "configs/tool-sets/a.yaml", "name: a\ntools: [plot]\n")
    with pytest.raises(SourceError) as error:
        load(folder)
    assert str(error.value).endswith(
        "configs/tool-sets/a.yaml: the toolset 'a' is in configs/tool_sets/a.yaml, too: rename or remove one of them."
    )


def test_an_unknown_member_is_a_warning_and_a_finding(folder, caplog):
    write(folder, "configs/tool_sets/a.yaml", "name: a\ntools: [sql, exel]\n")
    with caplog.at_level(logging.WARNING):
        kit = load(folder)
    assert "configs/tool_sets/a.yaml: the toolset 'a': there is no tool 'exel'. Did you mean 'excel'?" in caplog.text
    assert [(finding.place, finding.problem) for finding in check(kit)] == [
        ("the toolset 'a'", "there is no tool 'exel'")
    ]
    assert names(kit.select(toolset="a")) == ["sql"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: a\ntols: [sql]\n", "configs/tool_sets/a.yaml:2: tols: there is no such key. Did you mean 'tools'?"),
        ("name: a\ntools: [sql\n", "configs/tool_sets/a.yaml, line 3: "),
        ("name: a\ntools: {sql: 1}\n", "configs/tool_sets/a.yaml:2: tools: "),
        ("- a\n- b\n", "a toolset is a mapping with `name` and `tools`"),
        ("", "a toolset is a mapping with `name` and `tools`"),
        ("tools: [sql]\n", "configs/tool_sets/a.yaml:1: "),
    ],
)
def test_a_broken_file_is_an_error_with_file_and_line(folder, text, message):
    write(folder, "configs/tool_sets/a.yaml", text)
    with pytest.raises(SourceError) as error:
        load(folder)
    assert message in str(error.value)


def test_all_broken_files_are_in_one_error(folder):
    write(folder, "configs/tool_sets/a.yaml", "name: 1\n")
    write(folder, "configs/tool_sets/b.yaml", "tools: [sql\n")
    with pytest.raises(SourceError) as error:
        load(folder)
    assert "a.yaml" in str(error.value)
    assert "b.yaml" in str(error.value)


def test_the_files_beside_a_folder_of_tools_are_read_and_a_broken_one_is_skipped(folder):
    (folder / "kit.yaml").unlink()
    write(folder, "configs/tool_sets/a.yaml", "name: a\ntools: [plot, sql]\n")
    write(folder, "configs/tool_sets/b.yaml", "name: [b]\n")
    kit = manifest.load(str(folder))
    assert names(kit.select(toolset="a")) == ["plot", "sql"]
    assert ["configs/tool_sets/b.yaml" in str(error) for error in kit.load_errors] == [True]


def test_load_reads_toolset_files_of_other_places(folder):
    write(folder, "sets/a.yaml", "name: a\ntools: [sql]\n")
    write(folder, "sets/broken.yaml", "name: [b]\n")
    write(folder, "more.yaml", "name: b\ntools: [plot]\n")
    kit = manifest.load(str(folder / "own_tools.py"), tool_sets=[folder / "sets", str(folder / "more.yaml")])
    assert {name: names(kit.select(toolset=name)) for name in kit.toolsets} == {"a": ["sql"], "b": ["plot"]}
    assert ["broken.yaml" in str(error) for error in kit.load_errors] == [True]
    again = asyncio.run(aload(folder / "own_tools.py", folder / "no", tool_sets=[folder / "sets"], allow_missing=True))
    assert (list(again.toolsets), names(again)) == (["a"], ["sql", "excel", "plot"])
    with pytest.raises(SourceError, match="is no folder and no file of toolsets"):
        manifest.load(str(folder / "own_tools.py"), tool_sets=[folder / "stes"])
    with pytest.raises(SourceError, match="A manifest has its own key `tool_sets`"):
        manifest.load(str(folder / "kit.yaml"), tool_sets=[folder / "sets"])


def test_a_missing_toolset_file_is_an_error_before_anything_is_loaded(folder):
    write(folder, "tools.py", "open(__file__ + '.done', 'w').close()\n" + TOOLS)
    with pytest.raises(SourceError, match="is no folder and no file of toolsets"):
        manifest.load(folder / "tools.py", tool_sets=[folder / "none.yaml"])
    assert not (folder / "tools.py.done").exists()


@pytest.mark.parametrize("kind", [str, Path])
def test_the_option_tool_sets_is_a_list(folder, kind):
    with pytest.raises(SourceError, match=r"write tool_sets=\['sets'\]"):
        manifest.load(folder / "own_tools.py", tool_sets=kind("sets"))


def test_folders_that_may_be_missing_or_empty_are_no_errors(folder):
    empty = folder / "empty"
    empty.mkdir()
    kit = manifest.load(empty, folder / "none", folder / "own_tools.py", tool_sets=[folder / "no"], allow_missing=True)
    assert names(kit) == ["sql", "excel", "plot"]
    assert names(manifest.load(folder / "none", allow_missing=True)) == []
    with pytest.raises(SourceError, match="no file with tools"):
        manifest.load(empty)
    with pytest.raises(SourceError, match="There is no file"):
        manifest.load("none.py", allow_missing=True)


def test_a_toolkit_of_a_source_is_copied_when_it_gets_toolsets(folder):
    write(
        folder,
        "kit_file.py",
        TOOLS.replace("import tool", "import Toolkit, tool") + "\nkit = Toolkit('own').add(sql)\n",
    )
    write(folder, "sets/a.yaml", "name: a\ntools: [sql]\n")
    kit = manifest.load(str(folder / "kit_file.py"), tool_sets=[folder / "sets"])
    assert names(kit.select(toolset="a")) == ["sql"]
    assert dict(manifest.load(str(folder / "kit_file.py")).toolsets) == {}


def test_a_manifest_names_other_places_and_its_own_toolset_has_priority(folder):
    write(folder, "configs/tool_sets/unused.yaml", "name: unused\ntools: [sql]\n")
    write(folder, "sets/a.yaml", "name: a\ntools: [sql]\n")
    write(folder, "more.yaml", "name: b\ntools: [plot]\n")
    write(folder, "kit.yaml", "sources: [own_tools.py]\ntool_sets: [sets, more.yaml]\ntoolsets: {a: [excel]}\n")
    kit = load(folder)
    assert {name: names(kit.select(toolset=name)) for name in kit.toolsets} == {"a": ["excel"], "b": ["plot"]}
    write(folder, "kit.yaml", "sources: [own_tools.py]\ntool_sets: []\n")
    assert load(folder).toolsets == {}
    write(folder, "kit.yaml", "sources: [own_tools.py]\ntool_sets: stes\n")
    with pytest.raises(SourceError, match=r"kit\.yaml:2: tool_sets: 'stes' is no folder and no file of toolsets"):
        load(folder)
