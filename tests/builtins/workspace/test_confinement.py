"""No tool reads, lists, finds or writes anything outside of the roots, whatever the path is."""

from __future__ import annotations

import os

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.builtins import Workspace

SECRET = "TOP-SECRET-WORD"

ATTACKS = {
    "parent": "../outside/secret.txt",
    "absolute": "{outside}/secret.txt",
    "uri": "file://{outside}/secret.txt",
    "encoded uri": "file://{root}/%2e%2e/outside/secret.txt",
    "link": "link.txt",
    "link to a folder": "folder/secret.txt",
    "chain of links": "chain.txt",
    "through a link and back": "folder/../outside/secret.txt",
    "sibling with the same prefix": "../work-evil/secret.txt",
    "process folder": "/proc/self/cwd/../outside/secret.txt",
    "link to a process": "proc/self/environ",
    "home": "~/secret.txt",
    "hard link": "hard.txt",
    "pipe": "pipe",
    "device": "zero",
    "NUL": "a.txt\0/../../outside/secret.txt",
}

TOOLS = {
    "read_file": {},
    "partially_read_by_range": {"start_line": 1, "end_line": 9},
    "partially_read_around_keyword": {"keyword": "SECRET"},
    "get_file_size": {},
    "ls": {},
    "search_file_contains_keyword": {"keyword": "SECRET"},
    "search_file_name_includes": {"name_includes": "secret"},
    "mkdir": {},
    "create_file": {"content": "x", "overwrite": True},
    "edit_file_full_replace": {"new_content": "x"},
    "edit_file_search_replace": {"search_replace": f"<<<<<<< SEARCH\n{SECRET}\n=======\nx\n>>>>>>> REPLACE"},
    "insert": {"line": 1, "content": "x"},
    "delete": {},
    "move": {"target_uri": "stolen.txt"},
    "view_text_file": {},
    "write_text_file": {"content": "x"},
    "insert_text_file": {"content": "x", "line_number": 1},
}


def build(top):
    """Make a folder with secrets beside a root, and every link to it in the root. Return both."""
    outside, root = top / "outside", top / "work"
    for folder in (outside, root, top / "work-evil"):
        folder.mkdir(parents=True)
        if folder != root:
            (folder / "secret.txt").write_text(f"{SECRET}\n")
    (root / "a.txt").write_text("harmless\n")
    (root / "link.txt").symlink_to(outside / "secret.txt")
    (root / "chain.txt").symlink_to("link.txt")
    (root / "folder").symlink_to(outside)
    (root / "proc").symlink_to("/proc")
    (root / "zero").symlink_to("/dev/zero")
    os.mkfifo(root / "pipe")
    os.link(outside / "secret.txt", root / "hard.txt")
    return outside, root


@pytest.fixture
def outside(tmp_path):
    return build(tmp_path)[0]


def check_attack(tool, attack, outside, root):
    path = ATTACKS[attack].format(outside=outside, root=root)
    arguments = {"uri": path, **TOOLS[tool]}
    kit = Toolkit("kit").add(Workspace(root, approve="never", hard_links="refuse"))
    result = kit.exec(tool, arguments, timeout=20)
    assert SECRET not in result.text
    assert "outside/secret" not in result.text.replace(path, "")
    assert (outside / "secret.txt").read_text() == f"{SECRET}\n"
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]
    own_entry = attack in {"link", "chain of links", "hard link", "pipe", "device"}
    entry_tool = tool in {"delete", "move", "get_file_size"}
    assert result.is_error or (own_entry and entry_tool), result.text
    if (root / "stolen.txt").exists() and attack != "hard link":
        assert kit.exec("read_file", {"uri": "stolen.txt"}, timeout=20).is_error


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.default_cases(6)
def test_nothing_outside_is_read_or_changed(tmp_path, tool):
    for attack in ATTACKS:
        check_attack(tool, attack, *build(tmp_path / attack.replace(" ", "_")))


@pytest.mark.parametrize("target", ["../outside/x.txt", "{outside}/x.txt", "folder/x.txt", "link.txt", "folder"])
def test_nothing_is_moved_outside(tmp_path, outside, target):
    kit = Toolkit("kit").add(Workspace(tmp_path / "work", approve="never"))
    assert kit.exec("move", {"uri": "a.txt", "target_uri": target.format(outside=outside)}).is_error
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]
    assert (tmp_path / "work/a.txt").read_text() == "harmless\n"


def test_the_roots_of_a_session_are_narrower(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(f"{name} {SECRET}\n")
    kit = Toolkit("kit").add(Workspace(tmp_path, approve="never"))
    session = kit.session(roots=[tmp_path / "one"])
    assert session.call("read_file", {"uri": "a.txt"}) == f"one {SECRET}\n"
    assert session.call("ls", {"uri": "."}) == "[FILE] a.txt"
    assert session.call("search_file_contains_keyword", {"uri": ".", "keyword": SECRET}) == f"a.txt:1:one {SECRET}"
    for tool, arguments in TOOLS.items():
        path = {"uri": str(tmp_path / "two" / "a.txt")}
        result = session.exec(tool, {**path, **arguments})
        assert result.is_error
        assert SECRET not in result.text
    assert (tmp_path / "two/a.txt").read_text() == f"two {SECRET}\n"
    assert kit.call("ls", {"uri": "."}) == "[DIR ] one\n[DIR ] two"


def test_hard_links_follow_the_policy(tmp_path, outside):
    def run(policy, tool, **arguments):
        kit = Toolkit("kit").add(Workspace(tmp_path / "work", approve="never", hard_links=policy))
        return kit.exec(tool, {"uri": "hard.txt", **arguments})

    assert run("refuse", "read_file").is_error
    assert run("read", "read_file").text == f"{SECRET}\n"
    assert "hard links" in run("read", "insert", line=1, content="x").text
    assert not run("allow", "insert", line=1, content="x").is_error
    assert (outside / "secret.txt").read_text() == f"{SECRET}\n"
