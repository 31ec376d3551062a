"""The text that a model wrote, from a response or an event of a stream, of any provider.

Thoughts of the model, results of the provider's own tools and messages of other roles are left out.
"""

from __future__ import annotations

from typing import Any

from ahvn_tools.formats.parsing.fields import get_objects
from ahvn_tools.json_types import JsonObject

_TEXT_TYPES = frozenset({
    None, "text", "output_text", "message", "text_delta", "content_block_delta", "response.output_text.delta", "ai",
    "AIMessageChunk",
})  # fmt: skip
"""The types of text parts, messages, events, and LangChain's messages. Most providers set no type."""

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
"""The keys of a text, or of an object that contains the text, in the order of preference."""

_MAX_DEPTH = 12
"""No provider nests its text deeper."""


def extract_choice_texts(response: Any) -> list[str]:
    """Return the text of each choice in a response; most have one."""
    return [extract_text(choice) for choice in _get_choices(response)] or [extract_text(response)]


def extract_text(value: Any, depth: int = 0) -> str:
    """Return the text of a response, a message, its parts or an event, as JSON data; of choices, the first one's."""
    if isinstance(value, str):
        return value
    if depth == _MAX_DEPTH:
        return ""
    if isinstance(value, list):
        return "".join(extract_text(item, depth + 1) for item in value)
    if not isinstance(value, dict) or not _is_model_text(value):
        return ""
    if choices := _get_choices(value):
        return "".join(extract_text(choice, depth + 1) for choice in choices if not choice.get("index"))
    return next((extract_text(value[key], depth + 1) for key in _TEXT_KEYS if value.get(key)), "")


def _get_choices(response: Any) -> list[JsonObject]:
    return get_objects(response, "choices") or get_objects(response, "candidates")


def _is_model_text(value: JsonObject) -> bool:
    kind, role = value.get("type"), value.get("role")
    is_hashable = all(isinstance(name, str | None) for name in (kind, role))
    return is_hashable and kind in _TEXT_TYPES and role in _MODEL_ROLES and not value.get("thought")
