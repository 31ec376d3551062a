"""`trust=` limits what may be imported and started, whatever kind of source asks for it."""

from __future__ import annotations

import pytest

from ahvn_tools.errors import SourceError
from ahvn_tools.manifest import load

TOOL = "from ahvn_tools import tool\n@tool\ndef greet() -> str: return 'hello'\n"


def test_nothing_may_run_with_an_empty_list(write, tmp_path):
    write(TOOL)
    write(TOOL, "folder/hut.py")
    write('{"mcpServers": {"a": {"command": "python", "args": ["-c", ""]}}}', "mcp.json")
    write("kind: function\nfunction: shed.py:greet", "tool.yaml")
    write("kind: mcp\ncommand: python -c 1", "server.yaml")
    sources = ["shed.py", "shed", "shed.py:greet", "colorsys", "mcp:shed.py", "python -c 1", "mcp.json", "tool.yaml"]
    for source in [*sources, "server.yaml", "def f():\n  pass", {"mcpServers": {"a": {"command": "python"}}}]:
        with pytest.raises(SourceError, match=r"is not trusted: add .+ to trust=\[…\], or remove the source"):
            load(source, trust=[])
    kit = load("folder", trust=[])
    assert (len(kit), [error.file for error in kit.load_errors]) == (0, ["folder/hut.py"])


def test_a_link_counts_as_the_file_that_it_leads_to(write, tmp_path):
    write(TOOL, "outside/hut.py")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside/link.py").symlink_to(tmp_path / "outside/hut.py")
    with pytest.raises(SourceError, match="is not trusted"):
        load("inside/link.py", trust=["inside/"])


def test_the_packages_of_a_file_must_be_trusted_too(write):
    write("", "house/__init__.py")
    write(TOOL, "house/hall.py")
    with pytest.raises(SourceError, match=r"__init__.py' is not trusted"):
        load("house/hall.py", trust=["house/hall.py"])
    assert len(load("house/hall.py", trust=["house/"])) == 1


def test_code_is_trusted_by_a_pattern_of_its_own():
    assert len(load("def f():\n  pass", trust=["<code>"])) == 1
