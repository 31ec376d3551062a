"""Descriptions of schemas: sentences for the model on what a schema itself cannot say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.keywords import type_names

UNDESCRIBED_KEYWORDS: Final = frozenset(
    {"title", "examples", "example", "discriminator", "deprecated", "readOnly", "writeOnly", "$comment"}
)
"""Keywords that restrict no value; where a provider does not accept them, they are dropped without a sentence."""

EXACTLY_ONE: Final = "Exactly one of the alternatives must match."
"""The sentence for a `oneOf` that becomes an `anyOf`."""

NOT_THE_DEFAULT: Final = "null means none, not the default."
"""The sentence for a value that may be null and has another default."""

_CLOSING_MARKS = "\"'`)]}*_»”’"
_PUNCTUATION = ".!?:;,…。！？：；，"
_DEFAULT_IS = (
    r"\bdefault(?:s|ed)?\b(?: values?)?"
    r"(?:\s*[:=,]\s*|\s+(?:is|to|of)\b[\s:=]*|\s+(?=[\"'`\d\[{-]|true\b|false\b))[\"'`]?"
)
"""The words before a value that make it a default: "Defaults to 3", "default: 3", "by default, 3", "(default 3)"."""


def append_description(node: JsonObject, sentences: Iterable[str | None]) -> None:
    """Add sentences to a schema's description, in place."""
    if description := join_sentences(node.get("description"), *sentences):
        node["description"] = description


def join_sentences(*texts: str | None) -> str:
    """Return texts as one; each but the last ends with punctuation.

    >>> join_sentences("How many", "Default: 3.")
    'How many. Default: 3.'
    """
    *others, last = [text for text in texts if text] or [""]
    return " ".join([*map(_end_sentence, others), last])


def describe_rule(keyword: str, value: Any) -> str:
    """Return the sentence for a keyword and its value."""
    if keyword == "enum":
        return f"One of: {', '.join(map(to_json_text, value))}."
    return f"{'Default' if keyword == 'default' else keyword}: {to_json_text(value)}."


def describe_default(node: JsonObject) -> str | None:
    """Return the sentences for a schema's default: its value, unless the description states it, and what null means.

    None for no default, and for null. Where null is a value of its own, it never stands for the default.
    """
    default = node.get("default")
    if default is None:
        return None
    value = None if states_default(node.get("description", ""), default) else describe_rule("default", default)
    return join_sentences(value, NOT_THE_DEFAULT if _accepts_null(node) else None) or None


def _accepts_null(node: JsonObject) -> bool:
    alternatives = [each for keyword in ("anyOf", "oneOf") for each in node.get(keyword, ())]
    return "null" in type_names(node) or {"type": "null"} in alternatives


def states_default(description: str, default: Any) -> bool:
    """Whether a description contains a default already, as JSON, as in Python or as plain text.

    >>> states_default("How many; by default 3.", 3), states_default("How many (default: 30)", 3)
    (True, False)
    """
    texts = {to_json_text(default), repr(default), str(default)}
    if isinstance(default, int):
        texts.add(f"{default}.0")
    elif isinstance(default, float) and default.is_integer():
        texts.add(str(int(default)))
    possible = sorted((text for text in texts if 0 < len(text) <= len(description)), key=len, reverse=True)
    if not possible:
        return False
    values = "|".join(map(re.escape, possible))
    pattern = rf"{_DEFAULT_IS}(?:{values})(?!\w|\.\d)|(?<![\w.])(?:{values})[\"'`]? by default\b"
    return re.search(pattern, description, re.IGNORECASE) is not None


def to_json_text(value: Any) -> str:
    """Return JSON as a description contains it.

    >>> to_json_text({"city": "Zürich"})
    '{"city": "Zürich"}'
    """
    return json.dumps(value, ensure_ascii=False)


def _end_sentence(text: str) -> str:
    text = text.rstrip()
    return text if text.rstrip(_CLOSING_MARKS).endswith(tuple(_PUNCTUATION)) else f"{text}."
