"""For each service, a valid request whose history has two calls and their results; tests change copies of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "look", "description": "Look.", "parameters": SCHEMA}
Body = dict[str, Any]


def chat(first: str = "c1", second: str = "c2") -> Body:
    calls = [{"id": i, "type": "function", "function": {"name": "look", "arguments": "{}"}} for i in (first, second)]
    return {
        "model": "m",
        "tools": [{"type": "function", "function": FUNCTION}],
        "messages": [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "", "tool_calls": calls},
            {"role": "tool", "tool_call_id": first, "name": "look", "content": "one"},
            {"role": "tool", "tool_call_id": second, "name": "look", "content": "two"},
        ],
    }


def ollama() -> Body:
    call = {"function": {"name": "look", "arguments": {}}}
    return {
        "model": "m",
        "tools": [{"type": "function", "function": FUNCTION}],
        "messages": [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "", "tool_calls": [call, call]},
            {"role": "tool", "tool_name": "look", "content": "one"},
            {"role": "tool", "tool_name": "look", "content": "two"},
        ],
    }


def responses() -> Body:
    return {
        "model": "m",
        "tools": [{"type": "function", **FUNCTION, "strict": False}],
        "input": [
            {"role": "user", "content": "Hello"},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
            {"type": "function_call", "call_id": "c2", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "one"},
            {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "two"}]},
        ],
    }


def anthropic() -> Body:
    return {
        "model": "m",
        "max_tokens": 9,
        "tools": [{"name": "look", "description": "Look.", "input_schema": SCHEMA}],
        "messages": [
            {"role": "user", "content": "Hello"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": i, "name": "look", "input": {}} for i in ("c1", "c2")],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "one"},
                    {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "two"}]},
                ],
            },
        ],
    }


def bedrock() -> Body:
    return {
        "toolConfig": {"tools": [{"toolSpec": {"name": "look", "inputSchema": {"json": SCHEMA}}}]},
        "messages": [
            {"role": "user", "content": [{"text": "Hello"}]},
            {
                "role": "assistant",
                "content": [{"toolUse": {"toolUseId": i, "name": "look", "input": {}}} for i in ("c1", "c2")],
            },
            {
                "role": "user",
                "content": [
                    {"toolResult": {"toolUseId": "c1", "content": [{"text": "one"}]}},
                    {"toolResult": {"toolUseId": "c2", "content": [{"json": {"is": "two"}}], "status": "success"}},
                ],
            },
        ],
    }


def gemini() -> Body:
    signature = "c2lnbmVkIGJ5IHRoZSBsb29wYmFjayBzZXJ2ZXI="
    call = {"name": "look", "args": {}}
    return {
        "tools": [{"functionDeclarations": [{"name": "look", "parametersJsonSchema": SCHEMA}]}],
        "contents": [
            {"role": "user", "parts": [{"text": "Hello"}]},
            {
                "role": "model",
                "parts": [
                    {"functionCall": {**call, "id": "c1"}, "thoughtSignature": signature},
                    {"functionCall": {**call, "id": "c2"}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "look", "id": i, "response": {"output": said}}}
                    for i, said in (("c1", "one"), ("c2", "two"))
                ],
            },
        ],
    }


def mistral() -> Body:
    return chat("abcdefgh1", "abcdefgh2")


PATHS = {
    "openai_chat": "v1/chat/completions",
    "openai_responses": "v1/responses",
    "anthropic_messages": "v1/messages",
    "bedrock_converse": "model/m%3A0/converse",
    "gemini_generate": "v1beta/models/gemini-3-pro:generateContent",
    "mistral_chat": "v1/chat/completions",
    "ollama_chat": "api/chat",
}
GOOD: dict[str, Callable[[], Body]] = {
    "openai_chat": chat,
    "openai_responses": responses,
    "anthropic_messages": anthropic,
    "bedrock_converse": bedrock,
    "gemini_generate": gemini,
    "mistral_chat": mistral,
    "ollama_chat": ollama,
}
