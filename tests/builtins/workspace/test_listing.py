"""The tools that list folders and find files by name."""

from __future__ import annotations

import os

import pytest


def test_folders_come_first_then_files_by_name(desk):
    assert desk.call("ls", uri=".") == "(Empty Directory)"
    for name in ("b.txt", "A.txt", ".hidden", "sub/x", "Box/x"):
        desk.write(name, "one")
    (desk.folder / "link").symlink_to("b.txt")
    os.mkfifo(desk.folder / "pipe")
    assert desk.call("ls", uri=".") == (
        "[DIR ] Box\n[DIR ] sub\n[FILE] .hidden\n[FILE] A.txt\n[FILE] b.txt\n[LINK] link\n[UNKN] pipe"
    )
    assert desk.error("ls", uri="b.txt") == "'b.txt' is no folder. Read it with read_file, or pass a folder."


def test_a_folder_with_many_files_is_listed_in_pages(desk):
    for number in range(1_003):
        desk.write(f"{number:04}", "")
    first = desk.call("ls", uri=".").split("\n")
    assert len(first) == 1_001
    assert first[-1] == "(These are the results 1 to 1000 of 1,003. Go on with skip=1000.)"
    assert desk.call("ls", uri=".", skip=1000) == "[FILE] 1000\n[FILE] 1001\n[FILE] 1002"
    assert desk.call("ls", uri=".", skip=2000) == "There are no more results: skip=2000 leaves out all 1003."


@pytest.mark.parametrize(
    ("uri", "part", "found"),
    [
        (".", "MAIN", "src/Main.py\nsrc/main_test.py"),
        ("src", "_test", "src/main_test.py"),
        (".", "main/", "main/other.txt"),
        (".", "CAF\u00c9", "cafe\u0301.txt"),
        (".", "a[1]", "a[1].txt"),
        (".", "*", "a*.txt"),
        (".", "nothing", "No files found."),
    ],
)
def test_files_are_found_by_a_part_of_the_name_in_any_case_and_unicode_form(desk, uri, part, found):
    names = ("src/Main.py", "src/main_test.py", "main/other.txt", "cafe\u0301.txt", "a[1].txt", "a1.txt", "a*.txt")
    for name in names:
        desk.write(name, "key")
    assert desk.call("search_file_name_includes", uri=uri, name_includes=part) == found
    keyword = desk.call("search_file_contains_keyword", uri=".", keyword="key", glob="caf\u00e9*")
    assert keyword == "cafe\u0301.txt:1:key"


def test_found_names_come_in_pages(desk):
    for number in range(5):
        desk.write(f"{number}.txt", "")
    assert desk.call("search_file_name_includes", uri=".", name_includes=".txt", max_results=2) == (
        "0.txt\n1.txt\n(These are the results 1 to 2. Go on with skip=2.)"
    )
    assert desk.call("search_file_name_includes", uri=".", name_includes=".txt", max_results=2, skip=4) == "4.txt"
    for options in ({"skip": -1}, {"max_results": 0}):
        assert "at least" in desk.error("search_file_name_includes", uri=".", name_includes="a", **options)


def test_ignored_and_hidden_files_are_found_on_request(desk):
    desk.write(".gitignore", "build/\n")
    for name in ("build/key.txt", ".hidden/key.txt", "key.txt"):
        desk.write(name, "one")

    def found(**options):
        return desk.call("search_file_name_includes", uri=".", name_includes="key", **options).split("\n")

    assert found() == ["key.txt"]
    assert found(include_ignored=True) == ["build/key.txt", "key.txt"]
    assert found(include_hidden=True) == [".hidden/key.txt", "key.txt"]


def test_paths_in_another_root_are_absolute_and_can_be_read(make_desk, tmp_path):
    (tmp_path / "second").mkdir()
    desk = make_desk()
    from ahvn_tools.builtins import Workspace

    other = tmp_path / "second" / "key.txt"
    other.write_text("a key")
    tools = Workspace([desk.folder, tmp_path / "second"]).to_toolspecs()
    assert tools["search_file_name_includes"](uri=str(other.parent), name_includes="key") == str(other)
    assert tools["search_file_contains_keyword"](uri=str(other.parent), keyword="key") == f"{other}:1:a key"
    assert tools["read_file"](uri=str(other)) == "a key"
