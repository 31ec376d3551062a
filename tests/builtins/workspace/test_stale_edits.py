"""An edit of a file that has changed since the session read it is an error."""

from __future__ import annotations

import threading

import pytest

from ahvn_tools import Toolkit

EDITS = {
    "edit_file_full_replace": {"new_content": "new"},
    "edit_file_search_replace": {"search_replace": "<<<<<<< SEARCH\none\n=======\nnew\n>>>>>>> REPLACE"},
    "insert": {"line": 1, "content": "new"},
    "write_text_file": {"content": "new"},
    "insert_text_file": {"content": "new", "line_number": 1},
    "create_file": {"content": "new", "overwrite": True},
}
READS = {
    "read_file": {},
    "partially_read_by_range": {"start_line": 1, "end_line": 1},
    "partially_read_around_keyword": {"keyword": "one"},
    "view_text_file": {},
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_change_since_the_read_refuses_the_edit_until_it_is_read_again(desk, edit):
    desk.write("a.txt", "one\n")
    desk.call("read_file", uri="a.txt")
    desk.write("a.txt", "one\ntwo\n")
    assert desk.error(edit, uri="a.txt", **EDITS[edit]) == (
        "'a.txt' has changed since you read it. Read it again, then edit it."
    )
    assert desk.read("a.txt") == b"one\ntwo\n"
    desk.call("read_file", uri="a.txt")
    desk.call(edit, uri="a.txt", **EDITS[edit])


@pytest.mark.parametrize("read", READS)
def test_every_tool_that_reads_makes_the_file_known(desk, read):
    desk.write("a.txt", "one\n")
    desk.call(read, uri="a.txt", **READS[read])
    desk.write("a.txt", "two\n")
    assert "has changed" in desk.error("insert", uri="a.txt", line=1, content="new")


@pytest.mark.parametrize("first", EDITS)
@pytest.mark.parametrize("second", ["insert", "edit_file_full_replace"])
def test_an_own_edit_is_no_change(desk, first, second):
    desk.write("a.txt", "one\n")
    desk.call("read_file", uri="a.txt")
    desk.call(first, uri="a.txt", **EDITS[first])
    desk.call(second, uri="a.txt", **EDITS[second])


def test_the_path_may_be_written_differently(desk):
    path = desk.write("sub/a.txt", "one\n")
    desk.call("read_file", uri="sub/../sub/a.txt")
    path.write_text("two\n")
    assert "has changed" in desk.error("insert", uri=path.as_uri(), line=1, content="x")


def test_a_file_that_was_touched_and_has_the_same_content_has_not_changed(desk):
    desk.write("a.txt", "one\n")
    desk.call("read_file", uri="a.txt")
    desk.write("a.txt", "two\n")
    desk.write("a.txt", "one\n")
    desk.call("insert", uri="a.txt", line=1, content="new")


def test_the_whole_content_is_replaced_only_after_it_was_read(desk):
    desk.write("a.txt", "one\n")
    assert desk.error("edit_file_full_replace", uri="a.txt", new_content="new") == (
        "Read 'a.txt' first: its whole content would be replaced, and you have not seen it."
    )
    desk.call("create_file", uri="b.txt", content="one")
    desk.call("edit_file_full_replace", uri="b.txt", new_content="new")
    desk.call("move", uri="b.txt", target_uri="c.txt")
    desk.call("edit_file_full_replace", uri="c.txt", new_content="newer")


def test_a_part_is_replaced_without_a_read(desk):
    desk.write("a.txt", "one\n")
    desk.call("edit_file_search_replace", uri="a.txt", **EDITS["edit_file_search_replace"])
    assert desk.read("a.txt") == b"new\n"


def test_each_session_knows_what_it_has_read_itself(desk):
    desk.write("a.txt", "one\n")
    other = desk.kit.session(session_id="two")
    desk.call("read_file", uri="a.txt")
    assert not other.exec("insert", {"uri": "a.txt", "line": 1, "content": "other"}).is_error
    assert "has changed" in desk.error("insert", uri="a.txt", line=1, content="x")
    assert not other.exec("insert", {"uri": "a.txt", "line": 1, "content": "other"}).is_error


def test_an_edit_that_fails_leaves_what_is_known(desk):
    desk.write("a.txt", b"one\n\xfc")
    desk.call("read_file", uri="a.txt")
    desk.error("insert", uri="a.txt", line=1, content="钥")
    desk.folder.chmod(0o555)
    try:
        desk.session.exec("insert", {"uri": "a.txt", "line": 1, "content": "x"})  # fails, unless it runs as root
    finally:
        desk.folder.chmod(0o755)
    desk.call("insert", uri="a.txt", line=1, content="y")


def test_what_is_known_is_bounded(desk):
    from ahvn_tools.builtins.workspace.folder_tools import KnownVersions

    versions = KnownVersions(max_files=3)
    for number in range(10):
        versions.remember("one", desk.folder / str(number), b"x", "utf-8")
    known = [versions.encoding("one", desk.folder / str(n)) for n in range(10)]
    assert known == [None] * 7 + ["utf-8"] * 3


@pytest.mark.exhaustive
def test_reads_and_edits_of_one_file_at_once_in_one_session_are_no_changes(desk):
    desk.write("a.txt", "".join(f"{number}\n" for number in range(3_000)))
    session = Toolkit("kit").add(desk.workspace).session(session_id="one")
    session.call("read_file", {"uri": "a.txt"})
    errors = []
    done = threading.Event()

    def read():
        while not done.is_set():
            session.call("read_file", {"uri": "a.txt"})

    def edit():
        for _ in range(40):
            result = session.exec("insert", {"uri": "a.txt", "line": 1, "content": "x"})
            errors.extend([result.text] if result.is_error else [])

    readers = [threading.Thread(target=read) for _ in range(3)]
    editors = [threading.Thread(target=edit) for _ in range(2)]
    for thread in (*readers, *editors):
        thread.start()
    for thread in editors:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert errors == []
    assert desk.read("a.txt").startswith(b"x\n" * 80 + b"0\n")
