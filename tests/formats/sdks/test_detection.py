"""The objects of every SDK are recognized, whatever their data is."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from ahvn_tools import formats
from ahvn_tools.formats import detection

MESSAGE = {"role": "assistant", "content": "Hello!"}
CHAT = {"id": "c", "created": 1, "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": MESSAGE}]}
USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}

ANSWERS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "a completion": ("openai", "openai.types.chat", "ChatCompletion", {**CHAT, "object": "chat.completion"}),
    "its message": ("openai", "openai.types.chat", "ChatCompletionMessage", MESSAGE),
    "a response": ("openai-responses", "openai.types.responses", "Response", {"output": []}),
    "a message": ("anthropic", "anthropic.types", "Message", {"role": "assistant", "content": []}),
    "contents": ("gemini", "google.genai.types", "GenerateContentResponse", {"candidates": []}),
    "a choice": (
        "mistral",
        "mistralai.client.models",
        "ChatCompletionResponse",
        {**CHAT, "object": "chat.completion", "usage": USAGE},
    ),
    "a chat": ("ollama", "ollama", "ChatResponse", {"message": MESSAGE}),
    "an AI message": ("langchain", "langchain_core.messages", "AIMessage", {"type": "ai", "content": "Hello!"}),
    "a request": ("mcp", "mcp_types", "CallToolRequest", {"method": "tools/call", "params": {"name": "ping"}}),
}


@pytest.mark.parametrize(("name", "module", "kind", "data"), ANSWERS.values(), ids=ANSWERS.keys())
def test_an_object_of_an_sdk_is_recognized_by_its_class(name, module, kind, data):
    model = getattr(pytest.importorskip(module.partition(".types")[0]) and importlib.import_module(module), kind)
    answer = model.model_construct(**data) if name in {"openai-responses", "anthropic"} else model.model_validate(data)
    assert detection.matching_formats(answer) == detection.matching_formats([answer]) == [name]
    assert formats.get(name).calls(answer) or detection.fits_without_calls(name, answer)
