"""The other tools that make, change, move and delete files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools.builtins import Workspace


def test_folders_are_made_with_those_above(desk):
    assert desk.call("mkdir", uri="a/b/c") == "Directory created: a/b/c"
    assert desk.call("mkdir", uri="a/b/c") == "Directory created: a/b/c"
    assert (desk.folder / "a/b/c").is_dir()


def test_a_file_is_created_with_its_folders(desk):
    assert desk.call("create_file", uri="a/b.txt", content="ü\r\nb") == "File created successfully: a/b.txt"
    assert desk.read("a/b.txt") == "ü\r\nb".encode()


def test_an_existing_file_is_overwritten_only_on_request(desk):
    desk.write("a.txt", "old")
    assert desk.error("create_file", uri="a.txt", content="new") == (
        "'a.txt' exists. Change it with edit_file_search_replace, or pass overwrite=true to replace it."
    )
    assert desk.read("a.txt") == b"old"
    overwritten = desk.call("create_file", uri="a.txt", content="new", overwrite=True)
    assert overwritten == "Overwrote a.txt. The lines are now:\n1: new"
    assert desk.read("a.txt") == b"new"
    assert desk.call("create_file", uri="b.txt", content="new", overwrite=True) == "File created successfully: b.txt"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("create_file", {"uri": "a.txt", "content": "x\ny\n", "overwrite": True}),
        ("write_text_file", {"uri": "a.txt", "content": "x\ny\n"}),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_file_that_is_overwritten_keeps_its_form(desk, tool, arguments, encoding):
    desk.write("a.txt", "one\r\n".encode(encoding))
    desk.call(tool, **arguments)
    assert desk.read("a.txt") == "x\r\ny\r\n".encode(encoding)


def test_content_that_cannot_be_written_is_an_error(make_desk):
    desk = make_desk(max_bytes=10)
    assert "surrogates" in desk.error("create_file", uri="a.txt", content="\ud800")
    assert "more than 10" in desk.error("create_file", uri="a.txt", content="x" * 11)
    assert not (desk.folder / "a.txt").exists()
    desk.call("create_file", uri="a.txt", content="x")
    assert "more than 10" in desk.error("create_file", uri="a.txt", content="x" * 11, overwrite=True)
    assert "more than 10" in desk.error("insert", uri="a.txt", line=1, content="x" * 11)
    assert desk.read("a.txt") == b"x"


def test_the_whole_content_is_replaced_in_the_form_of_the_file(desk):
    desk.write("a.txt", b"\xef\xbb\xbfone\r\ntwo\r\n")
    desk.call("read_file", uri="a.txt")
    assert desk.call("edit_file_full_replace", uri="a.txt", new_content="one\n2\n3") == (
        "Replaced the content of a.txt. The lines are now:\n1: one\n2: 2\n3: 3"
    )
    assert desk.read("a.txt") == b"\xef\xbb\xbfone\r\n2\r\n3"
    assert desk.call("edit_file_full_replace", uri="a.txt", new_content="one\r\n2\r\n3") == (
        "Replaced the content of a.txt: it had this content already."
    )


def test_a_missing_file_is_not_created_by_an_edit(desk):
    desk.write("a.txt", "one")
    assert desk.error("edit_file_full_replace", uri="b.txt", new_content="x").endswith("Did you mean 'a.txt'?")
    assert not (desk.folder / "b.txt").exists()


@pytest.mark.parametrize(
    ("content", "line", "edited"),
    [
        pytest.param(b"a\r\nb\r\n", 1, b"x\r\ny\r\na\r\nb\r\n", id="first"),
        pytest.param(b"a\r\nb\r\n", 3, b"a\r\nb\r\nx\r\ny\r\n", id="last"),
        pytest.param(b"a\r\nb", 3, b"a\r\nb\r\nx\r\ny", id="no final newline"),
        pytest.param(b"a\rb", 2, b"a\rx\ry\rb", id="cr"),
        pytest.param(b"", 1, b"x\ny\n", id="empty"),
    ],
)
@pytest.mark.parametrize("content_end", ["", "\n", "\r\n"], ids=["bare", "lf", "crlf"])
def test_lines_are_inserted_with_the_endings_of_the_file(desk, content, line, edited, content_end):
    desk.write("a.txt", content)
    desk.call("insert", uri="a.txt", line=line, content=f"x\ny{content_end}")
    assert desk.read("a.txt") == edited


@pytest.mark.parametrize("line", [0, -1, 4])
def test_a_line_that_is_not_there_is_refused(desk, line):
    desk.write("a.txt", "a\nb\n")
    assert desk.error("insert", uri="a.txt", line=line, content="x") == (
        f"There is no line {line}: pass a line from 1 to 3."
    )
    assert "empty" in desk.error("insert", uri="a.txt", line=1, content="")
    assert desk.read("a.txt") == b"a\nb\n"


def test_files_links_and_empty_folders_are_deleted(desk):
    desk.write("a.txt", "one")
    desk.write("sub/b.txt", "one")
    (desk.folder / "link").symlink_to("nowhere")
    (desk.folder / "inside").symlink_to("sub")
    (desk.folder / "empty").mkdir()
    for name in ("a.txt", "link", "inside", "empty"):
        assert desk.call("delete", uri=name) == f"Deleted: {name}"
    assert sorted(path.name for path in desk.folder.iterdir()) == ["sub"]
    assert desk.error("delete", uri="sub") == "'sub' is a folder that is not empty. Delete its files first."
    assert desk.error("delete", uri="sud") == "There is no file or folder 'sud'. Known: 'sub'."
    assert len(desk.asked) == 4


def test_files_and_folders_are_moved(desk):
    desk.write("sub/a.txt", "one")
    assert desk.call("move", uri="sub/a.txt", target_uri="new/b.txt") == "Moved sub/a.txt to new/b.txt"
    desk.call("move", uri="new", target_uri="other")
    assert desk.read("other/b.txt") == b"one"


def test_a_move_replaces_nothing(desk):
    desk.write("a.txt", "one")
    desk.write("b.txt", "two")
    (desk.folder / "sub").mkdir()
    for target in ("b.txt", "sub", "a.txt"):
        assert "exists" in desk.error("move", uri="a.txt", target_uri=target)
    assert desk.error("move", uri="c.txt", target_uri="d.txt").startswith("There is no file or folder 'c.txt'.")
    assert (desk.read("a.txt"), desk.read("b.txt")) == (b"one", b"two")


texts = st.lists(
    st.tuples(
        st.text(st.characters(exclude_characters="\r\n\0", codec="utf-8"), max_size=8),
        st.sampled_from(["\n", "\r\n", "\r"]),
    ),
    min_size=1,
    max_size=12,
).filter(lambda lines: "\r|\n" not in "|".join(text + end for text, end in lines))
"""Lines and their ends; no "\\r" before an empty line with "\\n", because the two are one end."""


@given(texts, st.booleans(), st.data())
def test_an_edit_and_its_reverse_give_the_same_bytes(tmp_path_factory, lines, has_final_newline, data):
    """Of lines with any mix of endings, one is replaced by several and back; nothing else changes."""
    folder = tmp_path_factory.mktemp("edit")
    content = "".join(text + end for text, end in lines)
    content = content if has_final_newline else content.removesuffix(lines[-1][1])
    (folder / "a.txt").write_bytes(content.encode())
    tools = Workspace(folder).to_toolspecs()
    bare = [text for text, _ in lines]
    before = (folder / "a.txt").read_bytes()
    index = data.draw(st.integers(0, len(lines) - 1))
    if bare.count(bare[index]) > 1 or (not bare[index] and index == len(lines) - 1) or bare[index].startswith("="):
        return
    new = "unique first\nunique second\n"
    marker = f"<<<<<<< SEARCH\n{bare[index]}\n=======\n{new}>>>>>>> REPLACE"
    tools["edit_file_search_replace"](uri="a.txt", search_replace=marker)
    after = (folder / "a.txt").read_bytes()
    prefix = sum(len((text + end).encode()) for text, end in lines[:index])
    assert after[:prefix] == before[:prefix]
    reverse = f"<<<<<<< SEARCH\n{new}=======\n{bare[index]}\n>>>>>>> REPLACE"
    tools["edit_file_search_replace"](uri="a.txt", search_replace=reverse)
    assert (folder / "a.txt").read_bytes() == before


@pytest.mark.parametrize("content", [b"a\n", "a\n".encode("utf-16"), b"\x81a\n"], ids=["utf-8", "utf-16", "latin-1"])
@pytest.mark.parametrize("tool", ["insert", "create_file"])
def test_no_edit_makes_a_text_binary(desk, content, tool):
    desk.write("a.txt", content)
    desk.call("read_file", uri="a.txt")
    arguments = {"insert": {"line": 1}, "create_file": {"overwrite": True}}[tool]
    assert "Remove them." in desk.error(tool, uri="a.txt", content="x\0y", **arguments)
    assert desk.read("a.txt") == content


def test_a_control_character_is_refused_where_it_would_make_the_text_binary(desk):
    desk.write("a.txt", b"\xe9\n")
    desk.write("b.txt", "é\n")
    assert "Remove them." in desk.error("insert", uri="a.txt", line=1, content="\x01")
    desk.call("insert", uri="b.txt", line=1, content="\x01")
    assert desk.call("read_file", uri="b.txt") == "\x01\né\n"
