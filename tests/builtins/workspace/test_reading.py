"""The tools that read files."""

from __future__ import annotations

import re

import pytest


def test_a_path_is_relative_to_the_first_root_absolute_or_a_uri(desk):
    path = desk.write("a b.txt", "one")
    desk.write("sub/c.txt", "two")
    for uri in ("a b.txt", "./a b.txt", "sub/../a b.txt", str(path), path.as_uri()):
        assert desk.call("read_file", uri=uri) == "one"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"one\r\ntwo\rthree\n", "one\ntwo\nthree\n"),
        (b"", ""),
        (b"\xef\xbb\xbfgr\xc3\xbc\xc3\x9f", "grüß"),
        ("grüß".encode("utf-16"), "grüß"),
    ],
    ids=["line feeds", "empty", "utf-8 with a mark", "utf-16"],
)
def test_a_whole_file_is_read_with_line_feeds_in_its_encoding(desk, content, text):
    desk.write("a.txt", content)
    assert desk.call("read_file", uri="a.txt") == text


def test_a_long_file_ends_with_how_to_read_the_rest(make_desk):
    desk = make_desk(max_output_chars=30)
    desk.write("a.txt", "".join(f"line {n}\n" for n in range(1, 11)))
    assert desk.call("read_file", uri="a.txt") == (
        "line 1\nline 2\nline 3\nline 4\n"
        "(These are the lines 1 to 4 of 10. Go on with partially_read_by_range, start_line=5.)"
    )
    assert desk.call("partially_read_by_range", uri="a.txt", start_line=5, end_line=10) == (
        "5: line 5\n6: line 6\n7: line 7\n(The result would be too long. Go on with start_line=8.)"
    )


def read_on(desk, text, tool="partially_read_by_range"):
    """Return the text of the next result, called as the note at the end of this one says."""
    places = dict(re.findall(r"(start_line|end_line|start_character)=(\d+)", text.rsplit("Go on with", 1)[1]))
    return desk.call(tool, uri="a.txt", **{name: int(number) for name, number in places.items()})


@pytest.mark.parametrize("max_bytes", [10_000_000, 1_000], ids=["whole", "by parts"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_all_of_a_long_line_can_be_read_as_the_notes_say(make_desk, max_bytes, encoding):
    desk = make_desk(max_bytes=max_bytes, max_output_chars=60_000)
    line = "".join(f"ü{number:09}" for number in range(15_000))
    desk.write("a.txt", f"{line}\r\nend\n".encode(encoding))
    first = desk.call("read_file", uri="a.txt")
    second = read_on(desk, first)
    third = read_on(desk, second)
    assert first == (
        f"{line[:60_000]}\n(The line is longer. Go on with partially_read_by_range, start_line=1, end_line=1, "
        "start_character=60001.)"
    )
    assert second.startswith(f"1 (from character 60001): {line[60_000:120_000]}... (The line is longer.")
    assert third == f"1 (from character 120001): {line[120_000:]}"
    rest = desk.call("partially_read_by_range", uri="a.txt", start_line=1, end_line=3, start_character=149_991)
    assert rest == f"1 (from character 149991): {line[149_990:]}\n2: end\n(The file ends with line 2.)"
    assert desk.error("partially_read_by_range", uri="a.txt", start_line=1, end_line=1, start_character=150_001) == (
        "There is no character 150,001 in line 1 of 'a.txt': the line is shorter."
    )


@pytest.mark.parametrize("tool", ["partially_read_by_range", "view_text_file"])
def test_a_long_line_among_others_is_cut_and_says_how_to_read_on(desk, tool):
    desk.write("a.txt", f"one\n{'x' * 2_000}{'y' * 9}\nthree\n")
    path = {"uri": "a.txt"} if tool == "view_text_file" else {"uri": "a.txt", "start_line": 1, "end_line": 3}
    read = desk.call(tool, **path)
    assert f"2: {'x' * 2_000}... (The line is longer. Go on with partially_read_by_range, start_line=2" in read
    assert read_on(desk, read) == f"2 (from character 2001): {'y' * 9}"


@pytest.mark.parametrize("max_bytes", [10_000_000, 1_000], ids=["whole", "by parts"])
def test_of_a_long_line_the_parts_around_each_match_are_read(make_desk, max_bytes):
    desk = make_desk(max_bytes=max_bytes)
    line = f"{'a' * 70_000}key{'b' * 900}key{'c' * 70_000}key"
    desk.write("a.txt", f"one\n{line}\nthree\n")
    assert desk.call("partially_read_around_keyword", uri="a.txt", keyword="key", lines_before=1, lines_after=1) == (
        f"1: one\n2 (characters 69501 to 70503): {'a' * 500}key{'b' * 500}\n"
        f"2 (characters 70504 to 71406): {'b' * 400}key{'c' * 500}\n"
        f"2 (characters 140407 to 140909): {'c' * 500}key\n3: three"
    )


def test_many_matches_in_a_long_line_end_with_how_to_go_on(make_desk):
    desk = make_desk(max_output_chars=3_000)
    desk.write("a.txt", "".join(f"key{number:05}{'-' * 1_992}" for number in range(10)) + "\nkey\n")
    read = desk.call("partially_read_around_keyword", uri="a.txt", keyword="key")
    assert read.count("key") == 4
    assert read.endswith(
        "(The result would be too long. Go on with partially_read_by_range, start_line=1, end_line=1, "
        "start_character=7501.)"
    )
    assert "key00004" in read_on(desk, read)


def test_a_line_that_is_too_long_to_be_searched_says_how_to_go_on(make_desk, monkeypatch):
    monkeypatch.setattr("ahvn_tools.builtins.workspace.reading._SEARCHED_CHARS", 5_000)
    desk = make_desk(max_bytes=1_000, max_output_chars=1_000)
    desk.write("a.txt", f"{'x' * 4_998}key{'y' * 100}\n")
    read = desk.call("partially_read_around_keyword", uri="a.txt", keyword="key")
    assert read.startswith("(The rest of line 1 was not searched. Go on with")
    assert read_on(desk, read) == f"1 (from character 4999): key{'y' * 100}"


def test_a_large_file_is_read_by_parts(make_desk):
    desk = make_desk(max_bytes=100, max_output_chars=50)
    desk.write("a.txt", "".join(f"line {n}\r\n" for n in range(1, 1001)))
    assert desk.call("read_file", uri="a.txt").endswith(
        "line 6\n(These are the lines 1 to 6. Go on with partially_read_by_range, start_line=7.)"
    )
    assert desk.call("partially_read_by_range", uri="a.txt", start_line=999, end_line=2000) == (
        "999: line 999\n1000: line 1000\n(The file ends with line 1000.)"
    )
    assert "the file is shorter" in desk.error("partially_read_by_range", uri="a.txt", start_line=2000, end_line=2001)
    found = desk.call("partially_read_around_keyword", uri="a.txt", keyword="777", lines_before=1, lines_after=0)
    assert found == "776: line 776\n777: line 777"
    assert "more than 100" in desk.error("insert", uri="a.txt", line=1, content="x")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
def test_a_large_file_has_the_same_lines_as_a_small_one(make_desk, encoding, newline):
    """The long lines end before, at and behind the borders of the pieces that are read."""
    desk = make_desk(max_bytes=1_000, max_output_chars=1_000_000)
    lengths = [3, 65_535, 65_536, 65_537, 131_071, 0, 0, 5]
    desk.write("a.txt", newline.join("ü" * length for length in lengths).encode(encoding))
    lines = {"uri": "a.txt", "start_line": 1, "end_line": 100, "encoding": encoding}
    read = desk.call("partially_read_by_range", **lines).split("\n")
    assert len(read) == len(lengths) + 1
    assert [read[0], *read[5:]] == ["1: üüü", "6: ", "7: ", "8: üüüüü", "(The file ends with line 8.)"]


RANGE, AROUND = "partially_read_by_range", "partially_read_around_keyword"


def test_a_range_has_numbers_and_ends_with_the_file(desk):
    desk.write("a.txt", "one\ntwo\n\nfour")
    assert desk.call(RANGE, uri="a.txt", start_line=2, end_line=3) == "2: two\n3: "
    assert desk.call(RANGE, uri="a.txt", start_line=4, end_line=9) == "4: four\n(The file ends with line 4.)"


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        (RANGE, {"start_line": 0, "end_line": 1}, "at least 1"),
        (RANGE, {"start_line": -1, "end_line": 2}, "at least 1"),
        (RANGE, {"start_line": 3, "end_line": 2}, "at least 1"),
        (RANGE, {"start_line": 3, "end_line": 4}, "There is no line 3 in 'a.txt': the file has only 2 lines."),
        (AROUND, {"keyword": ""}, "one line"),
        (AROUND, {"keyword": "a\nb"}, "one line"),
        (AROUND, {"keyword": "a", "lines_before": -1}, "at least 0"),
        ("search_file_contains_keyword", {"keyword": ""}, "one line"),
        ("search_file_contains_keyword", {"keyword": "a\nb"}, "one line"),
        ("read_file", {"uri": "sub"}, "'sub' is a folder. List it with ls, or pass a file."),
        ("get_file_size", {"uri": "sub"}, "'sub' is a folder. List it with ls, or pass a file."),
        ("read_file", {"uri": "a.bin"}, "binary"),
    ],
    ids=range(12),
)
def test_what_cannot_be_read_is_an_error_with_the_reason(desk, tool, arguments, message):
    desk.write("a.txt", "one\ntwo\n")
    desk.write("a.bin", b"\x7fELF\x00\x01\x02")
    desk.write("sub/a.txt", "one")
    assert message in desk.error(tool, **{"uri": "a.txt", **arguments})


def test_windows_around_matches_are_joined_where_they_meet(desk):
    desk.write("a.txt", "".join(f"{n} {'key' if n in (2, 4, 9) else ''}\n" for n in range(1, 11)))
    read = desk.call("partially_read_around_keyword", uri="a.txt", keyword="key", lines_before=1, lines_after=1)
    assert [line.split(":")[0] for line in read.split("\n")] == ["1", "2", "3", "4", "5", "...", "8", "9", "10"]
    assert desk.call(AROUND, uri="a.txt", keyword="K") == 'No matches found for "K".'
    desk.write("a.txt", "".join(f"{n}\n" for n in range(100, 140)))
    read = desk.call(AROUND, uri="a.txt", keyword="120").split("\n")
    assert (read[0], read[-1]) == ("16: 115", "26: 125")


def test_long_windows_end_with_how_to_go_on(make_desk):
    desk = make_desk(max_output_chars=40)
    desk.write("a.txt", "key\n" * 50)
    read = desk.call("partially_read_around_keyword", uri="a.txt", keyword="key")
    assert read.endswith("7: key\n(The result would be too long. Go on with start_line=8.)")
    rest = desk.call("partially_read_around_keyword", uri="a.txt", keyword="key", start_line=48)
    assert rest == "48: key\n49: key\n50: key"


def test_the_size_has_kilobytes_and_bytes(desk):
    desk.write("a.txt", "x" * 1260)
    assert desk.call("get_file_size", uri="a.txt") == "Size: 1.23 KB (1260 bytes)"


def test_a_missing_file_has_similar_names(desk):
    for name in ("settings.py", "sub/readme.md"):
        desk.write(name, "one")
    assert desk.error("read_file", uri="setting.py") == (
        "There is no file or folder 'setting.py'. Did you mean 'settings.py'?"
    )
    assert desk.error("read_file", uri="sub/README.md").endswith("Known: 'readme.md'.")
    assert desk.error("read_file", uri="subs/readme.md") == (
        "There is no file or folder 'subs/readme.md'. The first folder has no 'subs'. Did you mean 'sub'?"
    )


def test_names_with_control_characters_are_escaped(desk):
    desk.write("a\x1b[2J\u202eb.txt", "one key")
    for shown in (desk.call("ls", uri="."), desk.call("search_file_contains_keyword", uri=".", keyword="key")):
        assert "a\\x1b[2J\\u202eb.txt" in shown
    assert "\x1b" not in desk.error("read_file", uri="a\x1b[2Jb.txt")


def test_enormous_line_numbers_are_beyond_the_file(desk):
    desk.write("a.txt", "one\n")
    error = desk.error("partially_read_by_range", uri="a.txt", start_line=10**30, end_line=10**31)
    assert error.endswith("the file has only 1 lines.")
    assert desk.call("partially_read_by_range", uri="a.txt", start_line=1, end_line=10**30).startswith("1: one\n")
    around = {"uri": "a.txt", "keyword": "one", "start_line": 10**30}
    assert desk.call("partially_read_around_keyword", **around) == 'No matches found for "one".'
