"""Repair of JSON objects that a model wrote with mistakes, or did not finish.

The library json_repair repairs an object whose strings are replaced by placeholders, so the text of a string is never
mistaken for structure. Its result is accepted only if it differs from the original in nothing but punctuation and
comments: no value is guessed, lost or completed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from ahvn_tools.formats.json_data import replace_surrogates
from ahvn_tools.json_types import JsonObject

_MAX_PREVIEW_CHARS = 500
"""The length of the start of an unreadable object that is read to recognize a call."""

_DELIMITER = re.compile(r"""["'“”{}]|//|/\*|\#|```|</""")
_COMMENT_ENDS = {"//": re.compile(r"(?=\n)"), "#": re.compile(r"(?=\n)"), "/*": re.compile(r"\*/")}
_CLOSING_QUOTES = {'"': '"', "'": "'", "“": '“”"', "”": '“”"'}
_STRING_ENDS = {
    quote: re.compile(rf"""\\.|([{ends}])(?=\s*(?:[,:;}}\])/#"“”]|\Z))""", re.DOTALL)
    for quote, ends in _CLOSING_QUOTES.items()
}
"""Escapes, and (the group) the end of a string: a quote without punctuation after it is part of the string."""
_CONCATENATIONS = dict.fromkeys('"“”', re.compile(r'["“”]\s*\+\s*["“”]')) | {"'": re.compile(r"'\s*\+?\s*'")}
_PLACEHOLDER_MARK = "\ue000"
"""Surrounds the number of a string in its placeholder; a character for private use."""
_PLACEHOLDER = re.compile(rf'"{_PLACEHOLDER_MARK}(\d+){_PLACEHOLDER_MARK}"')
_MEMBER_NAME = re.compile(rf"{_PLACEHOLDER.pattern}\s*:")
_MISSING_ITEM = re.compile(r"[\[{,]\s*,")
_PLACEHOLDER_OR_WORD = re.compile(rf'"(?:{_PLACEHOLDER_MARK}\d+{_PLACEHOLDER_MARK}|[^\W\d][\w./:-]*)"')
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED_CHARACTERS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_TOKEN = re.compile(r"""[^\W\d]\w*|(-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|[^\s"'“”,;]""")
"""The tokens that a repair must preserve: words, numbers (the group), all signs but quotes and separators."""
_JSON_EQUIVALENTS = {
    **dict.fromkeys(("True", "TRUE"), "true"),
    **dict.fromkeys(("False", "FALSE"), "false"),
    **dict.fromkeys(("None", "Null", "NULL", "nil", "undefined"), "null"),
    "(": "[",
    ")": "]",
}
"""JSON's words and brackets for those of Python and other languages."""
_NON_JSON_LITERAL = re.compile(r"(?<![\w./-])(?:True|TRUE|False|FALSE|None|Null|NULL|nil|undefined)(?![\w./:-])|[()]")


@dataclass(frozen=True, kw_only=True)
class ParsedObject:
    """One object from a text."""

    value: JsonObject
    is_exact: bool = True
    """Whether the value contains exactly what was written; otherwise it is an estimate."""
    is_truncated: bool = False
    """Whether its last brace is missing or came too early, so that members may be missing."""


@dataclass(frozen=True, kw_only=True)
class BrokenObject:
    """An object that is not valid JSON, up to its end or the end of the text."""

    masked_text: str
    """The object without comments, and with placeholders for its strings."""
    strings: list[str]
    """The strings as written, including the opening quote."""
    end: int
    depth: int
    """How many braces and quotes are open at the end; 0 for a complete object."""
    opaque_spans: list[tuple[int, int]]
    """The positions of its strings and comments."""

    @property
    def repair_cost(self) -> int:
        """The cost of a repair, in characters times quotes and brackets."""
        return len(self.masked_text) * sum(map(self.masked_text.count, '"{[('))

    def parse(self, *, is_repairable: bool) -> ParsedObject:
        """Return the repaired object, or an estimate of its first part if it cannot be repaired."""
        text = _NON_JSON_LITERAL.sub(lambda literal: _JSON_EQUIVALENTS[literal[0]], self.masked_text)
        is_truncated = self.depth > 0
        if self.depth == 1 and text.rstrip(", \t\r\n").endswith("}"):
            text, is_truncated = f"{text}}}", False  # every member is complete, so only the last brace is missing
        value = self._repair(text) if is_repairable and not is_truncated else None
        if value is not None:
            return ParsedObject(value=value, is_truncated=self.depth > 0)
        preview = json.dumps(_repair_json(text[:_MAX_PREVIEW_CHARS], strict=False), ensure_ascii=False)
        return ParsedObject(value=self._restore_strings(preview), is_exact=False, is_truncated=is_truncated)

    def _repair(self, masked_text: str) -> JsonObject | None:
        """Return the object with repaired punctuation; None if the library had to guess."""
        names = [self.strings[int(name[1])] for name in _MEMBER_NAME.finditer(masked_text)]
        if (
            _MISSING_ITEM.search(masked_text)
            or any(map(_is_concatenation, self.strings))
            or any(map(_has_inner_quotes, names))
        ):
            return None
        repaired = json.dumps(_repair_json(masked_text, strict=True), ensure_ascii=False)
        has_new_text = '"' in _PLACEHOLDER_OR_WORD.sub("", repaired)
        if repaired == "{}" or has_new_text or _tokenize(repaired) != _tokenize(masked_text):
            return None
        return self._restore_strings(repaired)

    def _restore_strings(self, masked_json: str) -> JsonObject:
        value: JsonObject = json.loads(
            _PLACEHOLDER.sub(lambda match: json.dumps(_unescape(self.strings[int(match[1])][1:])), masked_json)
        )
        return value


def scan_object(text: str, start: int) -> BrokenObject:
    """Read an object from its first brace to its last, or to the end of its code block, its tag or the text."""
    masked: list[str] = []
    strings: list[str] = []
    spans: list[tuple[int, int]] = []
    depth, unmasked_from, position = 0, start, start
    while delimiter := _DELIMITER.search(text, position):
        sign, at, position = delimiter[0], delimiter.start(), delimiter.end()
        if sign in _CLOSING_QUOTES and (sign != "'" or _previous_character(text, at) in "{[(,:"):
            end = next((mark.start() for mark in _STRING_ENDS[sign].finditer(text, position) if mark[1]), 0)
            placeholder = f'"{_PLACEHOLDER_MARK}{len(strings)}{_PLACEHOLDER_MARK}"' if end else ""
            masked += [text[unmasked_from:at], placeholder]
            strings.append(text[at : end or None])
            unmasked_from = position = end + 1 if end else len(text)
            spans.append((at, position))
            depth += not end
        elif sign in _COMMENT_ENDS and text[at - 1] in " \t\n{[,}]\"'":
            masked.append(text[unmasked_from:at])
            comment_end = _COMMENT_ENDS[sign].search(text, position)
            unmasked_from = position = comment_end.end() if comment_end else len(text)
            spans.append((at, position))
        elif sign in ("```", "</"):
            position = at
            break
        else:
            depth += {"{": 1, "}": -1}.get(sign, 0)
            if not depth:
                break
    else:
        position = len(text)
    masked_text = "".join([*masked, text[unmasked_from:position]])
    return BrokenObject(masked_text=masked_text, strings=strings, end=position, depth=depth, opaque_spans=spans)


def _previous_character(text: str, position: int) -> str:
    while text[position - 1].isspace():  # ends at the first brace of the object
        position -= 1
    return text[position - 1]


def _is_concatenation(string: str) -> bool:
    """Return whether a string is really several, as in `"a" + "b"`; a string with quotes in it looks the same."""
    return _CONCATENATIONS[string[0]].search(_ESCAPE.sub("_", string), 1) is not None


def _has_inner_quotes(name: str) -> bool:
    """Return whether a member's name contains quotes of its kind: then an earlier string has no closing quote."""
    return sum(map(_ESCAPE.sub("_", name).count, _CLOSING_QUOTES[name[0]])) > 1


def _unescape(string: str) -> str:
    """Return the text of a string; an escape that JSON does not have is left unchanged."""
    return replace_surrogates(_ESCAPE.sub(_decode_escape, string))


def _decode_escape(escape: re.Match[str]) -> str:
    sign = escape[1]
    return chr(int(sign[1:], 16)) if len(sign) > 1 else _ESCAPED_CHARACTERS.get(sign, escape[0])


def _repair_json(text: str, *, strict: bool) -> JsonObject:
    """Return the object that the library finds in a text, or an empty object."""
    import json_repair

    try:
        value = json_repair.repair_json(text, return_objects=True, skip_json_loads=True, strict=strict)
        json.dumps(value)
    except Exception:  # noqa: BLE001  # whatever the library raises, the text is unreadable
        return {}
    return value if isinstance(value, dict) else {}


def _tokenize(text: str) -> list[str | float]:
    return [float(token[1]) if token[1] else token[0] for token in _TOKEN.finditer(text)]
