"""The words of a text in any script, as SQLite's full-text index stores and finds them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

TOKENIZER: Final = "unicode61 remove_diacritics 2 categories ''L* M* N* Co''"
"""What an index is made with, inside of the quotes of SQL: vowel signs are parts of words, as those of Hindi."""
MAX_WORD: Final = 100
"""Characters of a word that count. FTS5 might take a long one for a phrase of very many words, which takes minutes."""

_UNSPACED = (  # Thai, Lao, Burmese, Khmer; Korean, too, whose particles follow a word without a space
    r"\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u1000-\u1049\u1050-\u109f\u1780-\u17d3\u1100-\u11ff\u2f00-\u2fd5\u3005-\u3007"
    r"\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003134f"
)
"""Characters of scripts that write no spaces between words."""
_IGNORED = (
    r"\u00ad\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640"
    r"\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u1dc0-\u1dff\u200c\u200d\u2060\ufe00-\ufe0f\U000e0100-\U000e01ef"
)
"""Accents, Hebrew and Arabic vowel points, and what is invisible inside of a word, such as a soft hyphen."""
_VOWEL_SIGNS = r"\u0900-\u0963\u0971-\u0df3\u0f71-\u0f84\u0f90-\u0fbc"
"""The scripts of India, and Tibetan: their signs are no letters for `re`."""
_WORD = (
    f"(?P<unspaced>[{_UNSPACED}][{_UNSPACED}{_IGNORED}]*)"
    f"|[^\\W_{_UNSPACED}{_IGNORED}](?:[^\\W_{_UNSPACED}]+|[{_IGNORED}{_VOWEL_SIGNS}]+)*"
)
"""A pattern that `re` compiles at its first use: that is slow, and few programs search."""
_IGNORED_PARTS = f"[{_IGNORED}]+"


def find_words(text: str) -> Iterator[re.Match[str]]:
    """Yield each word, or run of characters of a script without spaces, whose group `unspaced` is not None."""
    return re.finditer(_WORD, text)


def fold(word: str) -> str:
    """Return a word as it is compared: without case, accents and other forms of its characters."""
    if word.isascii():
        return word.lower()
    parts = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", word).casefold())
    return unicodedata.normalize("NFC", re.sub(_IGNORED_PARTS, "", parts))


def tokenize(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield, for each word of a text, the words to index and the terms of a query: scripts without spaces in pairs.

    A term is in quotes, so that SQLite reads none as an operator.
    """
    for match in find_words(text):
        word = fold(match.group())
        if match["unspaced"]:
            pairs = [word[start : start + 2] for start in range(len(word) - 1)]
            # the last character is a word, too, so that a query of one character matches any as a prefix
            yield [*pairs, word[-1]], [f'"{pair}"' for pair in pairs] or [f'"{word}" *']
        else:
            yield [word[:MAX_WORD]], [f'"{word[:MAX_WORD]}"']


def is_plain(text: str) -> bool:
    """Return whether SQLite finds all words of a text that is indexed as it is."""
    return text.isascii() or all(char.isascii() or unicodedata.category(char)[0] in "PSZ" for char in set(text))


def index_text(text: str) -> str:
    """Return the words to index of a text, with spaces between them; a plain text as it is."""
    return text if is_plain(text) else " ".join(word for words, _ in tokenize(text) for word in words)
