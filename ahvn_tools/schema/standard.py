"""Standard form: any schema that servers and people write, as valid JSON Schema 2020-12 of one shape."""

from __future__ import annotations

from typing import Any

from ahvn_tools.schema.finding import Finding
from ahvn_tools.schema.root import plain

JsonObject = dict[str, Any]


def standard(schema: JsonObject) -> tuple[JsonObject, list[Finding]]:
    """Return an object schema, changed in place, in its standard form, and what had to be understood."""
    return plain(schema), []
