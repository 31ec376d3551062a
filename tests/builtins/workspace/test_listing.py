"""The tools that list folders and find files by name."""

from __future__ import annotations

import os

import pytest


def test_folders_come_first_then_files_by_name(desk):
    for name in ("b.txt", "A.txt", ".hidden", "sub/x", "Box/x"):
        desk.write(name, "one")
    (desk.folder / "link").symlink_to("b.txt")
    os.mkfifo(desk.folder / "pipe")
    assert desk.call("ls", uri=".") == (
        "[DIR ] Box\n[DIR ] sub\n[FILE] .hidden\n[FILE] A.txt\n[FILE] b.txt\n[LINK] link\n[UNKN] pipe"
    )


def test_an_empty_folder_is_said_to_be(desk):
    assert desk.call("ls", uri=".") == "(Empty Directory)"


def test_a_file_cannot_be_listed(desk):
    desk.write("a.txt", "one")
    assert desk.error("ls", uri="a.txt") == "'a.txt' is no folder. Read it with read_file, or pass a folder."


def test_a_folder_with_many_files_is_listed_in_pages(desk):
    for number in range(1_003):
        desk.write(f"{number:04}", "")
    first = desk.call("ls", uri=".").split("\n")
    assert len(first) == 1_001
    assert first[-1] == "(These are the results 1 to 1000 of 1,003. Go on with skip=1000.)"
    assert desk.call("ls", uri=".", skip=1000) == "[FILE] 1000\n[FILE] 1001\n[FILE] 1002"
    assert desk.call("ls", uri=".", skip=2000) == "There are no more results: skip=2000 leaves out all 1003."


def test_files_are_found_by_a_part_of_the_name_without_regard_to_case(desk):
    for name in ("src/Main.py", "src/main_test.py", "main/other.txt"):
        desk.write(name, "one")
    assert desk.call("search_file_name_includes", uri=".", name_includes="MAIN") == "src/Main.py\nsrc/main_test.py"
    assert desk.call("search_file_name_includes", uri="src", name_includes="_test") == "src/main_test.py"
    assert desk.call("search_file_name_includes", uri=".", name_includes="main/") == "main/other.txt"
    assert desk.call("search_file_name_includes", uri=".", name_includes="nothing") == "No files found."


def test_names_are_found_in_any_unicode_form(desk):
    desk.write("cafe\u0301.txt", "key")
    assert desk.call("search_file_name_includes", uri=".", name_includes="CAF\u00c9") == "cafe\u0301.txt"
    found = desk.call("search_file_contains_keyword", uri=".", keyword="key", glob="caf\u00e9*")
    assert found == "cafe\u0301.txt:1:key"


def test_characters_of_patterns_are_literal_in_names(desk):
    for name in ("a[1].txt", "a1.txt", "a*.txt"):
        desk.write(name, "one")
    assert desk.call("search_file_name_includes", uri=".", name_includes="a[1]") == "a[1].txt"
    assert desk.call("search_file_name_includes", uri=".", name_includes="*") == "a*.txt"


def test_found_names_come_in_pages(desk):
    for number in range(5):
        desk.write(f"{number}.txt", "")
    assert desk.call("search_file_name_includes", uri=".", name_includes=".txt", max_results=2) == (
        "0.txt\n1.txt\n(These are the results 1 to 2. Go on with skip=2.)"
    )
    assert desk.call("search_file_name_includes", uri=".", name_includes=".txt", max_results=2, skip=4) == "4.txt"


@pytest.mark.parametrize("options", [{"skip": -1}, {"max_results": 0}], ids=["skip", "max_results"])
def test_impossible_pages_are_refused(desk, options):
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
