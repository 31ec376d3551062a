"""The tool that finds lines by a keyword, and by a regular expression."""

from __future__ import annotations

import os
import random
import re
import sys

import pytest

from ahvn_tools import ToolContext
from ahvn_tools.builtins import Workspace
from ahvn_tools.builtins.workspace.searching import Keyword
from ahvn_tools.errors import CallCancelledError

SEARCH = "search_file_contains_keyword"


def test_each_match_has_path_line_and_text(desk):
    desk.write("b.txt", "one\n   two key  \nthree\n")
    desk.write("a/c.txt", b"a key\r\nand key key\r\n")
    assert desk.call(SEARCH, uri=".", keyword="key") == ("a/c.txt:1:a key\na/c.txt:2:and key key\nb.txt:2:   two key  ")
    assert desk.call(SEARCH, uri="b.txt", keyword="key") == "b.txt:2:   two key  "
    assert desk.call(SEARCH, uri="a", keyword="key") == "a/c.txt:1:a key\na/c.txt:2:and key key"


def test_nothing_found_is_no_error(desk):
    assert desk.call(SEARCH, uri=".", keyword="key") == "No files found in directory."
    desk.write("a.txt", "one")
    assert desk.call(SEARCH, uri=".", keyword="key") == "No matches found."


@pytest.mark.parametrize(
    ("text", "keyword"),
    [("two\u00a0words", "two words"), ("caf\u00e9", "cafe\u0301"), ("ke\u200by", "key"), ("a  b", "a b")],
)
def test_a_text_that_only_looks_like_the_keyword_is_named(desk, text, keyword):
    desk.write("d/a.txt", f"one\n{text}\n")
    found = desk.call("search_file_contains_keyword", uri=".", keyword=keyword)
    assert found.startswith("No matches found. d/a.txt: Line 2 has it with other blanks, invisible characters or")
    assert desk.call("search_file_contains_keyword", uri=".", keyword="other") == "No matches found."


def test_the_keyword_is_no_pattern(desk):
    desk.write("a.txt", "a.b\naxb\n(a+)+$\n$&\n")
    assert desk.call(SEARCH, uri=".", keyword="a.b") == "a.txt:1:a.b"
    assert desk.call(SEARCH, uri=".", keyword="(a+)+$") == "a.txt:3:(a+)+$"
    assert desk.call(SEARCH, uri=".", keyword="$&") == "a.txt:4:$&"


def test_case_is_regarded_unless_told(desk):
    desk.write("a.txt", "Straße\nSTRASSE\nstraße\n")
    assert desk.call(SEARCH, uri=".", keyword="straße") == "a.txt:3:straße"
    assert desk.call(SEARCH, uri=".", keyword="straße", ignore_case=True) == "a.txt:1:Straße\na.txt:3:straße"


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("*.py", ["a.py", "src/b.py", "src/deep/c.py"]),
        ("**/*.py", ["a.py", "src/b.py", "src/deep/c.py"]),
        ("src/*", ["src/b.py", "src/b.txt", "src/deep/c.py"]),
        ("./src/*.py", ["src/b.py", "src/deep/c.py"]),
        ("[ab].???", ["src/b.txt"]),
        ("*.{txt,md}", ["src/b.txt"]),
        ("{src,lib}/{b,deep/c}.{py,txt}", ["src/b.py", "src/b.txt", "src/deep/c.py"]),
    ],
)
def test_a_glob_selects_files(desk, glob, found):
    for name in ("a.py", "src/b.py", "src/b.txt", "src/deep/c.py"):
        desk.write(name, "key")
    lines = desk.call(SEARCH, uri=".", keyword="key", glob=glob).split("\n")
    assert [line.split(":")[0] for line in lines] == found


def test_a_hostile_glob_ends_soon(desk):
    desk.write("a" * 200, "key")
    assert desk.call(SEARCH, uri=".", keyword="key", glob="*a" * 90 + "b").startswith("No files found")
    assert "at most 200" in desk.error(SEARCH, uri=".", keyword="key", glob="*" * 201)


def test_a_hostile_keyword_is_refused_soon(desk):
    desk.write("a.txt", "a\n")
    error = desk.error("search_file_contains_keyword", uri=".", keyword="a" * 5_000_000, ignore_case=True)
    assert error == "The keyword has 5,000,000 characters. Pass a part of it, of at most 1,000."


def test_a_long_line_is_cut_around_its_match(desk):
    desk.write("a.txt", f"key {'x' * 400}\n{'y' * 1000} key {'z' * 1000}\n")
    first, second = desk.call(SEARCH, uri=".", keyword="key").split("\n")
    assert first == f"a.txt:1:key {'x' * 296}..."
    assert second.startswith("a.txt:2:...y")
    assert " key " in second
    assert second.endswith("z... (from character 902)")
    assert len(second) < 340


def test_matches_come_in_pages(desk):
    desk.write("a.txt", "".join(f"key {n}\n" for n in range(10)))
    assert desk.call(SEARCH, uri=".", keyword="key", max_results=2, skip=3) == (
        "a.txt:4:key 3\na.txt:5:key 4\n(These are the results 4 to 5. Go on with skip=5.)"
    )
    assert desk.call(SEARCH, uri=".", keyword="key", skip=9) == "a.txt:10:key 9"
    assert desk.call(SEARCH, uri=".", keyword="key", skip=10) == (
        "There are no more results: skip=10 leaves out all 10."
    )


def test_no_more_than_a_thousand_matches_come_at_once(desk):
    desk.write("a.txt", "key\n" * 5_000)
    lines = desk.call(SEARCH, uri=".", keyword="key", max_results=1_000_000).split("\n")
    assert lines[-1] == "(These are the results 1 to 1000. Go on with skip=1000.)"


def test_the_result_is_no_longer_than_the_limit(make_desk):
    desk = make_desk(max_output_chars=100)
    desk.write("a.txt", "some key here\n" * 50)
    assert desk.call(SEARCH, uri=".", keyword="key").endswith(
        "(These are the results 1 to 4 of 50. Go on with skip=4.)"
    )


def test_binary_files_are_left_out_and_large_ones_are_named(make_desk):
    desk = make_desk(max_bytes=100)
    desk.write("a.bin", b"key\0")
    desk.write("b.txt", "key " * 100)
    desk.write("c.txt", "key")
    assert desk.call(SEARCH, uri=".", keyword="key") == ("c.txt:1:key\n(Not searched: 1 files of more than 100 bytes.)")


def test_gitignore_is_respected_unless_told(desk):
    desk.write(".gitignore", "*.log\n/build\n!keep.log\n")
    for name in ("a.log", "keep.log", "build/x.txt", "sub/build/x.txt", ".git/config", ".env"):
        desk.write(name, "key")

    def found(**options):
        lines = desk.call(SEARCH, uri=".", keyword="key", **options).split("\n")
        return [line.split(":")[0] for line in lines]

    assert found() == ["keep.log", "sub/build/x.txt"]
    assert found(include_ignored=True) == ["a.log", "build/x.txt", "keep.log", "sub/build/x.txt"]
    assert found(include_hidden=True) == [".env", "keep.log", "sub/build/x.txt"]


def test_links_are_not_followed(desk, tmp_path):
    (tmp_path / "secret.txt").write_text("key")
    (desk.folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (desk.folder / "folder").symlink_to(tmp_path)
    assert desk.call(SEARCH, uri=".", keyword="key") == "No files found in directory."


def _write_tree(folder, seed: int) -> None:
    """Write about 150 files in several encodings, with several line endings, some of them ignored or binary."""
    chance = random.Random(seed)
    words = [
        "key",
        "Key",
        "KEY",
        "kéy",
        "schlüssel",
        "SCHLÜSSEL",
        "skiff",
        "İki",
        "\u212aey",
        "ſkiff",
        "钥匙",
        "🔑",
        "a",
    ]
    for number in range(150):
        place = folder / chance.choice(["", "src", "src/deep", "build", ".hidden", "dot.d"])
        place.mkdir(parents=True, exist_ok=True)
        newline = chance.choice(["\n", "\r\n", "\r", "\n\n"])
        text = newline.join(" ".join(chance.choices(words, k=4)) for _ in range(chance.randrange(6)))
        encoding = chance.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp1252", "gbk"])
        content = text.encode(encoding, "replace") + chance.choice([b"", b"", newline.encode(), b"\0", b"\xff"])
        name = chance.choice(["a", "-e", "x y", "über", "-", "#", "f:1"])
        (place / f"{name}{number}{chance.choice(['.txt', '.log', ''])}").write_bytes(content)
    (folder / ".gitignore").write_text("*.log\nbuild/\n!a3.log\n")
    (folder / "src" / ".gitignore").write_text("x*\n")
    (folder / "again").symlink_to(folder / "src")


KEYWORDS = ["key", "KEY", "kéy", "schlüssel", "skiff", "iki", "钥匙", "🔑", "a ", "-e", "\\", "k", "\ufffd", "ÿ", "?"]


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in range(1, 10))])
@pytest.mark.exhaustive
def test_files_that_are_left_out_before_they_are_decoded_change_no_result(tmp_path, monkeypatch, seed):
    _write_tree(tmp_path, seed)
    search = Workspace(tmp_path).to_toolspecs()[SEARCH]
    options = [
        {"keyword": keyword, "ignore_case": ignore_case, "include_ignored": ignored, "include_hidden": ignored}
        for keyword in KEYWORDS
        for ignore_case in (False, True)
        for ignored in (False, True)
    ]
    found = [search(uri=".", **each) for each in options]
    monkeypatch.setattr(Keyword, "may_be_in", lambda *_: True)
    assert found == [search(uri=".", **each) for each in options]
    assert sum(each != "No matches found." for each in found) > len(options) // 2


def test_a_cancelled_search_ends(desk):
    desk.write("a.txt", "key")
    context = ToolContext(tool=SEARCH)
    context._cancel()
    with pytest.raises(CallCancelledError):
        desk.workspace.search_file_contains_keyword(".", "key", context)


def test_a_match_keeps_its_indentation_so_that_an_edit_finds_it(desk, block):
    desk.write("a.py", "if tea:\n\t    brew()  \n")
    line = desk.call(SEARCH, uri=".", keyword="brew").removeprefix("a.py:2:")
    edit = block(f"{line}\n", "    pour()\n")
    assert desk.call("edit_file_search_replace", uri="a.py", search_replace=edit).startswith("Edited a.py")


@pytest.mark.parametrize("regex", [False, True])
def test_lines_around_matches_are_shown_once(desk, regex):
    desk.write("a.txt", "".join(f"{n} key\n" if n in (3, 5, 9) else f"{n}\n" for n in range(1, 11)))
    desk.write("b.txt", "key\nend\n")
    found = desk.call(SEARCH, uri=".", keyword="key", regex=regex, lines_before=1, lines_after=1)
    assert found == (
        "a.txt-2-2\na.txt:3:3 key\na.txt-4-4\na.txt:5:5 key\na.txt-6-6\n--\n"
        "a.txt-8-8\na.txt:9:9 key\na.txt-10-10\n--\nb.txt:1:key\nb.txt-2-end"
    )
    page = desk.call(SEARCH, uri=".", keyword="key", regex=regex, lines_after=3, max_results=1, skip=1)
    assert page == (
        "a.txt:5:5 key\na.txt-6-6\na.txt-7-7\na.txt-8-8\n(These are the results 2 to 2. Go on with skip=2.)"
    )


@pytest.mark.parametrize("regex", [False, True])
def test_the_matches_of_each_file_are_counted(desk, regex):
    desk.write("a.txt", "key key\nno\nkey\n")
    desk.write("b.txt", "no\n")
    desk.write("c.txt", "key\n" * 2_000)
    found = desk.call(SEARCH, uri=".", keyword="key", regex=regex, counts=True)
    assert found == "a.txt:2\nc.txt:2000\n(2,002 lines in 2 files.)"
    page = desk.call(SEARCH, uri=".", keyword="key", regex=regex, counts=True, skip=1, max_results=1)
    assert page == "c.txt:2000\n(2,002 lines in 2 files.)"


@pytest.mark.parametrize(
    ("file_type", "found"),
    [("python", {"a.py", "b.pyi"}), ("py", {"a.py", "b.pyi"}), ("*.pyi", {"b.pyi"}), ("vue", {"c.VUE"})],
)
def test_only_files_of_a_type_are_searched(desk, file_type, found):
    for name in ("a.py", "b.pyi", "c.VUE", "py", "d.txt"):
        desk.write(name, "key")
    lines = desk.call(SEARCH, uri=".", keyword="key", file_type=file_type).split("\n")
    assert {line.split(":")[0] for line in lines} == found
    assert desk.call(SEARCH, uri=".", keyword="key", file_type="go") == "No files found of this glob and file_type."


@pytest.mark.parametrize("content", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        (r"^def \w+\(", [1]),
        (r"^$", [2, 6]),
        (r"e\s*$", [3, 4]),
        (r"[^a-z]{4}", [5]),
        (r"t\pLe", [4]),
        (r"(?i)DEF|TEE", [1]),
        (r"\Adef", [1]),
        (r"[^\n]+five", []),
        (r"\bfour\b|zwei", [7]),
        (r"x*", [1, 2, 3, 4, 5, 6, 7]),
        (r"\Aline", [3]),
        (r"tüe\z|\d\Z|\Qtea(\E\z", [1, 4, 5]),
        (r"\\Aline|\Q\Aline\E", []),
    ],
)
def test_a_regular_expression_matches_within_lines(desk, content, pattern, lines):
    text = "def tea(\r\n\r\nline \r\ntüe\n1234\n\nfour"
    desk.write("a.txt", text.encode(content))
    found = desk.call(SEARCH, uri=".", keyword=pattern, regex=True).split("\n")
    assert [int(line.split(":")[1]) for line in found if line.startswith("a.txt:")] == lines


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(?<=a)b", "invalid perl operator. The syntax is that of RE2, without lookaround"),
        (r"(a)\1", "invalid escape sequence. The syntax is that of RE2, without lookaround"),
        ("(secret", "missing ). The syntax is that of RE2"),
        (r"\pL{900}" * 30, "pattern too large"),
        ("a\nb", "within one line"),
        (r"a\s*\nb", "within one line"),
        ("", "not empty"),
        ("a" * 1_001, "at most 1,000"),
        ("a\ud800", "half of a character"),
    ],
)
def test_an_expression_that_is_refused_says_what_to_write(desk, pattern, reason):
    desk.write("a.txt", "aab\n")
    error = desk.error(SEARCH, uri=".", keyword=pattern, regex=True)
    assert reason in error
    assert "secret" not in error


def test_a_pipe_is_not_searched_and_the_error_says_what_it_is(desk):
    os.mkfifo(desk.folder / "pipe")
    assert "is no regular file" in desk.error(SEARCH, uri="pipe", keyword="a")


def test_an_expression_finds_lines_as_python_does_whatever_is_read_at_once(desk, monkeypatch):
    """Windows of a few bytes begin and end inside of lines and characters."""
    monkeypatch.setattr("ahvn_tools.builtins.workspace.searching._MIN_WINDOW", 16)
    monkeypatch.setattr("ahvn_tools.builtins.workspace.searching._MAX_WINDOW", 16)
    chance = random.Random(1)
    lines = ["".join(chance.choices("abü€ ", k=chance.choice([0, 1, 5, 40]))) for _ in range(300)]
    desk.write("a.txt", "\n".join(lines))
    for pattern in ("ab", "^a", "b$", "^$", "ü.€", "[^ab]{3}", "(a|b)+ü", r"(^| )a( |$)", "€"):
        expected = [number for number, line in enumerate(lines, 1) if re.search(pattern, line)]
        if expected and expected[-1] == len(lines) and not lines[-1]:
            expected.pop()  # a line that is empty and last is none
        found = desk.call(SEARCH, uri=".", keyword=pattern, regex=True, max_results=1000).split("\n")
        assert [int(line.split(":")[1]) for line in found] == expected


@pytest.mark.parametrize("regex", [False, True])
def test_a_search_ends_at_its_time_limit_and_says_so(desk, monkeypatch, regex):
    monkeypatch.setattr("ahvn_tools.builtins.workspace.searching.SECONDS", 0.0)
    desk.write("a.txt", "key")
    assert desk.call(SEARCH, uri=".", keyword="key", regex=regex) == (
        "No matches found.\n(The search was ended after 0 seconds, before it had read all files. "
        "Pass a smaller folder, a glob or a file_type.)"
    )


def test_a_hostile_expression_ends_at_the_time_limit_inside_of_a_file(desk, monkeypatch):
    monkeypatch.setattr("ahvn_tools.builtins.workspace.searching.SECONDS", 0.01)
    chance = random.Random(1)
    desk.write("a.txt", "".join(chance.choices("ab", k=50_000)) * 40)
    found = desk.call(SEARCH, uri=".", keyword="a[ab]{60}c", regex=True)
    assert found.startswith("No matches found.\n(The search was ended after 0.01 seconds")


def test_without_the_extra_an_expression_is_an_error_that_names_it(desk, monkeypatch):
    monkeypatch.setitem(sys.modules, "re2", None)
    desk.write("a.txt", "key")
    assert desk.error(SEARCH, uri=".", keyword="k.y", regex=True) == (
        'A regular expression needs `pip install "ahvn-tools[search]"` where the tool runs. '
        "Search for a literal text with regex=false."
    )
    assert desk.call(SEARCH, uri=".", keyword="key") == "a.txt:1:key"
