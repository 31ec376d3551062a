"""Responses as each provider sends them, built from plain calls, for the contract tests.

One module per format, with the same names in each:

- `response(calls)`: a response with these calls; `events(calls)`: the same as the events of a stream, with the
  arguments in several fragments if the provider sends fragments.
- `exported(tools)`: the name and the schema of each tool in an export.
- `result_ids(messages)`: the ids of the calls whose results the messages contain, in order; names if there are no ids.
- `result_texts(messages)`: what the model reads of each result, as text or as JSON data.
- `read(messages)`: the messages without the parts that only programs read; only in formats with such parts.
- `IS_TEXT`: whether a response is the model's text: then any text is valid, and calls have no ids.
- `CALL_DATA`: what an answer may contain beside a call; only in formats with such data.
- `CHOICES`: what `choice` returns for `"auto"`, `"none"` and `"required"`; None where it raises.
- `forced_names(fields)`: the names that a choice forces; None instead of the function if no tool can be forced.
- `is_ours(row)`: whether a recorded row has this format; `recorded_calls(response)`: the calls of a recorded response
  as (id or None, name, arguments), without the code under test.
"""

from __future__ import annotations

import importlib
import json
from typing import Any

Calls = list[tuple[str, str, str]]
"""Calls as (id, name, arguments as text)."""


def provider(name: str) -> Any:
    """Return the module of this format."""
    return importlib.import_module(f"{__name__}.{name.replace('-', '_')}")


def as_input(text: str) -> Any:
    """Return the object, as some providers send it; hosts that imitate them send a model's broken text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def halves(text: str) -> list[str]:
    """Return the two halves of a text."""
    return [text[: len(text) // 2], text[len(text) // 2 :]]
