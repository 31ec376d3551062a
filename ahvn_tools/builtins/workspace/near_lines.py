"""What a model could have meant by lines that are not in a file: the nearest ones, and how they differ."""

from __future__ import annotations

import difflib
from collections import Counter
from typing import Final

from ahvn_tools.builtins.workspace.lines import find_lines
from ahvn_tools.builtins.workspace.numbered_lines import numbered_block

_MAX_CHARS: Final = 1_500
"""How much of the file a message shows."""
_MAX_COMPARED_LINES: Final = 3_000
_MAX_COMPARED_CHARS: Final = 300
_MIN_SIMILARITY: Final = 0.6
_READ_AGAIN: Final = "Read the file again, and copy whole lines from it."


def describe_near_lines(search: list[str], texts: list[str]) -> str:
    """Return sentences with the lines of the file that are most similar, their numbers, and the first difference."""
    place = _place_but_for_spaces(search, texts)
    if place is not None:
        return f"{_spaces_differ(search, texts, place)}\n{_shown(texts, place, len(search))}"
    place = _place_inside_lines(search, texts)
    if place is not None:
        return f"SEARCH must have whole lines, and line {place + 1} has more text:\n{_shown(texts, place, 1)}"
    place = _most_similar_place(search, texts)
    if place is None:
        return f"No lines of the file are similar. {_READ_AGAIN}"
    first = next((i for i, line in enumerate(search) if line != _line(texts, place + i)), 0)
    found = _line(texts, place + first)
    difference = f"line {place + first + 1} is {found!r}" if found is not None else "the file ends before"
    nearest = f"The most similar lines are these. The first difference: {difference}, and SEARCH has {search[first]!r}."
    return f"{_cut(nearest)}\n{_shown(texts, place, len(search))}"


def _place_but_for_spaces(search: list[str], texts: list[str]) -> int | None:
    wanted = [_without_spaces(line) for line in search]
    stripped = [_without_spaces(text) for text in texts]
    return next(iter(find_lines(stripped, wanted, max_places=1)), None)


def _without_spaces(line: str) -> str:
    return " ".join(line.split())


def _spaces_differ(search: list[str], texts: list[str], place: int) -> str:
    index = next(i for i, line in enumerate(search) if line != texts[place + i])
    wanted, found = search[index], texts[place + index]
    if wanted.strip() != found.strip():
        kind = "the spaces inside of the line"
    elif wanted.rstrip() == found.rstrip():
        kind = f"the end of the line: it ends with {_end(found)}, and SEARCH with {_end(wanted)}"
    else:
        kind = f"the indentation: it begins with {_indentation(found)}, and SEARCH with {_indentation(wanted)}"
    lines = f"Lines {place + 1} to {place + len(search)} differ" if len(search) > 1 else f"Line {place + 1} differs"
    return f"{lines} in spaces only. The first difference, in line {place + index + 1}, is {kind}."


def _indentation(line: str) -> str:
    return _described(line[: len(line) - len(line.lstrip())])


def _end(line: str) -> str:
    return _described(line[len(line.rstrip()) :])


def _described(blank: str) -> str:
    """Return blank characters in words: `2 tabs and 1 space`."""
    counts = Counter("space" if c == " " else "tab" if c == "\t" else "other blank" for c in blank)
    return " and ".join(f"{n} {name}{'s' if n > 1 else ''}" for name, n in counts.items()) or "no space"


def _place_inside_lines(search: list[str], texts: list[str]) -> int | None:
    if len(search) > 1 or not search[0].strip():
        return None
    return next((i for i, text in enumerate(texts) if search[0].strip() in text), None)


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
