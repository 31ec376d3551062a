"""edit_file_search_replace: blocks that are exact, unique, and applied all or not at all."""

from __future__ import annotations

import pytest

EDIT = "edit_file_search_replace"


def test_the_result_shows_the_changed_lines(desk, block):
    desk.write("a.py", "".join(f"line {n}\n" for n in range(1, 31)))
    blocks = block("line 5\n", "five\nfive and a half\n") + block("line 25\n", "") + block("line 27\n", "27\n")
    assert desk.call(EDIT, uri="a.py", search_replace=blocks) == (
        "Edited a.py (3 blocks). The lines are now:\n"
        "2: line 2\n3: line 3\n4: line 4\n5: five\n6: five and a half\n7: line 6\n8: line 7\n9: line 8\n"
        "...\n"
        "23: line 22\n24: line 23\n25: line 24\n26: line 26\n27: 27\n28: line 28\n29: line 29\n30: line 30"
    )


CONFLICT = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"
HEAD = "<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> branch\n"
UNUSUAL_ENDS = "a\x0bb\x0c\x85c\u2028d\n{}\n"


@pytest.mark.parametrize(
    ("content", "edit", "edited"),
    [
        pytest.param("a\nb\n", [("a\n", "$& $1 \\1 \\g<0> \\n\n")], "$& $1 \\1 \\g<0> \\n\nb\n", id="literal"),
        pytest.param("if a:\n    b()\nb()\n", [("    b()\n", "\tc()  \n")], "if a:\n\tc()  \nb()\n", id="indentation"),
        pytest.param("a\nb\nc\n", [("b\n", "")], "a\nc\n", id="deleted lines leave no empty line"),
        pytest.param("a\nb", [("a\nb\n", "")], "", id="all lines"),
        pytest.param("a\nb\n", [("a\n", "c\n"), ("c\n", "d\n")], "d\nb\n", id="a block sees the one before"),
        pytest.param(
            "a\n", "```python\n\n<<<<<<< SEARCH \na\n======= \nb\n>>>>>>> REPLACE\t\n\n```\n", "b\n",
            id="code fences, empty lines and spaces around markers",
        ),
        pytest.param(
            "Title\n=======\ntext\n",
            "<<<<<<<< SEARCH\nTitle\n=======\n========\nOther\n=======\n>>>>>>>> REPLACE", "Other\n=======\ntext\n",
            id="a divider in longer markers",
        ),
        pytest.param(
            f"Merge:\n{CONFLICT}", f"<<<<<<<< SEARCH\n{CONFLICT}========\ndone\n>>>>>>>> REPLACE\n", "Merge:\ndone\n",
            id="markers in longer markers",
        ),
        pytest.param(UNUSUAL_ENDS.format("x"), [("x\n", "y\n")], UNUSUAL_ENDS.format("y"), id="unusual line ends"),
    ],
)  # fmt: skip
def test_an_edit(desk, block, content, edit, edited):
    desk.write("a.py", content)
    blocks = edit if isinstance(edit, str) else "".join(block(*each) for each in edit)
    assert desk.call(EDIT, uri="a.py", search_replace=blocks).endswith("(The file is empty.)") == (not edited)
    assert desk.read("a.py").decode() == edited


@pytest.mark.parametrize(
    ("content", "edited"),
    [
        pytest.param(b"a\r\nb\r\nc\r\n", b"a\r\n1\r\n2\r\nc\r\n", id="crlf"),
        pytest.param(b"a\rb\rc\r", b"a\r1\r2\rc\r", id="cr"),
        pytest.param(b"a\nb\r\nc\r", b"a\n1\r\n2\r\nc\r", id="mixed"),
        pytest.param(b"\xef\xbb\xbfa\nb\n\xc3\xbc", b"\xef\xbb\xbfa\n1\n2\n\xc3\xbc", id="mark"),
        pytest.param("a\r\nb\r\nü\r\n".encode("utf-16"), "a\r\n1\r\n2\r\nü\r\n".encode("utf-16"), id="utf-16"),
        pytest.param(b"a\nb\n\xfc", b"a\n1\n2\n\xfc", id="latin-1"),
        pytest.param(b"a\nb", b"a\n1\n2", id="no final newline"),
        pytest.param(b"b", b"1\n2", id="one line"),
        pytest.param(b"b\r\n", b"1\r\n2\r\n", id="one line with crlf"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_the_form_of_the_file_stays(desk, block, content, edited, newline):
    desk.write("a.txt", content)
    desk.call(EDIT, uri="a.txt", search_replace=block("b\n", "1\n2\n").replace("\n", newline))
    assert desk.read("a.txt") == edited
    desk.call(EDIT, uri="a.txt", search_replace=block("1\n2\n", "b\n"))
    assert desk.read("a.txt") == content


ABAB = "a\nb\na\nb\n"


@pytest.mark.parametrize(
    ("content", "edit", "message"),
    [
        ("a\nb\n", [("a\n", "c\n"), ("x\n", "d\n")], "block 2 are not in the file. Nothing was changed."),
        ("a\n\xfc", [("a\n", "钥\n")], "has no character U+94A5"),
        (
            ABAB, [("a\nb\n", "c\n")],
            ("The SEARCH lines of block 1 are 2 times in the file, from the lines 1, 3. Nothing was changed. Add lines "
            "before or after them, so that they are there once."),
        ),
        ("a\n" * 100, [("a\n", "c\n")], "more than 10 times in the file, from the lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10"),
        ("a\na\na\n", [("a\na\n", "c\n")], "2 times"),
        (
            "b\n", [("a\n", "b\n")],
            "Nothing was changed. The REPLACE lines are there already: is this edit done?",
        ),
        (
            "a\n", [("", "b\n")],
            ("Block 1 has no SEARCH lines. Nothing was changed. To add lines, use insert, or repeat a line of the file "
            "in SEARCH and in REPLACE with the new lines around it."),
        ),
        ("a\n", [("a\n", "a\n")], "are the same"),
        (
            "Title\n=======\ntext\n", [("Title\n=======\n", "Other\n")],
            ("Block 1 has 2 lines =======, and it is not clear which one divides it. Nothing was changed. Write its "
            "three markers with 8 characters: <<<<<<<< SEARCH, ========, >>>>>>>> REPLACE. Shorter ones are content "
            "then."),
        ),
        (HEAD, [(HEAD.replace("x = 2", "x = two"), "x = 3\n")], "Nothing was changed."),
        (
            "caf\u00e9\nb = 1\nc = 2\n", [("cafe\u0301\nb = 1\nc = 3\n", "z\n")],
            "The first difference: line 3 is 'c = 2', and SEARCH has 'c = 3'.",
        ),
        (
            "if x:\n    b = 1\nc = 2\n", [("if x:\n  b = 1\nc = 3\n", "z\n")],
            "The first difference: line 2 is '    b = 1', and SEARCH has '  b = 1'.",
        ),
        ("x = a\u00a0b + c\n", [("a b\n", "z\n")], "SEARCH must have whole lines, and line 1 has more text"),
    ],
    ids=range(13),
)  # fmt: skip
def test_what_does_not_fit_is_an_error_and_changes_nothing(desk, block, content, edit, message):
    data = content.encode("latin-1" if "\xfc" in content else "utf-8")
    desk.write("a.py", data)
    assert message in desk.error(EDIT, uri="a.py", search_replace="".join(block(*each) for each in edit))
    assert desk.read("a.py") == data


@pytest.mark.parametrize(
    ("search", "message"),
    [
        pytest.param(
            "def f():\n  return 1\n",
            "Lines 1 to 2 differ in spaces only. The first difference, in line 2, is the indentation: it begins with "
            "4 spaces, and SEARCH with 2 spaces.\n1: def f():\n2:     return 1",
            id="indentation",
        ),
        pytest.param(
            "\tx = 1\n",
            "Line 4 differs in spaces only. The first difference, in line 4, is the indentation: it begins with 4 "
            "spaces, and SEARCH with 1 tab.\n4:     x = 1  ",
            id="tab",
        ),
        pytest.param(
            "    x = 1\n",
            "Line 4 differs in spaces only. The first difference, in line 4, is the end of the line: it ends with 2 "
            "spaces, and SEARCH with no space.\n4:     x = 1  ",
            id="end of line",
        ),
        pytest.param(
            "    x =  1  \n",
            "Line 4 differs in spaces only. The first difference, in line 4, is the spaces inside of the line.\n"
            "4:     x = 1  ",
            id="inside",
        ),
        pytest.param(
            "retur\n", "SEARCH must have whole lines, and line 2 has more text:\n2:     return 1", id="part of a line"
        ),
        pytest.param(
            "def f():\n    return 2\n",
            "The most similar lines are these. The first difference: line 2 is '    return 1', and SEARCH has "
            "'    return 2'.\n1: def f():\n2:     return 1",
            id="another line",
        ),
        pytest.param(
            "def ff(x):\n",
            "The most similar lines are these. The first difference: line 1 is 'def f():', and SEARCH has "
            "'def ff(x):'.\n1: def f():",
            id="similar line",
        ),
        pytest.param(
            "y = 2\nz = 3\n",
            "The most similar lines are these. The first difference: the file ends before, and SEARCH has 'z = 3'.\n"
            "5: y = 2",
            id="end of file",
        ),
        pytest.param(
            "completely other\n",
            "No lines of the file are similar. Read the file again, and copy whole lines from it.",
            id="nothing",
        ),
    ],
)
def test_lines_that_are_not_there_are_an_error_with_the_nearest(desk, block, search, message):
    desk.write("a.py", "def f():\n    return 1\n\n    x = 1  \ny = 2\n")
    assert desk.error(EDIT, uri="a.py", search_replace=block(search, "z\n")) == (
        f"The SEARCH lines of block 1 are not in the file. Nothing was changed. {message}"
    )


NO_BREAK = "U+00A0 (NO-BREAK SPACE)"
FORMS = "has the Unicode form {} in the file, and {} in {}"


@pytest.mark.parametrize(
    ("line", "search", "difference"),
    [
        ("a\u00a0b", "a b", f"character 2 is {NO_BREAK} in the file, and a space in SEARCH"),
        ("a b", "a\u3000b", "character 2 is a space in the file, and U+3000 (IDEOGRAPHIC SPACE) in SEARCH"),
        ("a\tb\u2009c", "a\tb c", "character 4 is U+2009 (THIN SPACE) in the file, and a space in SEARCH"),
        ("ab\u200bc", "abc", "character 3 is U+200B (ZERO WIDTH SPACE) in the file, and 'c' in SEARCH"),
        ("abc", "abc\ufeff", "character 4 is missing in the file, and U+FEFF (ZERO WIDTH NO-BREAK SPACE) in SEARCH"),
        ("caf\u00e9", "cafe\u0301", f"character 4 {FORMS.format('NFC', 'NFD', 'SEARCH')}"),
        ("\u1112\u1161", "\ud558", f"character 1 {FORMS.format('NFD', 'NFC', 'SEARCH')}"),
        ("\u00a0 a", "  a", f"the indentation: it begins with 1 {NO_BREAK} and 1 space, and SEARCH with 2 spaces"),
    ],
)  # fmt: skip
def test_characters_that_look_the_same_are_named(desk, block, line, search, difference):
    desk.write("a.py", f"x = 1\n{line}\n")
    message = desk.error(EDIT, uri="a.py", search_replace=block(f"{search}\n", "z\n"))
    assert f"in line 2, is {difference}" in message


@pytest.mark.parametrize(
    ("line", "keyword", "difference"),
    [
        ("x\u00a0 ra\u00a0b\u200b", "a b", f"character 2 is {NO_BREAK} in the file, and a space in the keyword"),
        ("le cafe\u0301.", "caf\u00e9", f"character 4 {FORMS.format('NFD', 'NFC', 'the keyword')}"),
        ("ke\u00ady", "key", "character 3 is U+00AD (SOFT HYPHEN) in the file, and 'y' in the keyword"),
    ],
)  # fmt: skip
def test_a_keyword_that_only_looks_like_a_text_is_said_to(desk, line, keyword, difference):
    desk.write("a.txt", f"one\n{line}\n")
    assert desk.call("partially_read_around_keyword", uri="a.txt", keyword=keyword) == (
        f'No matches found for "{keyword}". Line 2 has it with other blanks, invisible characters or another Unicode '
        f"form: {difference}."
    )


def test_a_path_that_only_looks_like_a_name_is_said_to(desk):
    desk.write("cafe\u0301.txt", "x")
    assert desk.error("read_file", uri="caf\u00e9.txt").endswith(
        "'cafe\u0301.txt' looks the same, but character 4 has the Unicode form NFD in its name, and NFC in the path."
    )
    assert "looks the same" not in desk.error("read_file", uri="cafe.txt")
    assert desk.call("read_file", uri="cafe\u0301.txt") == "x"


def test_a_letter_with_an_accent_is_no_letter_without_it(desk):
    desk.write("a.txt", "caf\u00e9\n")
    answer = desk.call("partially_read_around_keyword", uri="a.txt", keyword="cafe")
    assert answer == 'No matches found for "cafe".'


FORM = "<<<<<<< SEARCH\nold lines\n=======\nnew lines\n>>>>>>> REPLACE"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "search_replace has no block."),
        ("a\n", "Line 1 of search_replace is outside of a block."),
        ("<<<<<<< SEARCH\na\n=======\nb\n", "Block 1 has no line >>>>>>> REPLACE."),
        ("<<<<<<< SEARCH\na\n>>>>>>> REPLACE\n", "Block 1 has no line =======."),
        ("<<<<<<< SEARCH\na\n=======\n<<<<<<< SEARCH\n", "Block 1 has no line >>>>>>> REPLACE."),
        ("<<<<<<< search\na\n=======\nb\n>>>>>>> REPLACE", "Line 1 of search_replace is outside of a block."),
        ("<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\nand", "Line 6 of search_replace is outside of a block."),
    ],
    ids=["nothing", "no marker", "no end", "no divider", "nested", "case", "text behind"],
)
def test_another_form_is_refused_with_the_right_one(desk, text, message):
    desk.write("a.py", "a\n")
    assert desk.error(EDIT, uri="a.py", search_replace=text) == f"{message} Write blocks as:\n{FORM}"
    assert desk.read("a.py") == b"a\n"


def test_a_missing_and_a_binary_file_are_errors(desk, block):
    desk.write("a.bin", b"a\0b")
    assert desk.error(EDIT, uri="b.bin", search_replace=block("a\n", "b\n")).endswith("Did you mean 'a.bin'?")
    assert "binary" in desk.error(EDIT, uri="a.bin", search_replace=block("a\n", "b\n"))
    assert desk.read("a.bin") == b"a\0b"


def test_messages_about_huge_lines_are_short(desk, block):
    desk.write("a.txt", f"{'a' * 100_000}\nb\n")
    assert len(desk.error(EDIT, uri="a.txt", search_replace=block(f"{'a' * 99_999}b\n", "c\n"))) < 5_000


@pytest.mark.exhaustive
def test_a_large_file_of_equal_lines_is_edited_soon(desk, block):
    desk.write("a.txt", "same\n" * 500_000 + "end\n")
    assert desk.call(EDIT, uri="a.txt", search_replace=block("same\nend\n", "END\n"))
    assert "No lines" in desk.error(EDIT, uri="a.txt", search_replace=block("other\n" * 1_000, "x\n"))


@pytest.mark.parametrize(
    "search",
    [
        pytest.param("\n" * 300_000, id="many equal lines"),
        pytest.param("\n" * 300_000 + "end\n", id="nearly many equal lines"),
        pytest.param(" \n" * 300_000 + "x\n", id="many lines of spaces"),
        pytest.param("=======\n" * 100_000, id="many dividers"),
        pytest.param("x\n=======\ny\n>>>>>>> REPLACE\n<<<<<<< SEARCH\n" * 20_000, id="many blocks"),
    ],
)
@pytest.mark.exhaustive
def test_hostile_blocks_are_refused_soon(desk, block, search):
    content = "\n" * 600_000
    desk.write("a.txt", content)
    assert desk.error(EDIT, uri="a.txt", search_replace=block(search, "z\n"))
    assert desk.read("a.txt").decode() == content
