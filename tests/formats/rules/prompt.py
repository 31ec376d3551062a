"""The rules of the prompt: one message of text that names every tool, shows its schema and asks for the JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.formats.rules import schema as common

NAME = r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}"
TOOL = re.compile(r"^### (?P<name>.*)$", re.MULTILINE)
SCHEMA = re.compile(r"^Parameters \(JSON Schema\): (?P<schema>.*)$", re.MULTILINE)


def broken(export: list[Any], strict: bool = False) -> list[str]:
    """Return what an export breaks."""
    found = [*common.json_only(export)]
    if len(export) != 1:
        found.append(f"it is {len(export)} messages")
    for message in export:
        found += common.only_keys(message, ("role", "content"), (), "the message")
        if message.get("role") != "system":
            found.append("the message is not the system's")
        content = message.get("content")
        found += _content(content) if isinstance(content, str) else ["the message is no text"]
    return found


def _content(content: str) -> Iterator[str]:
    for word in ('"name"', '"parameters"'):
        if word not in content:
            yield f"it does not say {word}"
    schemas = SCHEMA.findall(content)
    if not schemas:
        yield "it shows no schema"
    names = [TOOL.findall(before)[-1:] for before in SCHEMA.split(content)[:-1:2]]
    if not all(names):
        yield "a schema belongs to no tool"
    yield from (problem for found in names for name in found for problem in common.well_named(name, NAME))
    yield from common.unique(name for found in names for name in found)
    for text in schemas:
        yield from _schema(text)


def _schema(text: str) -> Iterator[str]:
    try:
        schema = json.loads(text)
    except ValueError:
        yield "a schema is no JSON"
        return
    yield from common.valid(schema)
    yield from common.object_at_root(schema, ())
    yield from common.led_somewhere(schema)
