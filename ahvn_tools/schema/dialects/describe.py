"""Telling: what a schema cannot say for a provider, said in its description, for the model."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

JsonObject = dict[str, Any]

NOT_ENFORCED: Final = "The description tells it, the tool checks it."
"""What becomes of a rule that a provider has no keyword for."""


def append_description(node: JsonObject, sentences: Iterable[str]) -> None:
    """Add sentences to a schema's description, in place."""
    said = [node["description"]] if node.get("description") else []
    if told := " ".join([*said, *sentences]):
        node["description"] = told


def to_json_text(value: Any) -> str:
    """Return JSON as a description holds it.

    >>> to_json_text({"city": "Zürich"})
    '{"city": "Zürich"}'
    """
    return json.dumps(value, ensure_ascii=False)
