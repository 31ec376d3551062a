"""Agents: the tools of single tools and of toolsets, in order, each once."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ahvn_tools import manifest
from ahvn_tools.errors import SourceError, ToolLookupError

TOOLS = """
from ahvn_tools import tool

@tool
def search(query: str) -> str:
    '''Search.'''
    return query

@tool
def sql(query: str) -> str:
    '''Query.'''
    return query

@tool
def plot(data: str) -> str:
    '''Plot.'''
    return data

@tool
def drop(table: str) -> str:
    '''Drop a table.'''
    return table
"""

MANIFEST = """
sources: [own_tools.py]
tools:
  drop: {audience: admin}
toolsets:
  analysis: {tools: [plot, sql], ordered: true}
  unordered: [plot, sql]
  all: {groups: basic}
agents:
  writer: {description: Writes., tools: [sql, search], tool_sets: [analysis]}
  reader: {tool_sets: [unordered, analysis]}
  user: {tools: search, tool_sets: all, audience: user}
  nobody: {}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own_tools.py").write_text(TOOLS)
    (tmp_path / "kit.yaml").write_text(MANIFEST)
    return tmp_path


def load(folder: Path):
    return manifest.load(str(folder / "kit.yaml"))


def names(view) -> list[str]:
    return [tool.name for tool in view]


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("writer", ["sql", "search", "plot"]),
        ("reader", ["sql", "plot"]),
        ("user", ["search", "sql", "plot"]),
        ("nobody", []),
    ],
)
def test_the_tools_of_an_agent_are_in_the_order_of_its_lists_each_once(folder, agent, expected):
    kit = load(folder)
    view = manifest.select_agent(kit, agent)
    assert names(view) == names(kit.select(toolset=agent)) == expected
    assert [tool["function"]["name"] for tool in view.to("openai")] == expected
    assert view.exec("drop", {"table": "t"}).error.code == "not_available"


def test_an_agent_is_a_toolset_with_a_description_that_follows_the_toolkit(folder):
    kit = load(folder)
    assert kit.toolset("writer").description == "Writes."
    kit.add_toolset("analysis", names=["drop"])
    assert names(manifest.select_agent(kit, "writer")) == ["sql", "search", "drop"]


@pytest.mark.parametrize("as_path", [str, Path])
def test_the_file_of_an_agent_may_have_keys_for_other_programs(folder, as_path):
    file = folder / "agent.yaml"
    file.write_text(
        "model: some-model\noutput_strategy: {function_calling: true}\ntool_sets: [analysis]\ntools: [search]\n"
    )
    assert names(manifest.select_agent(load(folder), as_path(file))) == ["search", "plot", "sql"]


def test_an_unknown_tool_of_an_agent_is_left_out_with_a_warning(folder, caplog):
    (folder / "agent.yaml").write_text("tools: [serch]\n")
    kit = load(folder)
    assert names(manifest.select_agent(kit, {"tools": ["plt", "sql"]})) == ["sql"]
    assert names(manifest.select_agent(kit, str(folder / "agent.yaml"))) == []
    assert "The agent: there is no tool 'plt'. Did you mean 'plot'?" in caplog.text
    assert f"{folder}/agent.yaml: there is no tool 'serch'. Did you mean 'search'?" in caplog.text


def test_the_configuration_of_an_agent_may_be_a_mapping(folder):
    kit = load(folder)
    assert names(manifest.select_agent(kit, {"tools": "search", "temperature": 1})) == ["search"]
    session = kit.session(user="ann")
    assert names(manifest.select_agent(session, {"tools": [], "tool_sets": ["all"], "audience": "x"})) == [
        "search", "sql", "plot",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ({"model": "m"}, "write `tools: "),
        ({"tools": 3}, "tools: "),
        ({"toolsets": ["analysis"], "tools": []}, "toolsets: there is no such key. Did you mean 'tool_sets'?"),
        ({"tool-sets": ["analysis"]}, "tool-sets: there is no such key. Did you mean 'tool_sets'?"),
    ],
)
def test_a_configuration_without_tools_or_with_another_spelling_is_an_error(folder, configuration, message):
    with pytest.raises(SourceError) as error:
        manifest.select_agent(load(folder), configuration)
    assert message in str(error.value)


def test_a_broken_file_is_an_error_with_file_and_line(folder):
    file = folder / "agent.yaml"
    file.write_text("model: m\ntools: {a: 1}\n")
    with pytest.raises(SourceError, match=r"agent\.yaml:2: tools: "):
        manifest.select_agent(load(folder), file)
    with pytest.raises(SourceError, match=r"nothing\.yaml cannot be read"):
        manifest.select_agent(load(folder), "nothing.yaml")


def test_an_unknown_agent_and_an_unknown_toolset_are_errors_with_near_misses(folder):
    kit = load(folder)
    with pytest.raises(ToolLookupError, match="Did you mean 'writer'"):
        manifest.select_agent(kit, "writr")
    with pytest.raises(ToolLookupError, match="Did you mean 'analysis'"):
        manifest.select_agent(kit, {"tool_sets": ["analyses"]})
    (folder / "kit.yaml").write_text(MANIFEST + "  wrong:\n    tool_sets: [analyses]\n")
    with pytest.raises(
        SourceError, match=r"kit\.yaml:14: agents\.wrong: There is no toolset 'analyses'. Did you mean 'analysis'"
    ):
        load(folder)


def test_an_agent_and_a_toolset_cannot_have_one_name(folder):
    (folder / "kit.yaml").write_text(MANIFEST + "  analysis: {tools: [sql]}\n")
    with pytest.raises(SourceError, match=r"kit\.yaml:14: agents\.analysis: there is a toolset 'analysis'"):
        load(folder)


def test_an_unknown_tool_of_an_agent_is_a_warning_and_a_finding(folder, caplog):
    (folder / "kit.yaml").write_text(MANIFEST + "  wrong: {tools: [serch, sql]}\n")
    with caplog.at_level(logging.WARNING):
        kit = load(folder)
    assert "The agent 'wrong': there is no tool 'serch'. Did you mean 'search'?" in caplog.text
    findings = [(finding.place, finding.problem, finding.fix) for finding in kit.check() if "serch" in finding.problem]
    assert findings == [("the toolset 'wrong'", "there is no tool 'serch'", "Did you mean 'search'?")]
    assert names(manifest.select_agent(kit, "wrong")) == ["sql"]
    view = manifest.select_agent(kit, {"tools": ["plt"]})
    assert "the selection: there is no tool 'plt'" in "\n".join(map(str, view.check()))
