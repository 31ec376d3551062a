"""Written: the JSON objects that a model writes into its text, whole, with mistakes, or cut off.

Valid JSON is taken as it is. A library repairs the rest. It is shown no text that stands in quotes, so what a text says
is never taken for structure; and what it makes is believed only when nothing but punctuation and comments differs from
what the model wrote: no value is guessed, lost or ended in the model's place.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from operator import itemgetter

from ahvn_tools.definition import JsonObject
from ahvn_tools.formats.rendering.content import replace_surrogates

MAX_REPAIRS = 10
"""So many objects of one text are repaired; what comes after them is passed over."""

MAX_REPAIR_COST = 2_000_000
"""Characters times quotes and brackets that are repaired of one text: the library's time grows with both."""

_MAX_PREVIEW_CHARS = 500
"""Characters that tell what an object was to be that is not repaired."""

_START = re.compile(r"<(think|thinking|thought|reasoning)>|\{", re.IGNORECASE)
_END_OF_THOUGHTS = re.compile(r"</(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_VALID_START = re.compile(r"""\{\s*(?:\}|"(?:[^"\\]|\\.)*"\s*:)""", re.DOTALL)
_OBJECT_START = re.compile(
    r"\{(?:\s|//[^\n]{0,200}\n|\#[^\n]{0,200}\n|/\*.{0,200}?\*/){0,200}"  # comments may come first
    r"""(?:["“”][^"“”\n]{1,100}["“”]|'[^'\n]{1,100}'|[\w-]{1,100})\s{0,200}:""",
    re.DOTALL,
)
_CONTINUATION = re.compile(r"""\s*(?:\}|,?\s*["'“][\w-]{1,100}["'”]\s*:)""")
"""What follows on an object that has ended too early: another member, or the brace that was to be its last."""
_DELIMITER = re.compile(r"""["'“”{}]|//|/\*|\#|```|</""")
_COMMENT_ENDS = {"//": "\n", "#": "\n", "/*": "*/"}
_CLOSING_QUOTES = {
    quote: re.compile(rf"\\|[{ends}]") for quote, ends in {'"': '"', "'": "'", "“": '“”"', "”": '“”"'}.items()
}
_CONCATENATIONS = dict.fromkeys('"“”', re.compile(r'["“”]\s*\+\s*["“”]')) | {"'": re.compile(r"'\s*\+?\s*'")}
_PLACEHOLDER_MARK = "\ue000"
"""Stands around the number of a text that is held back; it is in private use."""
_PLACEHOLDER = re.compile(rf'"{_PLACEHOLDER_MARK}(\d+){_PLACEHOLDER_MARK}"')
_MEMBER_NAME = re.compile(rf"{_PLACEHOLDER.pattern}\s*:")
_MISSING_ITEM = re.compile(r"[\[{,]\s*,")
_PLACEHOLDER_OR_WORD = re.compile(rf'"(?:{_PLACEHOLDER_MARK}\d+{_PLACEHOLDER_MARK}|[^\W\d][\w./:-]*)"')
"""A text that was held back, or a bare word."""
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED_CHARACTERS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_TOKEN = re.compile(r"""[^\W\d]\w*|(-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|[^\s"'“”,;]""")
"""What a repair must leave as it is: words, numbers (the group), all signs but quotes and separators."""
_JSON_EQUIVALENTS = {
    **dict.fromkeys(("True", "TRUE"), "true"),
    **dict.fromkeys(("False", "FALSE"), "false"),
    **dict.fromkeys(("None", "Null", "NULL", "nil", "undefined"), "null"),
    "(": "[",
    ")": "]",
}
"""JSON's words and brackets for those of Python and of other languages."""
_NON_JSON_LITERAL = re.compile(r"(?<![\w./-])(?:True|TRUE|False|FALSE|None|Null|NULL|nil|undefined)(?![\w./:-])|[()]")


@dataclass(frozen=True, kw_only=True)
class ParsedObject:
    """One object that stands in a text."""

    value: JsonObject
    is_exact: bool = True
    """Whether every member of the value is what was written; else it is a guess at what there is."""
    is_truncated: bool = False
    """Whether its last brace is missing or came too early: not all that was meant need be here."""


def iter_json_objects(text: str, is_wrapper: Callable[[JsonObject], bool]) -> Iterator[ParsedObject]:
    """Yield the objects in a text, in their order and outside of a model's thoughts.

    Objects inside of an object are part of it. Of one that cannot be read, they are yielded alone where `is_opened`
    says so of what there is.
    """
    broken, work = 0, MAX_REPAIR_COST
    position = _end_of_leading_thoughts(text)
    hidden: list[tuple[int, int]] = []  # texts of an opened object: what they say is no structure there, either
    while (start := _START.search(text, position)) and broken < MAX_REPAIRS:
        if end_of_hidden := _end_of_span(hidden, start.start()):
            position = end_of_hidden
        elif start[1]:
            end = _END_OF_THOUGHTS.search(text, start.end())
            position = end.end() if end else len(text)
        elif valid := _decode_valid(text, start.start()):
            value, position = valid
            yield ParsedObject(value=value, is_truncated=_CONTINUATION.match(text, position) is not None)
        elif not _OBJECT_START.match(text, start.start()):
            position = start.end()  # a brace in prose
        else:
            written = _scan_object(text, start.start())
            broken, work = broken + 1, work - written.repair_cost
            read, position = written.parse(is_repairable=work >= 0), written.end
            yield replace(read, is_truncated=True) if _CONTINUATION.match(text, position) else read
            if not read.is_exact and is_wrapper(read.value):
                hidden, position = written.opaque_spans, start.end()


def _end_of_span(spans: list[tuple[int, int]], position: int) -> int:
    """Return where the one of these spans ends that a position is in; 0 for none. Spans are in their order."""
    place = bisect.bisect_right(spans, position, key=itemgetter(0))
    return spans[place - 1][1] if place and position < spans[place - 1][1] else 0


def _end_of_leading_thoughts(text: str) -> int:
    """Return where the thoughts end that began before the text did: some hosts open them in the prompt.

    An end that stands in an object is a part of what the object says.
    """
    position, end = 0, _END_OF_THOUGHTS.search(text)
    while end:
        start = _START.search(text, position, end.start())
        if start is None:
            return end.end()
        if start[1]:
            return 0
        position = _end_of_object(text, start.start())
        if position > end.start():
            end = _END_OF_THOUGHTS.search(text, position)
    return 0


def _end_of_object(text: str, start: int) -> int:
    """Return where the object ends that begins at a brace; for a brace in prose, what follows it."""
    if valid := _decode_valid(text, start):
        return valid[1]
    return _scan_object(text, start).end if _OBJECT_START.match(text, start) else start + 1


def _decode_valid(text: str, start: int) -> tuple[JsonObject, int] | None:
    if not _VALID_START.match(text, start):
        return None
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return value, end


@dataclass(frozen=True, kw_only=True)
class _InvalidObject:
    """An object that is no valid JSON, as far as it goes."""

    masked_text: str
    """The object without comments, and with numbers in the place of texts."""
    strings: list[str]
    """The texts as they were written, from the opening quote on."""
    end: int
    depth: int
    """How many braces, and quotes, are open at the end; 0: it is whole."""
    opaque_spans: list[tuple[int, int]]
    """Where its texts and comments stand."""

    @property
    def repair_cost(self) -> int:
        """What a repair costs."""
        return len(self.masked_text) * sum(map(self.masked_text.count, '"{[('))

    def parse(self, *, is_repairable: bool) -> ParsedObject:
        """Return the object; what there is of it when it cannot be read."""
        frame, is_cut = _NON_JSON_LITERAL.sub(lambda sign: _JSON_EQUIVALENTS[sign[0]], self.masked_text), self.depth > 0
        if self.depth == 1 and frame.rstrip(", \t\r\n").endswith("}"):
            frame, is_cut = f"{frame}}}", False  # every member is whole, so nothing is missing but the last brace
        value = self._repair(frame) if is_repairable and not is_cut else None
        if value is not None:
            return ParsedObject(value=value, is_truncated=self.depth > 0)
        guess = self._restore_strings(
            json.dumps(_repair_json(frame[:_MAX_PREVIEW_CHARS], strict=False), ensure_ascii=False)
        )
        return ParsedObject(value=guess, is_exact=False, is_truncated=is_cut)

    def _repair(self, masked_text: str) -> JsonObject | None:
        """Return the object that the frame is but for its punctuation; None when the library had to guess."""
        names = [self.strings[int(name[1])] for name in _MEMBER_NAME.finditer(masked_text)]
        if (
            _MISSING_ITEM.search(masked_text)
            or any(map(_is_concatenation, self.strings))
            or any(map(_has_inner_quotes, names))
        ):
            return None
        made = json.dumps(_repair_json(masked_text, strict=True), ensure_ascii=False)
        is_sure = (
            made != "{}" and '"' not in _PLACEHOLDER_OR_WORD.sub("", made) and _tokenize(made) == _tokenize(masked_text)
        )
        return self._restore_strings(made) if is_sure else None

    def _restore_strings(self, masked_json: str) -> JsonObject:
        """Return an object with the texts in their places."""
        value: JsonObject = json.loads(
            _PLACEHOLDER.sub(lambda place: json.dumps(_unescape(self.strings[int(place[1])][1:])), masked_json)
        )
        return value


def _scan_object(text: str, start: int) -> _InvalidObject:
    """Read an object up to its last brace, or to where its code block, its tag or the text ends."""
    kept: list[str] = []
    texts: list[str] = []
    hidden: list[tuple[int, int]] = []
    depth, begin, position = 0, start, start
    while mark := _DELIMITER.search(text, position):
        sign, at, position = mark[0], mark.start(), mark.end()
        if sign in _CLOSING_QUOTES and (sign != "'" or _previous_character(text, at) in "{[(,:"):
            end = _end_of_string(text, position, sign)
            kept += [text[begin:at], f'"{_PLACEHOLDER_MARK}{len(texts)}{_PLACEHOLDER_MARK}"' if end else ""]
            texts.append(text[at : end or None])
            begin = position = end + 1 if end else len(text)
            hidden.append((at, position))
            depth += not end
        elif sign in _COMMENT_ENDS and text[at - 1] in " \t\n{[,}]\"'":
            kept.append(text[begin:at])
            begin = position = _end_of_comment(text, sign, position)
            hidden.append((at, position))
        elif sign in ("```", "</"):
            position = at
            break
        else:
            depth += {"{": 1, "}": -1}.get(sign, 0)
            if not depth:
                break
    else:
        position = len(text)
    return _InvalidObject(
        masked_text="".join([*kept, text[begin:position]]),
        strings=texts,
        end=position,
        depth=depth,
        opaque_spans=hidden,
    )


def _end_of_string(text: str, position: int, quote: str) -> int:
    """Return where the closing quote of a text is; 0 when there is none. One that no punctuation follows is inside."""
    while mark := _CLOSING_QUOTES[quote].search(text, position):
        position = mark.end()
        if mark[0] == "\\":
            position += 1
        elif _next_character(text, position) in ',:;}])/#"“”':
            return mark.start()
    return 0


def _next_character(text: str, position: int) -> str:
    """Return the next character that is no space; none at the end."""
    while position < len(text) and text[position].isspace():
        position += 1
    return text[position : position + 1]


def _previous_character(text: str, position: int) -> str:
    while text[position - 1].isspace():  # a brace stands before
        position -= 1
    return text[position - 1]


def _end_of_comment(text: str, sign: str, position: int) -> int:
    end = text.find(_COMMENT_ENDS[sign], position)
    if end < 0:
        return len(text)
    return end + 2 if sign == "/*" else end


def _is_concatenation(text: str) -> bool:
    """Tell whether a text in quotes is several, as in `"a" + "b"`; it is taken for none with quotes in it."""
    return _CONCATENATIONS[text[0]].search(_ESCAPE.sub("_", text), 1) is not None


def _has_inner_quotes(text: str) -> bool:
    """Tell whether quotes of its kind stand in a text: a name has none but where the end of one before it is lost."""
    return len(_CLOSING_QUOTES[text[0]].findall(_ESCAPE.sub("_", text))) > 1


def _unescape(text: str) -> str:
    """Return what a text in quotes says; an escape that JSON does not know is taken as it stands."""
    return replace_surrogates(_ESCAPE.sub(_decode_escape, text))


def _decode_escape(escape: re.Match[str]) -> str:
    sign = escape[1]
    return chr(int(sign[1:], 16)) if len(sign) > 1 else _ESCAPED_CHARACTERS.get(sign, escape[0])


def _repair_json(text: str, *, strict: bool) -> JsonObject:
    """Return the object that the library sees in a text; an empty one where it sees none."""
    import json_repair

    try:
        value = json_repair.repair_json(text, return_objects=True, skip_json_loads=True, strict=strict)
        json.dumps(value)
    except Exception:  # noqa: BLE001  # whatever the library stumbles over, the text is one that cannot be read
        return {}
    return value if isinstance(value, dict) else {}


def _tokenize(text: str) -> list[str | float]:
    """Return what a repair must leave as it is: words, numbers, brackets and all signs but quotes and separators."""
    return [float(token[1]) if token[1] else token[0] for token in _TOKEN.finditer(text)]
