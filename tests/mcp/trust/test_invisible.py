"""Hidden characters: all of them are found, and what people write in any language is left alone."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools.mcp.trust import invisible

EVERY = [chr(code) for code in range(sys.maxunicode + 1)]
SEEN_SIGNS = {"\u06dd", "\u070f", "\u08e2", "\U000110bd", "\U000110cd"} | {
    *map(chr, range(0x600, 0x606)),
    *map(chr, range(0x890, 0x892)),
}
"""Format characters that have a shape of their own: signs of the Arabic, Syriac and Kaithi scripts."""

CARRIERS = {
    "a tag": "\U000e0041",
    "no width": "\u200b",
    "a direction": "\u202e",
    "an escape sequence": "\x1b",
    "a variation selector": "\U000e0100",
    "half a character": "\ud800",
    "private use": "\ue000",
    "a blank letter": "\u3164",
    "a lone return": "\r",
}

texts = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("a#\r\n\ufe0f\ufe0e\u200d\u200c☁❤👩💻نخ"),
        st.sampled_from([*CARRIERS.values()]),
    )
)


def test_every_control_format_private_and_half_character_is_hidden():
    missed = [
        character
        for character in EVERY
        if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
        and character not in {"\n", "\t", *SEEN_SIGNS}
        and not invisible.find(character)
    ]
    assert missed == []


def test_nothing_that_is_seen_is_hidden():
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
        for character in EVERY
        if unicodedata.category(character)[0] not in "CZ" and character not in blanks and invisible.find(character)
    ]
    assert wrong == []


@pytest.mark.parametrize("carrier", CARRIERS.values(), ids=CARRIERS)
def test_a_hidden_character_is_written_out(carrier):
    shown = invisible.escape(f"add{carrier}numbers")
    assert shown.startswith("add\\")
    assert shown.isascii()
    assert carrier not in shown


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
def test_what_people_write_stays_as_it_is(text):
    assert invisible.escape(text) == text
    assert invisible.find(text) == []


@pytest.mark.parametrize(
    "text", ["a\ufe0f", "a\u200db", "\u2060\ufe0f", "👩\u200d", "a\ufe0f\u200d👩", "❤\ufe0f\ufe0f"]
)
def test_a_joiner_or_selector_with_nothing_to_join_or_select_is_hidden(text):
    assert invisible.find(text)


@given(texts)
def test_a_text_that_was_escaped_hides_nothing(text):
    shown = invisible.escape(text)
    assert invisible.find(shown) == []
    assert invisible.escape(shown) == shown
    shown.encode()


@given(texts)
def test_found_says_whether_escaped_changes_a_text(text):
    assert bool(invisible.find(text)) == (invisible.escape(text) != text)


@pytest.mark.parametrize(
    "name", ["a\nb", "a\tb", "a\u00a0b", "a\u3000b", "👩‍💻", *(f"a{part}b" for part in CARRIERS.values())]
)
def test_a_name_has_nothing_hidden_and_no_space_but_the_plain_one(name):
    assert invisible.find_in_name(name)


def test_a_name_may_have_spaces_slashes_and_letters_of_any_script():
    assert invisible.find_in_name("read file/größe 大小") == []
