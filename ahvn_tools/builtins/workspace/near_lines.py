"""What a model could have meant by lines that are not in a file: the nearest ones, and how they differ."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import Final

from ahvn_tools.builtins.workspace.lines import find_lines, numbered_block

_MAX_CHARS: Final = 1_500
"""How much of the file a message shows."""
_MAX_COMPARED_LINES: Final = 3_000
_MAX_COMPARED_CHARS: Final = 300
_MIN_SIMILARITY: Final = 0.6
_HIDDEN: Final = re.compile("[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]")
_BLANKS: Final = {" ": "space", "\t": "tab"}
_READ_AGAIN: Final = "Read the file again, and copy whole lines from it."


def describe_near_lines(search: list[str], texts: list[str]) -> str:
    """Return sentences with the lines of the file that are most similar, their numbers, and the first difference."""
    place = _place_that_looks_the_same(search, texts)
    if place is not None:
        return f"{_differs(search, texts, place)}\n{_shown(texts, place, len(search))}"
    place = _place_inside_lines(search, texts)
    if place is not None:
        return f"SEARCH must have whole lines, and line {place + 1} has more text:\n{_shown(texts, place, 1)}"
    place = _most_similar_place(search, texts)
    if place is None:
        return f"No lines of the file are similar. {_READ_AGAIN}"
    first = next((i for i, line in enumerate(search) if not _look_the_same(line, _line(texts, place + i))), 0)
    found = _line(texts, place + first)
    difference = f"line {place + first + 1} is {found!r}" if found is not None else "the file ends before"
    nearest = f"The most similar lines are these. The first difference: {difference}, and SEARCH has {search[first]!r}."
    return f"{_cut(nearest)}\n{_shown(texts, place, len(search))}"


def describe_near_keyword(keyword: str, lines: Iterable[str]) -> str:
    """Return a sentence about the first line that has a text which looks like the keyword; none if no line has."""
    looks_like = _pattern(keyword)
    for number, line in enumerate(lines, 1):
        if (found := looks_like.search(line)) and found[0] != keyword:
            difference = _difference(found[0], keyword, "the keyword")
            return (
                f"Line {number} has it with other blanks, invisible characters or another Unicode form: {difference}."
            )
    return ""


def describe_near_name(name: str, names: Iterable[str]) -> str | None:
    """Return a sentence about the first name that looks the same; None if none does."""
    for other in names:
        if other != name and _look_the_same(other, name):
            return f"{other!r} looks the same, but {_difference(other, name, 'the path', 'its name')}."
    return None


def _place_that_looks_the_same(search: list[str], texts: list[str]) -> int | None:
    places = find_lines([_visible(text) for text in texts], [_visible(line) for line in search], max_places=1)
    return next(iter(places), None)


def _look_the_same(line: str, other: str | None) -> bool:
    """Return whether a person sees no difference; one in ASCII blanks is seen in the message."""
    if other is None or (line + other).isascii():
        return line == other
    return _visible(line) == _visible(other)


def _visible(line: str) -> str:
    """Return a line in one Unicode form, with one space for blanks, and without invisible characters."""
    if not line.isascii():
        line = _HIDDEN.sub("", unicodedata.normalize("NFC", line))
    return " ".join(line.split())


def _pattern(text: str) -> re.Pattern[str]:
    """Return what matches texts that look so."""
    words = (f"{_HIDDEN.pattern}*".join(map(_in_both_forms, word)) for word in _visible(text).split(" "))
    return re.compile(rf"(?:\s|{_HIDDEN.pattern})+".join(words) or "(?!)")


def _in_both_forms(character: str) -> str:
    forms = {re.escape(unicodedata.normalize(form, character)) for form in ("NFC", "NFD")}
    return f"(?:{'|'.join(forms)})" if len(forms) > 1 else forms.pop()


def _differs(search: list[str], texts: list[str], place: int) -> str:
    index = next(i for i, line in enumerate(search) if line != texts[place + i])
    wanted, found = search[index], texts[place + index]
    what = "spaces only"
    if wanted.strip() != found.strip():
        kind = "the spaces inside of the line"
        if not (wanted + found).isascii():
            what, kind = "blanks, invisible characters or the Unicode form only", _difference(found, wanted, "SEARCH")
    elif wanted.rstrip() == found.rstrip():
        kind = f"the end of the line: it ends with {_end(found)}, and SEARCH with {_end(wanted)}"
    else:
        kind = f"the indentation: it begins with {_indentation(found)}, and SEARCH with {_indentation(wanted)}"
    lines = f"Lines {place + 1} to {place + len(search)} differ" if len(search) > 1 else f"Line {place + 1} differs"
    return f"{lines} in {what}. The first difference, in line {place + index + 1}, is {kind}."


def _difference(found: str, wanted: str, name: str, place: str = "the file") -> str:
    """Return the first difference between two texts that look the same, in words."""
    pairs = enumerate(zip(found, wanted, strict=False))
    first = next((i for i, (here, there) in pairs if here != there), min(len(found), len(wanted)))
    if unicodedata.normalize("NFC", found) == unicodedata.normalize("NFC", wanted):
        return f"character {first + 1} has the Unicode form {_form(found)} in {place}, and {_form(wanted)} in {name}"
    here, there = found[first : first + 1], wanted[first : first + 1]
    return f"character {first + 1} is {_named(here)} in {place}, and {_named(there)} in {name}"


def _form(text: str) -> str:
    return next((form for form in ("NFC", "NFD") if unicodedata.is_normalized(form, text)), "of both")


def _named(character: str) -> str:
    """Return a character, or none, in words."""
    if not character:
        return "missing"
    if character in _BLANKS:
        return f"a {_BLANKS[character]}"
    if character.isascii() and character.isprintable():
        return repr(character)
    return f"U+{ord(character):04X} ({unicodedata.name(character, 'a control character')})"


def _indentation(line: str) -> str:
    return _described(line[: len(line) - len(line.lstrip())])


def _end(line: str) -> str:
    return _described(line[len(line.rstrip()) :])


def _described(blank: str) -> str:
    """Return blank characters in words: `2 tabs and 1 space`."""
    counts = Counter(blank)
    named = (
        f"{n} {_BLANKS[c]}{'s' if n > 1 else ''}" if c in _BLANKS else f"{n} {_named(c)}" for c, n in counts.items()
    )
    return " and ".join(named) or "no space"


def _place_inside_lines(search: list[str], texts: list[str]) -> int | None:
    if len(search) > 1 or not (wanted := _visible(search[0])):
        return None
    return next((i for i, text in enumerate(texts) if wanted in _visible(text)), None)


def _most_similar_place(search: list[str], texts: list[str]) -> int | None:
    """Return where most lines are the same; else where one line is similar to the first that is not blank."""
    wanted = {line.strip(): i for i, line in reversed(list(enumerate(search))) if line.strip()}
    votes = Counter(max(i - wanted[text.strip()], 0) for i, text in enumerate(texts) if text.strip() in wanted)
    if votes:
        return min(votes, key=lambda place: (-votes[place], place))
    for index, line in enumerate(search):
        if line.strip():
            near = _similar_line(line.strip(), texts[:_MAX_COMPARED_LINES])
            return None if near is None else max(near - index, 0)
    return None


def _similar_line(line: str, texts: list[str]) -> int | None:
    compared = {text.strip()[:_MAX_COMPARED_CHARS]: i for i, text in reversed(list(enumerate(texts)))}
    close = difflib.get_close_matches(line[:_MAX_COMPARED_CHARS], compared, 1, _MIN_SIMILARITY)
    return compared[close[0]] if close else None


def _line(texts: list[str], index: int) -> str | None:
    return texts[index] if index < len(texts) else None


def _shown(texts: list[str], place: int, count: int) -> str:
    return numbered_block(texts, place, min(place + max(count, 1), len(texts)), max_chars=_MAX_CHARS)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}..."
