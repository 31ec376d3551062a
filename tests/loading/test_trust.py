"""`trust=` limits what may be imported and started, whatever kind of source asks for it."""

from __future__ import annotations

import importlib.util
import py_compile

import pytest

from ahvn_tools.errors import SourceError
from ahvn_tools.manifest import load

TOOL = "from ahvn_tools import tool\n@tool\ndef greet() -> str: return 'hello'\n"


def test_nothing_may_run_with_an_empty_list(write, tmp_path):
    write(TOOL)
    write(TOOL, "folder/hut.py")
    write('{"mcpServers": {"a": {"command": "python", "args": ["-c", ""]}}}', "mcp.json")
    sources = ["shed.py", "shed", "shed.py:greet", "colorsys", "mcp:shed.py", "python -c 1", "mcp.json"]
    for source in [*sources, "def f():\n  pass", {"mcpServers": {"a": {"command": "python"}}}]:
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


def test_a_worker_process_does_not_run_bytecode_of_another_text(write, tmp_path):
    """Its mark says that it is not to be compared with the text."""
    write(TOOL, "hall.py")
    write("open('made', 'w').close()\n" + TOOL, "other.py")
    cached = importlib.util.cache_from_source("hall.py")
    py_compile.compile("other.py", cfile=cached, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    write("sources: [{source: hall.py, isolation: process}]", "kit.yaml")
    assert load("kit.yaml", trust=["hall.py"]).call("greet") == "hello"
    assert not (tmp_path / "made").exists()


def test_a_pattern_may_name_a_link_that_stays_in_its_folder(write, tmp_path):
    write(TOOL, "deep/hut.py")
    (tmp_path / "link").symlink_to("deep")
    assert len(load("deep/hut.py", trust=["link/"])) == 1


def test_a_document_may_use_what_a_trusted_module_has_imported_if_that_is_trusted_too(write):
    write("from hall import greet as welcome\nfrom json import dumps", "shed.py")
    write("def greet() -> str: return 'hello'", "hall.py")
    write("sources: ['shed.py:welcome', 'shed.py:dumps']", "kit.yaml")
    for trust in (["shed.py", "json"], ["shed.py", "hall.py"]):
        with pytest.raises(SourceError, match=r"The module .(hall|json).*not trusted"):
            load("kit.yaml", trust=trust)
    assert len(load("kit.yaml", trust=["*.py", "json"])) == 2
    assert len(load("shed.py:dumps", trust=["shed.py"])) == 1  # named by the host
