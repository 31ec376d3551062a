"""Written: the JSON objects that a model writes into its text, whole, with mistakes, or cut off.

Valid JSON is taken as it is. A library repairs the rest. It is shown no text that stands in quotes, so what a text says
is never taken for structure; and what it makes is believed only when nothing but punctuation and comments differs from
what the model wrote: no value is guessed, lost or ended in the model's place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ahvn_tools.definition import JsonObject
from ahvn_tools.formats.content import whole

MOST_BROKEN = 10
"""So many objects of one text are repaired; what comes after them is passed over."""

MOST_WORK = 2_000_000
"""Characters times quotes and brackets that are repaired of one text: the library's time grows with both."""

_HEAD = 500
"""Characters that tell what an object was to be that is not repaired."""

_START = re.compile(r"<(think|thinking|thought|reasoning)>|\{", re.IGNORECASE)
_END_OF_THOUGHTS = re.compile(r"</(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_VALID = re.compile(r"""\{\s*(?:\}|"(?:[^"\\]|\\.)*"\s*:)""", re.DOTALL)
_MEMBER = re.compile(
    r"\{(?:\s|//[^\n]{0,200}\n|\#[^\n]{0,200}\n|/\*.{0,200}?\*/){0,200}"  # comments may come first
    r"""(?:["“”][^"“”\n]{1,100}["“”]|'[^'\n]{1,100}'|[\w-]{1,100})\s{0,200}:""",
    re.DOTALL,
)
_MARK = re.compile(r"""["'“”{}]|//|/\*|\#|```|</""")
_COMMENTS = {"//": "\n", "#": "\n", "/*": "*/"}
_QUOTES = {quote: re.compile(rf"\\|[{ends}]") for quote, ends in {'"': '"', "'": "'", "“": '“”"', "”": '“”"'}.items()}
_JOINED = re.compile(r"""["']\s*\+\s*["']""")
_HELD = "\ue000"
"""Stands around the number of a text that is held back; it is in private use."""
_PLACE = re.compile(rf'"{_HELD}(\d+){_HELD}"')
_WORD = re.compile(rf'"(?:{_HELD}\d+{_HELD}|[^\W\d][\w./:-]*)"')
"""A text that was held back, or a bare word."""
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_TOKEN = re.compile(r"""[^\W\d]\w*|(-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|[^\s"'“”,:;]""")
"""What a repair must leave as it is: words, numbers (the group), all signs but quotes and separators."""
_PYTHON = {"True": "true", "False": "false", "None": "null", "(": "[", ")": "]"}
_PYTHONS = re.compile(r"\b(?:True|False|None)\b|[()]")


@dataclass(frozen=True, kw_only=True)
class Found:
    """One object that stands in a text."""

    value: JsonObject
    is_cut: bool = False
    """Whether its end is missing: the value is what there is of it."""
    is_broken: bool = False
    """Whether it cannot be read: the value is a guess at it."""


def found(text: str, is_opened: Callable[[JsonObject], bool]) -> Iterator[Found]:
    """Yield the objects in a text, in their order and outside of a model's thoughts.

    Objects inside of an object are part of it. Of one that is cut off or broken, they are yielded alone where
    `is_opened` says so of what there is.
    """
    broken, work = 0, MOST_WORK
    position = _after_thoughts(text)
    while (start := _START.search(text, position)) and broken < MOST_BROKEN:
        if start[1]:
            end = _END_OF_THOUGHTS.search(text, start.end())
            position = end.end() if end else len(text)
        elif valid := _valid(text, start.start()):
            value, position = valid
            yield Found(value=value)
        elif not _MEMBER.match(text, start.start()):
            position = start.end()  # a brace in prose
        else:
            written = _written(text, start.start())
            broken, work = broken + 1, work - written.work
            read = written.read(is_repaired=work >= 0)
            yield read
            is_inside = (read.is_cut or read.is_broken) and is_opened(read.value)
            position = start.end() if is_inside else written.end


def _after_thoughts(text: str) -> int:
    """Return where the thoughts end that began before the text did: some hosts open them in the prompt."""
    end = _END_OF_THOUGHTS.search(text)
    if end is None or any(start[1] for start in _START.finditer(text, 0, end.start())):
        return 0
    return end.end()


def _valid(text: str, start: int) -> tuple[JsonObject, int] | None:
    if not _VALID.match(text, start):
        return None
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return value, end


@dataclass(frozen=True, kw_only=True)
class _Written:
    """An object that is no valid JSON, as far as it goes."""

    frame: str
    """The object without comments, and with numbers in the place of texts."""
    texts: list[str]
    end: int
    depth: int
    """How many braces, and quotes, are open at the end; 0: it is whole."""

    @property
    def work(self) -> int:
        """What a repair costs."""
        return len(self.frame) * sum(map(self.frame.count, '"{[('))

    def read(self, *, is_repaired: bool) -> Found:
        """Return the object; what there is of it when it cannot be read."""
        frame, is_cut = _PYTHONS.sub(lambda sign: _PYTHON[sign[0]], self.frame), self.depth > 0
        if self.depth == 1 and frame.rstrip(", \t\r\n").endswith("}"):
            frame, is_cut = f"{frame}}}", False  # every member is whole, so nothing is missing but the last brace
        value = self._believed(frame) if is_repaired and not is_cut else None
        if value is not None:
            return Found(value=value)
        guess = self._filled(json.dumps(_repaired(frame[:_HEAD], strict=False), ensure_ascii=False))
        return Found(value=guess, is_cut=is_cut, is_broken=not is_cut)

    def _believed(self, frame: str) -> JsonObject | None:
        """Return the object that the frame is but for its punctuation; None when the library had to guess."""
        if any(map(_JOINED.search, self.texts)):
            return None  # `"a" + "b"` is no text with quotes in it
        made = json.dumps(_repaired(frame, strict=True), ensure_ascii=False)
        is_sure = made != "{}" and '"' not in _WORD.sub("", made) and _tokens(made) == _tokens(frame)
        return self._filled(made) if is_sure else None

    def _filled(self, made: str) -> JsonObject:
        """Return an object with the texts in their places."""
        value: JsonObject = json.loads(_PLACE.sub(lambda place: json.dumps(self.texts[int(place[1])]), made))
        return value


def _written(text: str, start: int) -> _Written:
    """Read an object up to its last brace, or to where its code block, its tag or the text ends."""
    kept: list[str] = []
    texts: list[str] = []
    depth, begin, position = 0, start, start
    while mark := _MARK.search(text, position):
        sign, at, position = mark[0], mark.start(), mark.end()
        if sign in _QUOTES and (sign != "'" or _before(text, at) in "{[(,:"):
            end = _end_of_text(text, position, sign)
            kept += [text[begin:at], f'"{_HELD}{len(texts)}{_HELD}"' if end else ""]
            texts.append(_unescaped(text[position : end or None]))
            begin = position = end + 1 if end else len(text)
            depth += not end
        elif sign in _COMMENTS and text[at - 1] in " \t\n{[,}]\"'":
            kept.append(text[begin:at])
            begin = position = _end_of_comment(text, sign, position)
        elif sign in ("```", "</"):
            position = at
            break
        else:
            depth += {"{": 1, "}": -1}.get(sign, 0)
            if not depth:
                break
    else:
        position = len(text)
    return _Written(frame="".join([*kept, text[begin:position]]), texts=texts, end=position, depth=depth)


def _end_of_text(text: str, position: int, quote: str) -> int:
    """Return where the closing quote of a text is; 0 when there is none. One that no punctuation follows is inside."""
    while mark := _QUOTES[quote].search(text, position):
        position = mark.end()
        if mark[0] == "\\":
            position += 1
        elif _after(text, position) in ',:;}])/#"“”':
            return mark.start()
    return 0


def _after(text: str, position: int) -> str:
    """Return the next character that is no space; none at the end."""
    while position < len(text) and text[position].isspace():
        position += 1
    return text[position : position + 1]


def _before(text: str, position: int) -> str:
    while text[position - 1].isspace():  # a brace stands before
        position -= 1
    return text[position - 1]


def _end_of_comment(text: str, sign: str, position: int) -> int:
    end = text.find(_COMMENTS[sign], position)
    if end < 0:
        return len(text)
    return end + 2 if sign == "/*" else end


def _unescaped(text: str) -> str:
    """Return what a text in quotes says; an escape that JSON does not know is taken as it stands."""
    return whole(_ESCAPE.sub(_sign, text))


def _sign(escape: re.Match[str]) -> str:
    sign = escape[1]
    return chr(int(sign[1:], 16)) if len(sign) > 1 else _ESCAPED.get(sign, escape[0])


def _repaired(text: str, *, strict: bool) -> JsonObject:
    """Return the object that the library sees in a text; an empty one where it sees none."""
    import json_repair

    try:
        value = json_repair.repair_json(text, return_objects=True, skip_json_loads=True, strict=strict)
        json.dumps(value)
    except Exception:  # noqa: BLE001  # whatever the library stumbles over, the text is one that cannot be read
        return {}
    return value if isinstance(value, dict) else {}


def _tokens(text: str) -> list[str | float]:
    """Return what a repair must leave as it is: words, numbers, brackets and all signs but quotes and separators."""
    return [float(token[1]) if token[1] else token[0] for token in _TOKEN.finditer(text)]
