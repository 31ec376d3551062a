"""Invisible characters: find and escape what a model reads in a text and a person does not see.

These are control, invisible, direction-changing, tag and private-use characters, surrogates and noncharacters. Line
feeds and tabs are allowed. A joiner or variation selector is allowed where it has its purpose: in an emoji, and between
letters of a script that joins them.
"""

from __future__ import annotations

import re
from typing import Final

_INVISIBLE: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, except the tab and the line feed
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # default-ignorable: fillers, marks
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, line separators, direction marks, operators
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"  # blanks, variation selectors, annotations
    "\ud800-\udfff\ue000-\uf8ff"  # surrogates, private use
    "\ufdd0-\ufdef\ufffe\uffff"  # noncharacters
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # format characters of some scripts
    "\U000e0000-\U000e0fff\U000f0000-\U0010ffff"  # tags, variation selectors, private use
)
_EMOJI: Final = "\u203c\u2049\u2100-\u27bf\u2900-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_JOINING_SCRIPTS: Final = (
    "\u0620-\u08ff\u0900-\u0dff\u0e80-\u109f\u1780-\u17b3\u17b6-\u17dd\u1820-\u18af\u1a20-\u1b7f\ua840-\uabff"
)

_ALLOWED: Final = (
    r"\r(?=\n)"
    rf"|(?<=[{_EMOJI}#*0-9©®])\ufe0f"
    rf"|(?<=[{_EMOJI}])(?:\ufe0e|\u200d(?=[{_EMOJI}]))"
    rf"|(?<=[{_EMOJI}]\ufe0f)\u200d(?=[{_EMOJI}])"
    rf"|(?<=[{_JOINING_SCRIPTS}])[\u200c\u200d](?=[{_JOINING_SCRIPTS}])"
)

_ALLOWED_OR_INVISIBLE: Final = re.compile(f"(?P<allowed>{_ALLOWED})|[{_INVISIBLE}]")
_ANY_INVISIBLE: Final = re.compile(f"[{_INVISIBLE}]")
_FORBIDDEN_IN_NAME: Final = re.compile(f"[{_INVISIBLE}\t\n\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")


def find(text: str) -> list[str]:
    r"""Return the invisible characters of a text as escapes, each once.

    >>> find("add\u200b numbers")
    ['\\u200b']
    """
    if _ANY_INVISIBLE.search(text) is None:
        return []
    matches = _ALLOWED_OR_INVISIBLE.finditer(text)
    return list(dict.fromkeys(_escape_character(match[0]) for match in matches if not match["allowed"]))


def escape(text: str) -> str:
    r"""Return a text with every invisible character as Python's escape: `\u200b`.

    >>> print(escape("add\u202e numbers"))
    add\u202e numbers
    """
    if _ANY_INVISIBLE.search(text) is None:
        return text
    return _ALLOWED_OR_INVISIBLE.sub(lambda match: match[0] if match["allowed"] else _escape_character(match[0]), text)


def escape_line(text: str) -> str:
    """Return a text with its invisible characters, line feeds and tabs escaped."""
    return escape(text.replace("\n", "\\n").replace("\t", "\\t"))  # first: `\r` is allowed before a line feed


def without(text: str) -> str:
    """Return a text without invisible characters, also without those that `find` allows."""
    return _ANY_INVISIBLE.sub("", text)


def find_in_name(name: str) -> list[str]:
    """Return what a name must not contain: invisible characters, line feeds, tabs, and spaces other than U+0020."""
    return [_escape_character(character) for character in sorted(set(_FORBIDDEN_IN_NAME.findall(name)))]


def _escape_character(character: str) -> str:
    return character.encode("unicode_escape").decode()
