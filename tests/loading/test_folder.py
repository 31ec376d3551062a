"""A folder is a source of all its files, in the same order each time; a broken one costs itself alone."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from ahvn_tools.errors import SourceError
from ahvn_tools.loading import folder
from ahvn_tools.loading.read_options import ReadOptions
from ahvn_tools.manifest import load

TOOL = "from ahvn_tools import tool\n@tool\ndef {name}() -> str:\n    'Tell.'\n    return {value}\n"


def tool(name: str, value: str = "1") -> str:
    return TOOL.format(name=name, value=value)


def names(source: str) -> list[str]:
    return [spec.name for spec in load(source)]


def test_all_files_are_read_in_the_order_of_their_paths(write):
    for file in ("b.py", "a/z.py", "a/a.py", "c/d/e.py", "Z.py"):
        write(tool(file.removesuffix(".py").replace("/", "_")), f"kit/{file}")
    assert names("kit") == ["Z", "a_a", "a_z", "b", "c_d_e"]
    assert load("kit").name == "kit"


def test_files_that_are_not_meant_as_tools_are_left_out(write):
    write(tool("one"), "kit/one.py")
    skipped = ["_own.py", ".hidden.py", "test_one.py", "conftest.py", "setup.py", "__pycache__/x.py", ".venv/x.py"]
    skipped += ["_drafts/x.py", "node_modules/x.py", "env/x.py", "env/lib/x.py", "readme.md", "test_all/x.py"]
    for file in skipped:
        write("raise RuntimeError", f"kit/{file}")
    write("", "kit/env/pyvenv.cfg")
    write("{not json", "kit/notes.txt")
    write('{"name": "x"}', "kit/package.json")
    write("sources: []", "kit/toolkit.yaml")
    write("a: [", "kit/other.yaml")
    kit = load("kit")
    assert ([spec.name for spec in kit], kit.load_errors) == (["one"], ())


def test_a_manifest_in_a_folder_is_left_out_with_a_warning(write, caplog):
    write(tool("one"), "kit/one.py")
    write("sources: [one.py]\ntools: {one: {requires_approval: true}}", "kit/toolkit.yaml")
    write("services: {}", "kit/compose.yaml")
    load("kit")
    message = "kit/toolkit.yaml is a manifest, and a folder is loaded without it. To use it, load it by its path."
    assert caplog.messages == [message]


@pytest.mark.exhaustive
def test_a_server_that_cannot_be_reached_is_reported_without_a_traceback(write, caplog):
    write(tool("one"), "kit/one.py")
    write('{"mcpServers": {"gone": {"url": "http://127.0.0.1:9/mcp"}}}', "kit/gone.json")
    assert [error.file for error in load("kit").load_errors] == ["kit/gone.json"]
    [record] = [record for record in caplog.records if "was skipped" in record.message]
    assert "cannot be reached" in record.message
    assert not record.exc_info


def test_files_of_one_name_in_several_folders_are_all_read(write):
    write(tool("one", "__name__"), "kit/a/shed.py")
    write(tool("two", "__name__"), "kit/b/shed.py")
    kit = load("kit")
    assert kit.call("one") == "shed"
    assert kit.call("two").startswith("_loaded_shed_")


def test_packages_are_imported_with_their_relative_imports_and_each_tool_counts_once(write):
    write("from .hall import hall", "kit/house/__init__.py")
    write("from . import cellar\nfrom .cellar.wine import wine\n" + tool("hall", "wine()"), "kit/house/hall.py")
    write("", "kit/house/cellar/__init__.py")
    write("from fastmcp import FastMCP\nmcp = FastMCP('x')\n" + tool("wine", "'red'"), "kit/house/cellar/wine.py")
    write("from house.cellar.wine import mcp, wine", "kit/again.py")
    kit = load("kit")
    assert ([spec.name for spec in kit], kit.duplicates, list(kit.servers)) == (["wine", "hall"], [], ["x"])
    assert kit.call("hall") == "red"
    kit.remove_mcp("x")


def test_a_broken_file_is_logged_with_its_traceback_skipped_and_reported(write, caplog):
    write(tool("one"), "kit/one.py")
    write("import os\n\ndef f():\n    1 / 0\n\nf()", "kit/broken.py")
    write("def f(:", "kit/bad/syntax.py")
    write("import sys\nsys.exit(1)", "kit/leaving.py")
    write("openapi: 3.1.0\n\tpaths: {}", "kit/twice.yaml")
    write('{"mcpServers": {"a": {}}}', "kit/mcp.json")
    write("[1,\n", "kit/open.json")
    with caplog.at_level(logging.WARNING, logger="ahvn_tools.loading.contents"):
        kit = load("kit")
    assert [spec.name for spec in kit] == ["one"]
    assert [(error.file, error.line) for error in kit.load_errors] == [
        ("kit/bad/syntax.py", 1),
        ("kit/broken.py", 4),
        ("kit/leaving.py", 2),
        ("kit/mcp.json", None),
        ("kit/open.json", 2),
        ("kit/twice.yaml", 2),
    ]
    record = next(record for record in caplog.records if "kit/broken.py" in record.getMessage())
    assert record.getMessage() == (
        "kit/broken.py was skipped: kit/broken.py cannot be loaded: ZeroDivisionError: division by zero "
        "(broken.py, line 4)"
    )
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ZeroDivisionError)


def test_a_server_that_cannot_be_reached_costs_only_itself(write):
    write(tool("one"), "kit/one.py")
    write('{"mcpServers": {"clock": {"url": "http://127.0.0.1:9/mcp"}}}', "kit/clock.json")
    kit = load("kit")
    assert ([spec.name for spec in kit], kit.servers) == (["one"], {})
    assert [error.file for error in kit.load_errors] == ["kit/clock.json"]
    assert str(kit.load_errors[0]).startswith("kit/clock.json: ")


def test_skipped_files_are_findings_of_the_toolkit(write):
    write(tool("one"), "kit/one.py")
    write("1 / 0", "kit/broken.py")
    kit = load("kit")
    findings = [finding for finding in kit.check() if finding.rule == "load-error"]
    assert [(finding.severity, finding.place) for finding in findings] == [("error", "kit/broken.py")]
    with pytest.raises(AttributeError):
        kit.load_errors = ()
    assert kit.select(names=["one"]).load_errors == kit.session().load_errors == kit.load_errors


def test_a_file_with_several_toolkits_is_a_broken_one(write):
    write("from ahvn_tools import Toolkit\na = Toolkit('a')\nb = Toolkit('b')", "kit/two.py")
    assert str(load("kit").load_errors[0]) == ("kit/two.py has 2 toolkits: 'a', 'b'. Choose one: kit/two.py:NAME.")


def test_toolkits_of_files_are_added_with_what_they_demand_of_their_tools(write):
    code = "from ahvn_tools import Toolkit\nkit = Toolkit('in', state={'word': 'hello'})\n@kit.tool(tags=['x'])\n"
    write(code + "def greet(word: str) -> str: return word\nkit.bind('word')", "kit/one.py")
    write(tool("other"), "kit/two.py")
    kit = load("kit")
    assert ([spec.name for spec in kit], kit["greet"].definition.tags) == (["greet", "other"], frozenset({"x"}))


def test_the_first_of_two_tools_of_one_name_is_kept_and_the_second_recorded(write):
    write(tool("one", "'first'"), "kit/a.py")
    write(tool("one", "'second'"), "kit/b.py")
    kit = load("kit")
    assert kit.call("one") == "first"
    assert [(duplicate.name, duplicate.action) for duplicate in kit.duplicates] == [("one", "keep")]


def test_links_that_lead_in_a_circle_end(write, tmp_path):
    write(tool("one"), "kit/a/one.py")
    (tmp_path / "kit/a/loop").symlink_to(tmp_path / "kit")
    (tmp_path / "kit/b").symlink_to(tmp_path / "kit/a")
    (tmp_path / "kit/c").symlink_to(tmp_path / "kit/c")
    (tmp_path / "kit/gone.py").symlink_to(tmp_path / "nowhere.py")
    (tmp_path / "kit/again.py").symlink_to(tmp_path / "kit/a/one.py")
    kit = load("kit")
    assert ([spec.name for spec in kit], kit.duplicates, kit.load_errors) == (["one"], [], ())


@pytest.mark.parametrize(("limit", "excess"), [("MAX_FILES", "files"), ("MAX_ENTRIES", "entries")])
def test_a_folder_that_is_too_large_is_refused(limit, excess, write, monkeypatch):
    monkeypatch.setattr(folder, limit, 3)
    for number in range(4):
        write("", f"kit/f{number}.py")
    with pytest.raises(SourceError, match=rf"The folder 'kit' has more than 3 {excess}: name a folder in it"):
        load("kit")


def test_folders_that_are_too_deep_are_not_entered(write, monkeypatch):
    monkeypatch.setattr(folder, "MAX_DEPTH", 2)
    write(tool("one"), "kit/a/b/one.py")
    write(tool("two"), "kit/a/b/c/two.py")
    assert names("kit") == ["one"]


def test_a_folder_that_is_not_there_is_refused():
    with pytest.raises(SourceError, match="There is no folder 'nowhere'"):
        folder.read("nowhere", ReadOptions())


def test_a_folder_without_tools_is_refused(write):
    write("x = 1", "kit/one.py")
    with pytest.raises(SourceError, match="The folder 'kit' has no file with tools"):
        load("kit")


def test_openapi_documents_and_lists_of_mcp_tools_in_a_folder_are_read(write):
    wire = {"name": "find", "inputSchema": {"type": "object"}}
    write(json.dumps({"tools": [wire]}), "kit/wire.json")
    operation = {"operationId": "ping", "responses": {"200": {"description": "ok"}}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "x", "version": "1"},
        "servers": [{"url": "http://127.0.0.1:9"}],
        "paths": {"/ping": {"get": operation}},
    }
    write(json.dumps(document), "kit/api.json")
    assert names("kit") == ["ping", "find"]


def test_a_path_object_is_a_folder_too(write):
    write(tool("one"), "my tools/one.py")
    assert load(Path("my tools")).name == "my tools"
