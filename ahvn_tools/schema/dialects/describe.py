"""Rules that a provider's schemas cannot express, as sentences in a description, for the model."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from ahvn_tools.json_types import JsonObject

UNDESCRIBED_KEYWORDS: Final = frozenset(
    {"title", "examples", "example", "discriminator", "deprecated", "readOnly", "writeOnly", "$comment"}
)
"""Keywords that restrict no value; where a provider does not accept them, they are dropped without a sentence."""


def append_description(node: JsonObject, sentences: Iterable[str | None]) -> None:
    """Add sentences to a schema's description, in place."""
    if description := " ".join(sentence for sentence in (node.get("description"), *sentences) if sentence):
        node["description"] = description


def describe_rule(keyword: str, value: Any) -> str:
    """Return the sentence for a keyword and its value."""
    if keyword == "enum":
        return f"One of: {', '.join(map(to_json_text, value))}."
    return f"{'Default' if keyword == 'default' else keyword}: {to_json_text(value)}."


def to_json_text(value: Any) -> str:
    """Return JSON as a description contains it.

    >>> to_json_text({"city": "Zürich"})
    '{"city": "Zürich"}'
    """
    return json.dumps(value, ensure_ascii=False)
