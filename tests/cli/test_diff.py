"""`ahvn-tools pin` and `diff`: what tools were, what they are now, and whether a caller would notice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ahvn_tools.cli.app import main

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpora" / "github_mcp_tools.jsonl"

OLD = '''
from ahvn_tools import tool


@tool
def find(query: str, limit: int = 10) -> list[str]:
    """Find notes."""


@tool
def write(text: str) -> None:
    """Write a note."""


@tool
def remove(number: int) -> None:
    """Remove a note."""
'''
NEW = '''
from ahvn_tools import tool


@tool
def find(query: str, limit: str) -> list[str]:
    """Find notes."""


@tool
def write(text: str, title: str | None = None) -> None:
    """Write a note, perhaps with a title."""


@tool
def count() -> int:
    """Count the notes."""
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.py").write_text(OLD)
    (tmp_path / "shed.py").write_text(NEW)
    return tmp_path


def test_the_differences_of_two_sources_are_listed(folder, capsys):
    assert main(["diff", "tools.py", "shed.py"]) == 1
    assert capsys.readouterr().out == snapshot("""\
removed: remove (998186e9ddbb -> none)
breaking: find (75517fef5391 -> f566ca3bffaf)
    parameter 'limit' is required
    parameter 'limit' no longer accepts integer
compatible: write (3fcbca65675c -> 8a7e84c12db8)
    the description changed
    the input schema changed
added: count (none -> f612147508b6)

1 removed, 1 breaking, 1 compatible, 1 added.
""")


def test_a_lock_file_is_compared_as_a_source(folder, capsys):
    assert main(["pin", "tools.py", "-o", "old.lock"]) == 0
    assert main(["pin", "shed.py", "-o", "new.json"]) == 0
    assert main(["diff", "old.lock", "tools.py"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Pinned 3 tools in old.lock.",
        "Pinned 3 tools in new.json.",
        "No differences.",
    ]
    assert main(["diff", "old.lock", "new.json"]) == 1
    out = capsys.readouterr().out
    main(["diff", "tools.py", "shed.py"])
    assert capsys.readouterr().out == out


def test_the_differences_as_json(folder, capsys):
    assert main(["diff", "tools.py", "shed.py", "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert result["summary"] == {"removed": 1, "breaking": 1, "compatible": 1, "added": 1}
    assert [(row["tool"], row["change"]) for row in result["changes"]] == [
        ("remove", "removed"),
        ("find", "breaking"),
        ("write", "compatible"),
        ("count", "added"),
    ]
    removed, breaking, _, added = result["changes"]
    assert (removed["new"], added["old"]) == (None, None)
    assert len(breaking["old"]) == len(breaking["new"]) == 64


@pytest.mark.parametrize(
    ("old", "new", "arguments", "status"),
    [
        ("tools.py", "shed.py", ["--fail-on", "never"], 0),
        ("tools.py", "shed.py", ["--include", "write"], 0),
        ("tools.py", "shed.py", ["--include", "write", "--fail-on", "any"], 1),
        ("tools.py", "tools.py", ["--fail-on", "any"], 0),
    ],
)
def test_the_status_says_whether_a_caller_would_notice(folder, capsys, old, new, arguments, status):
    assert main(["diff", old, new, *arguments]) == status


def test_pinning_again_says_what_has_changed_and_gives_the_same_file(folder, capsys):
    main(["pin", "tools.py"])
    first = (folder / "tools.lock").read_bytes()
    main(["pin", "tools.py"])
    assert (folder / "tools.lock").read_bytes() == first
    main(["pin", "shed.py"])
    assert capsys.readouterr().out.splitlines() == [
        "Pinned 3 tools in tools.lock.",
        "Pinned 3 tools in tools.lock: no change.",
        "Pinned 3 tools in tools.lock: 1 added, 1 removed, 2 changed.",
    ]


def test_a_broken_lock_file_is_neither_compared_nor_replaced(folder, capsys):
    (folder / "tools.lock").write_text("{}")
    for arguments in (["diff", "tools.lock", "tools.py"], ["pin", "tools.py"]):
        assert main(arguments) == 1
        assert "'tools.lock' cannot be used: it does not contain pinned tools. Restore it" in capsys.readouterr().err
    assert (folder / "tools.lock").read_text() == "{}"


def test_a_lock_file_of_several_sources_and_one_of_a_real_server(folder, capsys):
    assert main(["pin", "tools.py", "shed.py:count", "-o", "all.lock"]) == 0
    assert "Pinned 4 tools" in capsys.readouterr().out
    if not CORPUS.exists():
        pytest.skip(f"the corpus {CORPUS} is absent")
    assert main(["pin", str(CORPUS), "-o", "github.lock"]) == 0
    assert main(["diff", "github.lock", str(CORPUS), "--fail-on", "any"]) == 0
    assert "Pinned 117 tools" in capsys.readouterr().out


def test_a_source_that_is_not_whole_is_neither_pinned_nor_compared(folder, capsys):
    tools = folder / "parts"
    tools.mkdir()
    (tools / "part.py").write_text("from ahvn_tools import tool\n\n\n@tool\ndef add(a: int) -> int:\n    return a\n")
    (tools / "broken.py").write_text("def")
    for words in (["pin", "parts"], ["diff", "parts", "parts"]):
        assert main(words) == 1
        printed = capsys.readouterr()
        assert printed.out == ""
        assert "error: Not all tools of the sources are known" in printed.err
    assert not (folder / "tools.lock").exists()


def test_texts_of_tools_do_not_control_the_terminal(folder, capsys):
    tools = [{"name": "a", "inputSchema": {"type": "object", "properties": {"x\x1b[2J": {"type": "string"}}}}]
    (folder / "old.json").write_text(json.dumps({"tools": tools}))
    tools[0]["inputSchema"] = {"type": "object", "properties": {}}
    (folder / "new.json").write_text(json.dumps({"tools": tools}))
    main(["diff", "old.json", "new.json"])
    assert "\x1b" not in capsys.readouterr().out


def test_of_a_lock_file_the_selected_tools_are_compared(folder, capsys):
    main(["pin", "tools.py"])
    assert main(["diff", "tools.lock", "tools.py", "--include", "write", "--fail-on", "any"]) == 0
    assert main(["check", "tools.py", "--lock", "tools.lock", "--exclude", "find", "--format", "mcp"]) == 0
    assert main(["pin", "tools.py", "--include", "write"]) == 0
    assert main(["diff", "tools.lock", "tools.py", "--fail-on", "any"]) == 1
