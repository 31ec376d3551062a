"""Files that are no UTF-8: their encoding is found or named, kept by edits, and the reader is told of a guess."""

from __future__ import annotations

import sys

import pytest

from tests.builtins.workspace.test_stale_edits import EDITS, READS

CHINESE = "今天天气很好,我们去公园散步。\none\n"
JAPANESE = "# エラー: ファイルが見つかりません\none\n"
RUSSIAN = "Сегодня хорошая погода.\none\n"
GUESSES = {"gbk": CHINESE, "big5": "今天天氣很好,我們去公園散步。\none\n", "cp932": JAPANESE, "euc_jp": JAPANESE,
           "cp949": "오늘은 날씨가 좋아서 공원에 갔습니다.\none\n", "cp1251": RUSSIAN, "koi8-r": RUSSIAN,
           "cp1252": "«Où êtes-vous?» naïve œuvre coûte 5 €\none\n"}  # fmt: skip
NOTE = (
    "(The file is no UTF-8, and its encoding is a guess: {}. If the text is wrong, name the encoding, as in "
    "encoding='gbk'.)"
)
WHOLE = {
    "create_file": {"uri": "a.txt", "content": "钥\n", "overwrite": True},
    "write_text_file": {"uri": "a.txt", "content": "钥\n"},
    "edit_file_full_replace": {"uri": "a.txt", "new_content": "钥\n"},
}


@pytest.fixture
def without_detection(monkeypatch):
    """Remove charset-normalizer."""
    monkeypatch.setitem(sys.modules, "charset_normalizer", None)


@pytest.mark.parametrize("encoding", GUESSES)
def test_the_encoding_is_guessed_and_said_to_be_a_guess(desk, encoding):
    desk.write("a.txt", GUESSES[encoding].encode(encoding))
    assert desk.call("read_file", uri="a.txt") == GUESSES[encoding] + NOTE.format(encoding)


@pytest.mark.usefixtures("without_detection")
def test_without_the_extra_the_guess_is_western(desk):
    desk.write("a.txt", CHINESE.encode("gbk"))
    assert desk.call("read_file", uri="a.txt").endswith("\none\n" + NOTE.format("cp1252"))


@pytest.mark.usefixtures("without_detection")
@pytest.mark.parametrize("max_bytes", [1_000, 10])
@pytest.mark.parametrize("read", READS)
def test_every_tool_that_reads_takes_the_encoding(make_desk, read, max_bytes):
    desk = make_desk(max_bytes=max_bytes if read != "view_text_file" else 1_000)
    desk.write("a.txt", CHINESE.encode("gbk"))
    assert "guess: cp1252" in desk.call(read, uri="a.txt", **READS[read])
    text = desk.call(read, uri="a.txt", **READS[read], encoding="GBK")
    assert "今天天气很好" in text
    assert "guess" not in text


def test_a_large_file_is_guessed_by_its_beginning(make_desk):
    desk = make_desk(max_bytes=1_000)
    desk.write("a.txt", (CHINESE * 5_000).encode("gbk"))
    text = desk.call("partially_read_by_range", uri="a.txt", start_line=9_999, end_line=9_999)
    assert text == f"9999: {CHINESE[:-5]}\n{NOTE.format('gbk')}"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("# -*- coding: cp1250 -*-\nname = 'żółw'\n", "cp1250"),
        ('<?xml version="1.0" encoding="GB2312"?><a>你好</a>\n', "gbk"),
        ("<meta charset=iso-8859-1>“5 €”\n", "cp1252"),
    ],
)
def test_an_encoding_that_the_file_declares_is_no_guess(desk, text, encoding):
    desk.write("a.txt", text.encode(encoding))
    assert desk.call("read_file", uri="a.txt") == text


@pytest.mark.parametrize(("encoding", "message"), [("utf-8", "no utf-8 text"), ("gkb", "unknown"), ("idna", "unknown")])
@pytest.mark.parametrize("tool", ["read_file", "insert"])
def test_a_wrong_encoding_is_an_error(desk, tool, encoding, message):
    desk.write("a.txt", b"caf\xe9\n")
    assert message in desk.error(tool, uri="a.txt", encoding=encoding, **EDITS.get(tool, {}))
    assert desk.read("a.txt") == b"caf\xe9\n"


@pytest.mark.parametrize("tool", ["read_file", "insert"])
def test_a_byte_order_mark_is_no_other_encoding(desk, tool):
    desk.write("a.txt", "café\n".encode("utf-8-sig"))
    assert "is utf-8 text, as its" in desk.error(tool, uri="a.txt", encoding="latin-1", **EDITS.get(tool, {}))
    desk.call(tool, uri="a.txt", encoding="utf-8", **EDITS.get(tool, {}))


@pytest.mark.usefixtures("without_detection")
@pytest.mark.parametrize("is_read", [True, False], ids=["as it was read", "as the edit says"])
@pytest.mark.parametrize("tool", EDITS)
def test_an_edit_keeps_the_encoding(desk, tool, is_read):
    desk.write("a.txt", CHINESE.encode("gbk"))
    if is_read or tool == "edit_file_full_replace":
        desk.call("read_file", uri="a.txt", encoding="gbk")
    arguments = {
        key: value.replace("new", "新") if isinstance(value, str) else value for key, value in EDITS[tool].items()
    }
    desk.call(tool, uri="a.txt", **arguments, **({} if is_read else {"encoding": "gbk"}))
    edited = desk.read("a.txt").decode("gbk")
    assert "新" in edited
    assert tool in WHOLE or "今天天气很好" in edited


@pytest.mark.parametrize("tool", WHOLE)
def test_what_an_encoding_does_not_have_is_written_as_the_error_says(make_desk, tool):
    desk = make_desk(approve="always")
    desk.write("a.txt", b"caf\xe9\r\n")
    desk.call("read_file", uri="a.txt")
    error = "The file is cp1252 text, which has no character U+94A5."
    assert error in desk.error("insert", uri="a.txt", line=1, content="钥")
    advice = desk.error(tool, **WHOLE[tool])
    assert "replace its whole content with encoding='utf-8'" in advice
    desk.call(tool, **WHOLE[tool], encoding="utf-8")
    assert desk.read("a.txt") == "钥\r\n".encode()
    diff = "--- a.txt\n+++ a.txt\n@@ -1,1 +1,1 @@\n-café\n+钥"
    assert desk.asked == [("Edit a.txt (from cp1252 to utf-8)", {"path": "a.txt", "diff": diff})]


def test_a_file_is_converted_without_another_change(desk):
    desk.write("a.txt", b"caf\xe9\n")
    assert desk.call("create_file", uri="a.txt", content="café\n", overwrite=True, encoding="utf-8-sig") == (
        "Overwrote a.txt (from cp1252 to utf-8 with a byte order mark). No line has changed."
    )
    assert desk.read("a.txt") == "café\n".encode("utf-8-sig")


def test_utf_16_without_a_byte_order_mark_is_converted_once_it_was_read(desk):
    desk.write("a.txt", "one\n".encode("utf-16-le"))
    assert "binary" in desk.error("read_file", uri="a.txt")
    assert desk.call("read_file", uri="a.txt", encoding="utf-16") == "one\n"
    desk.call("write_text_file", uri="a.txt", content="new\n", encoding="utf-8")
    assert desk.read("a.txt") == b"new\n"


@pytest.mark.parametrize("encoding", ["gbk", "shift_jis", "utf-16", "utf-8-sig"])
@pytest.mark.parametrize("tool", ["create_file", "write_text_file"])
def test_a_new_file_has_the_encoding(make_desk, tool, encoding):
    desk = make_desk(approve="always")
    desk.call(tool, uri="a.txt", content="日本\n", encoding=encoding)
    assert desk.read("a.txt") == "日本\n".encode(encoding)
    assert desk.asked[0][0].startswith("Create a.txt (")
    desk.call("insert", uri="a.txt", line=2, content="日")
    assert desk.read("a.txt") == "日本\n日\n".encode(encoding)


def test_an_edit_changes_no_other_line(desk, block):
    content = b"\xfa\x5c \x83\x65\x83\x58\x83\x67\x83\x65\x83\x58\nold\n"  # its first character is usually \xed\x40
    desk.write("a.txt", content)
    edit = {"uri": "a.txt", "search_replace": block("old\n", "new\n")}
    assert "several ways" in desk.error("edit_file_search_replace", **edit, encoding="cp932")
    assert desk.read("a.txt") == content
    desk.call("edit_file_search_replace", **edit, encoding="latin-1")
    assert desk.read("a.txt") == content.replace(b"old", b"new")


@pytest.mark.parametrize("counts", [False, True])
def test_a_search_names_the_files_with_matches_whose_encoding_is_a_guess(desk, counts):
    for number in range(7):
        desk.write(f"{number}.txt", "Grüße an alle\n".encode("latin-1"))
    desk.write("other.txt", "Grüße\n".encode("latin-1"))
    desk.write("plain.txt", "alle\n")
    text = desk.call("search_file_contains_keyword", uri=".", keyword="alle", counts=counts)
    note = text.splitlines()[-1]
    assert note.startswith("(These files are no UTF-8, and their encoding is a guess: 0.txt (")
    assert " and 2 more. If a text is wrong, name the encoding" in note
    assert "other.txt" not in text
    named = desk.call("search_file_contains_keyword", uri=".", keyword="alle", counts=counts, encoding="latin-1")
    assert "guess" not in named


def test_a_search_finds_text_in_the_guessed_encoding(desk):
    desk.write("a.txt", CHINESE.encode("gbk"))
    desk.write("b.txt", JAPANESE.encode("cp932"))
    desk.write("c.txt", CHINESE)
    found = desk.call("search_file_contains_keyword", uri=".", keyword="公园")
    *results, note = found.splitlines()
    assert [line.split(":")[0] for line in results] == ["a.txt", "c.txt"]
    assert "is a guess: a.txt (" in note
    assert desk.call("search_file_contains_keyword", uri=".", keyword="ファイル").startswith("b.txt:1:")


@pytest.mark.usefixtures("without_detection")
def test_a_search_takes_the_encoding_of_files_that_are_no_utf_8(desk):
    desk.write("a.txt", CHINESE.encode("gbk"))
    desk.write("b.txt", b"\xff\xff\n")
    desk.write("c.txt", CHINESE)
    search = {"uri": ".", "keyword": "公园"}
    assert desk.call("search_file_contains_keyword", **search).count("公园") == 1
    assert desk.call("search_file_contains_keyword", **search, encoding="gbk").count("公园") == 2
    assert "unknown" in desk.error("search_file_contains_keyword", **search, encoding="gkb")
