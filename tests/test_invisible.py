"""All invisible characters are found, and ordinary text in any language is unchanged."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ahvn_tools import invisible

ALL_CHARACTERS = [chr(code) for code in range(sys.maxunicode + 1)]
VISIBLE_FORMAT_CHARACTERS = {"\u06dd", "\u070f", "\u08e2", "\U000110bd", "\U000110cd"} | {
    *map(chr, range(0x600, 0x606)),
    *map(chr, range(0x890, 0x892)),
}
"""Format characters with a visible shape: signs of the Arabic, Syriac and Kaithi scripts."""

INVISIBLE = {
    "a tag": "\U000e0041",
    "zero width": "\u200b",
    "a direction": "\u202e",
    "an escape sequence": "\x1b",
    "a variation selector": "\U000e0100",
    "a surrogate": "\ud800",
    "private use": "\ue000",
    "a blank letter": "\u3164",
    "a lone return": "\r",
}

texts = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("a#\r\n\ufe0f\ufe0e\u200d\u200c☁❤👩💻نخ"),
        st.sampled_from([*INVISIBLE.values()]),
    )
)


def test_every_control_format_private_use_and_surrogate_character_is_invisible():
    missed = [
        character
        for character in ALL_CHARACTERS
        if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
        and character not in {"\n", "\t", *VISIBLE_FORMAT_CHARACTERS}
        and not invisible.find(character)
    ]
    assert missed == []


def test_no_visible_character_is_invisible():
    blanks = {
        "\u115f",
        "\u1160",
        "\u2800",
        "\u3164",
        "\uffa0",
        "\u034f",
        "\u17b4",
        "\u17b5",
        "\u180b",
        "\u180c",
        "\u180d",
    }
    blanks |= {"\u180f", *map(chr, range(0xFE00, 0xFE10)), *map(chr, range(0xE0100, 0xE01F0))}
    wrong = [
        character
        for character in ALL_CHARACTERS
        if unicodedata.category(character)[0] not in "CZ" and character not in blanks and invisible.find(character)
    ]
    assert wrong == []


@pytest.mark.parametrize("character", INVISIBLE.values(), ids=INVISIBLE)
def test_an_invisible_character_is_escaped(character):
    escaped = invisible.escape(f"add{character}numbers")
    assert escaped.startswith("add\\")
    assert escaped.isascii()
    assert character not in escaped


@pytest.mark.parametrize(
    "text",
    [
        "First line.\r\n\tSecond line.",
        "⚠️ careful",
        "1️⃣ one",
        "👩‍💻 at work, ❤️‍🔥",
        "می‌خواهم",
        "क्‍ष",
        "naïve café, 日本語, Ελληνικά",
        "",
    ],
)
def test_ordinary_text_is_unchanged(text):
    assert invisible.escape(text) == text
    assert invisible.find(text) == []


@pytest.mark.parametrize(
    "text", ["a\ufe0f", "a\u200db", "\u2060\ufe0f", "👩\u200d", "a\ufe0f\u200d👩", "❤\ufe0f\ufe0f"]
)
def test_a_joiner_or_selector_without_a_purpose_is_invisible(text):
    assert invisible.find(text)


@given(texts)
def test_an_escaped_text_has_no_invisible_characters(text):
    escaped = invisible.escape(text)
    assert invisible.find(escaped) == []
    assert invisible.escape(escaped) == escaped
    escaped.encode()


@example("a\r\nb")
@given(st.text())
def test_a_text_in_one_line_has_no_line_break_and_no_invisible_character(text):
    line = invisible.escape_line(text)
    assert not {"\n", "\r", "\t"} & {*line}
    assert invisible.find(line) == []


@given(texts)
def test_find_is_empty_exactly_if_escape_changes_nothing(text):
    assert bool(invisible.find(text)) == (invisible.escape(text) != text)


@pytest.mark.parametrize(
    "name", ["a\nb", "a\tb", "a\u00a0b", "a\u3000b", "👩‍💻", *(f"a{character}b" for character in INVISIBLE.values())]
)
def test_a_name_must_not_have_invisible_characters_or_unusual_spaces(name):
    assert invisible.find_in_name(name)


def test_a_name_may_have_spaces_slashes_and_letters_of_any_script():
    assert invisible.find_in_name("read file/größe 大小") == []
