"""What a provider does not accept: findings for the developer, and sentences in descriptions for the model."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from ahvn_tools.json_types import JsonObject

Severity = Literal["error", "warning", "note"]

NOT_ENFORCED_FIX: Final = "None is needed: the description states the rule, and the tool checks it."

UNDESCRIBED_KEYWORDS: Final = frozenset(
    {"title", "examples", "example", "discriminator", "deprecated", "readOnly", "writeOnly", "$comment"}
)
"""Keywords that restrict no value; where a provider does not accept them, they are dropped without a sentence."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was found, where, and what to do about it. As text: `place: problem`."""

    severity: Severity
    """`error`: the provider would refuse the tool, or a model could not use it as intended. `warning`: the provider
    receives less than the schema says, and only the tool itself enforces the rest. `note`: it is exported in another
    form."""
    place: str
    """The path of the member, such as `lines[].color`; empty for the tool as a whole."""
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.place or 'the schema'}: {self.problem}"


def not_enforced(keyword: str, place: str) -> Finding:
    """Return the finding about a keyword that a provider does not enforce."""
    return Finding(severity="warning", place=place, problem=f"{keyword!r} is not enforced", fix=NOT_ENFORCED_FIX)


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
