"""Which tools ask for an approval, what the person sees, and what happens meanwhile."""

from __future__ import annotations

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.builtins import Workspace
from tests.builtins.workspace.test_stale_edits import EDITS

WRITES = {
    "mkdir": {"uri": "new"},
    "create_file": {"uri": "new.txt", "content": "x\n"},
    "edit_file_full_replace": {"uri": "a.txt", "new_content": "x\n"},
    "edit_file_search_replace": {
        "uri": "a.txt",
        "search_replace": "<<<<<<< SEARCH\none\n=======\nx\n>>>>>>> REPLACE",
    },
    "insert": {"uri": "a.txt", "line": 1, "content": "x"},
    "delete": {"uri": "a.txt"},
    "move": {"uri": "a.txt", "target_uri": "b.txt"},
    "write_text_file": {"uri": "a.txt", "content": "x"},
    "insert_text_file": {"uri": "a.txt", "content": "x", "line_number": 1},
}


def _contents(desk):
    return {path.name: path.read_bytes() if path.is_file() else None for path in desk.folder.iterdir()}


@pytest.fixture
def prepared(make_desk):
    """Return a function that makes a desk with a file that was read."""

    def prepare(**options):
        desk = make_desk(**options)
        desk.write("a.txt", "one\n")
        desk.call("read_file", uri="a.txt")
        return desk

    return prepare


@pytest.mark.parametrize("tool", WRITES)
def test_always_asks_before_every_write(prepared, tool):
    desk = prepared(approve="always")
    desk.call(tool, **WRITES[tool])
    assert len(desk.asked) == 1
    action, details = desk.asked[0]
    assert action.split()[0] in {"Make", "Create", "Edit", "Delete", "Move"}
    assert details["path"] in {"a.txt", "new.txt", "new"}


@pytest.mark.parametrize("tool", WRITES)
@pytest.mark.parametrize("answer", [False, "Not today.", None], ids=["no", "with a reason", "nobody"])
def test_nothing_is_written_without_the_approval(prepared, tool, answer):
    desk = prepared(approve="always", answer=answer)
    before = _contents(desk)
    result = desk.session.exec(tool, WRITES[tool])
    assert result.error.code == ("approval_required" if answer is None else "rejected")
    assert answer in (False, None) or answer in result.text
    assert _contents(desk) == before


def test_never_asks_for_nothing(prepared):
    desk = prepared(approve="never")
    desk.call("delete", uri="a.txt")
    desk.call("create_file", uri="conftest.py", content="")
    assert desk.asked == []


def test_risky_asks_for_deletions_and_for_files_that_are_executed_later(prepared):
    desk = prepared()
    desk.call("insert", uri="a.txt", line=1, content="x")
    desk.call("create_file", uri="b.txt", content="x")
    assert desk.asked == []
    desk.call("create_file", uri="conftest.py", content="import os\n")
    desk.call("insert", uri="conftest.py", line=1, content="x")
    desk.call("move", uri="b.txt", target_uri="x.pth")
    desk.call("move", uri="x.pth", target_uri="c.txt")
    desk.call("mkdir", uri=".git/hooks")
    desk.call("write_text_file", uri=".git/hooks/post-commit", content="x")
    desk.call("delete", uri="c.txt")
    assert [action for action, _ in desk.asked] == [
        "Create conftest.py",
        "Edit conftest.py",
        "Move b.txt to x.pth",
        "Move x.pth to c.txt",
        "Make the folder .git/hooks",
        "Create .git/hooks/post-commit",
        "Delete c.txt",
    ]


def test_a_link_to_a_risky_file_is_risky(prepared):
    desk = prepared()
    desk.write(".git/config", "[core]\n")
    (desk.folder / "harmless.txt").symlink_to(".git/config")
    desk.call("insert", uri="harmless.txt", line=1, content="x")
    assert [action for action, _ in desk.asked] == ["Edit .git/config"]


def test_a_folder_that_becomes_one_of_hooks_is_risky(prepared):
    desk = prepared()
    desk.call("create_file", uri="x/pre-commit", content="#!/bin/sh\n")
    desk.call("move", uri="x", target_uri="y")
    desk.call("move", uri="y", target_uri="sub/hooks")
    assert [action for action, _ in desk.asked] == ["Move y to sub/hooks"]


def test_reads_are_never_asked_for(prepared):
    desk = prepared(approve="always")
    desk.call("read_file", uri="a.txt")
    desk.call("ls", uri=".")
    desk.call("search_file_contains_keyword", uri=".", keyword="one")
    assert desk.asked == []


def test_the_person_sees_the_difference(prepared):
    desk = prepared(approve="always")
    desk.write("b.py", "".join(f"{n}\n" for n in range(1, 21)))
    blocks = "<<<<<<< SEARCH\n5\n=======\nfive\nfünf\n>>>>>>> REPLACE\n<<<<<<< SEARCH\n20\n=======\n>>>>>>> REPLACE"
    desk.call("edit_file_search_replace", uri="b.py", search_replace=blocks)
    assert desk.asked[-1] == (
        "Edit b.py",
        {
            "path": "b.py",
            "diff": "--- b.py\n+++ b.py\n@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n+fünf\n 6\n 7\n 8\n"
            "@@ -17,4 +18,3 @@\n 17\n 18\n 19\n-20",
        },
    )


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("create_file", {"uri": "a.txt", "content": "one\ntwo\n", "overwrite": True}),
        ("write_text_file", {"uri": "a.txt", "content": "one\ntwo\n"}),
        ("edit_file_full_replace", {"uri": "a.txt", "new_content": "one\ntwo\n"}),
    ],
)
def test_the_person_sees_the_old_content_of_a_file_that_is_replaced(prepared, tool, arguments):
    desk = prepared(approve="always")
    desk.call(tool, **arguments)
    assert desk.asked == [
        ("Edit a.txt", {"path": "a.txt", "diff": "--- a.txt\n+++ a.txt\n@@ -1,1 +1,2 @@\n one\n+two"})
    ]


@pytest.mark.parametrize("content", ["a long line\n" * 100_000, "x" * 1_000_000], ids=["lines", "one line"])
def test_the_difference_is_cut(prepared, content):
    desk = prepared(approve="always")
    desk.call("create_file", uri="b.txt", content=content)
    action, details = desk.asked[-1]
    assert action == "Create b.txt (the diff shows only the beginning)"
    assert len(details["diff"]) < 21_000
    assert f"+{content[:4]}" in details["diff"]
    assert details["diff"].endswith("... (the diff is longer)")
    desk.call("create_file", uri="c.txt", content="... (the diff is longer)")
    assert desk.asked[-1][0] == "Create c.txt"


@pytest.mark.parametrize("hidden", ["\u202e", "\u2028", "\x1b[2K", "\x0c", "\u200b"], ids=ascii)
def test_the_person_sees_invisible_characters(prepared, hidden):
    desk = prepared(approve="always")
    desk.call("create_file", uri="b.txt", content=f"a{hidden}b\n")
    line = desk.asked[-1][1]["diff"].split("\n")[-1]
    assert line.isprintable()
    assert "\\" in line
    assert desk.read("b.txt").decode() == f"a{hidden}b\n"


def test_a_function_decides_by_the_action(prepared):
    desk = prepared(approve=lambda action: "secret" in action.details.get("diff", ""))
    desk.call("insert", uri="a.txt", line=1, content="x")
    desk.call("insert", uri="a.txt", line=1, content="a secret")
    assert len(desk.asked) == 1


def test_a_call_that_would_fail_asks_nobody(prepared):
    desk = prepared(approve="always")
    desk.error("delete", uri="b.txt")
    desk.error("create_file", uri="a.txt", content="x")
    desk.error("edit_file_search_replace", uri="a.txt", search_replace="nothing")
    desk.error("insert", uri="a.txt", line=9, content="x")
    desk.error("move", uri="b.txt", target_uri="c.txt")
    assert desk.asked == []


@pytest.mark.parametrize("tool", EDITS)
def test_a_file_that_changes_during_the_approval_is_not_edited(make_desk, tool):
    desk = make_desk(approve="always")
    path = desk.write("a.txt", "one\n")
    kit = Toolkit("kit", approver=lambda request: path.write_text("one\ntwo\n") > 0).add(desk.workspace)
    if tool == "edit_file_full_replace":
        kit.call("read_file", {"uri": "a.txt"})
    result = kit.exec(tool, {"uri": "a.txt", **EDITS[tool]})
    since = "you read it" if tool == "edit_file_full_replace" else "its edit was approved"
    assert f"'a.txt' has changed since {since}. Read it again" in result.text
    assert desk.read("a.txt") == b"one\ntwo\n"
    kit = Toolkit("kit", approver=lambda request: path.chmod(0o444) is None).add(desk.workspace)
    kit.call("read_file", {"uri": "a.txt"})
    assert "read-only" in kit.exec("write_text_file", {"uri": "a.txt", "content": "two"}).text
    assert desk.read("a.txt") == b"one\ntwo\n"


@pytest.mark.parametrize("tool", EDITS)
@pytest.mark.parametrize("approve", ["always", "never"])
def test_a_read_only_file_is_not_edited_and_nobody_is_asked(make_desk, tool, approve):
    desk = make_desk(approve=approve)
    desk.write("a.txt", "one\n").chmod(0o444)
    desk.call("read_file", uri="a.txt")
    assert "'a.txt' is read-only" in desk.error(tool, uri="a.txt", **EDITS[tool])
    assert desk.asked == []
    assert desk.read("a.txt") == b"one\n"


@pytest.mark.parametrize("change", ["content", "read-only", "other file", "link"])
def test_what_changes_during_the_approval_is_not_deleted(make_desk, change):
    desk = make_desk(approve="always")
    path = desk.write("a.txt", "one\n")

    def decide(request):
        if change == "content":
            desk.write("a.txt", "one\ntwo\n")
        elif change == "read-only":
            path.chmod(0o444)
        else:
            path.rename(path.with_name("b.txt"))
            desk.write("a.txt", "one\n") if change == "other file" else path.symlink_to("b.txt")
        return True

    kit = Toolkit("kit", approver=decide).add(desk.workspace)
    text = kit.exec("delete", {"uri": "a.txt"}).text
    assert "'a.txt' has changed since its deletion was approved. Read it again." in text
    assert path.is_symlink() or path.is_file()


def test_the_person_is_asked_before_the_path_of_a_read_only_file_becomes_free(desk):
    desk.write("a.txt", "one\n").chmod(0o444)
    desk.call("move", uri="a.txt", target_uri="b.txt")
    desk.call("delete", uri="b.txt")
    assert [action for action, _ in desk.asked] == [
        "Move a.txt to b.txt (the file is read-only)", "Delete b.txt (the file is read-only)",
    ]  # fmt: skip


def test_a_call_that_waits_is_resumed(make_desk):
    desk = make_desk(answer=None)
    desk.write("a.txt", "one\n")
    answer = {"tool_calls": [{"id": "c1", "function": {"name": "delete", "arguments": '{"uri": "a.txt"}'}}]}
    run = desk.kit.run(answer, format="openai")
    assert run.pending[0].tool == "delete"
    assert desk.read("a.txt") == b"one\n"
    assert desk.kit.resume(run, approved=True)[0]["content"] == "Deleted: a.txt"
    assert not (desk.folder / "a.txt").exists()


def test_outside_of_a_toolkit_nobody_can_be_asked(tmp_path):
    (tmp_path / "a.txt").write_text("one")
    result = Workspace(tmp_path).toolspec("delete").exec(uri="a.txt")
    assert result.is_error
    assert (tmp_path / "a.txt").exists()
