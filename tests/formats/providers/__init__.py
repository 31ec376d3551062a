"""Answers as the providers of each format send them, made from plain calls; the contract tests speak through these.

One module a format, with the same names in each:

- `answer(sent)`: an answer that holds these calls; `events(sent)`: the same as the events of a stream, each call's
  arguments in more than one piece where the provider sends pieces.
- `exported(tools)`: the name and the schema of each tool in an export.
- `answered_ids(messages)`: the ids of the calls that messages answer, in their order (names, where there are no ids).
- `said(messages)`: what the model reads of each result, as text or as JSON data.
- `read(messages)`, where programs read of messages what a model does not: what is left without it.
- `IS_TEXT`, where the answer is a model's own text: any text is one, and its calls have no ids.
- `CHOICES`: what `choice` gives for `"auto"`, `"none"` and `"required"`; None where it is refused.
- `forced(fields)`: the names that a choice forces; None in the place of the function where no tool can be forced.
- `is_ours(row)`: whether a row of the recordings speaks this format; `held(answer)`: the calls of a recorded answer as
  (id or None, name, arguments), read off without the room.
"""

from __future__ import annotations

import importlib
import json
from typing import Any

Sent = list[tuple[str, str, str]]
"""Calls as (id, name, arguments as text)."""


def provider(name: str) -> Any:
    """Return the module that speaks this format."""
    return importlib.import_module(f"{__name__}.{name.replace('-', '_')}")


def as_input(text: str) -> Any:
    """Give the object, as some providers do; hosts that imitate them pass a model's broken text on."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def halves(text: str) -> list[str]:
    """Cut a text in two."""
    return [text[: len(text) // 2], text[len(text) // 2 :]]
