"""Spoken: the text in an answer, or in an event of a stream, of any provider.

What a model thinks, what tools of the provider returned and what others said is not its answer, and is left out.
"""

from __future__ import annotations

from typing import Any

from ahvn_tools.definition import JsonObject
from ahvn_tools.formats.parsing.raw_call import get_objects

_TEXT_TYPES = frozenset({
    None, "text", "output_text", "message", "text_delta", "content_block_delta", "response.output_text.delta", "ai",
    "AIMessageChunk",
})  # fmt: skip
"""The types of what is said: parts and messages, events, LangChain's messages. Most providers name no type."""

_MODEL_ROLES = frozenset({None, "assistant", "model"})

_TEXT_KEYS = (
    "data",  # an event of Mistral
    "contentBlockDelta",  # an event of Bedrock
    "delta",  # of a choice, a block, a text
    "output",  # Responses, Bedrock
    "message",
    "content",
    "parts",  # Gemini
    "text",
    "response",  # Ollama's completions
)
"""Where a text stands, or leads to, in the order in which one is looked for."""

_MAX_DEPTH = 12
"""No provider puts its text deeper."""


def extract_choice_texts(response: Any) -> list[str]:
    """Return the text of each choice in an answer; most have one."""
    choices = get_objects(response, "choices") or get_objects(response, "candidates")
    return [extract_text(choice) for choice in choices] or [extract_text(response)]


def extract_text(value: Any, depth: int = 0) -> str:
    """Return the text of an answer, a message, its parts or an event, as JSON data; of choices, the first one's."""
    if isinstance(value, str):
        return value
    if depth == _MAX_DEPTH:
        return ""
    if isinstance(value, list):
        return "".join(extract_text(item, depth + 1) for item in value)
    if not isinstance(value, dict) or not _is_model_text(value):
        return ""
    choices = get_objects(value, "choices") or get_objects(value, "candidates")
    if choices:
        return "".join(extract_text(choice, depth + 1) for choice in choices if not choice.get("index"))
    return next((extract_text(value[key], depth + 1) for key in _TEXT_KEYS if value.get(key)), "")


def _is_model_text(value: JsonObject) -> bool:
    kind, role = value.get("type"), value.get("role")
    is_named = all(isinstance(name, str | None) for name in (kind, role))
    return is_named and kind in _TEXT_TYPES and role in _MODEL_ROLES and not value.get("thought")
