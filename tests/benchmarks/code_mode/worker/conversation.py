"""Conversation: the requests of a conversation as a provider receives them, in bytes and tokens."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any

Call = tuple[str, dict[str, Any]]


class Conversation:
    """The requests and answers of one conversation in the form of OpenAI's Chat Completions."""

    def __init__(self, title: str, question: str, tools: Sequence[Any]) -> None:
        self.title, self._tools = title, list(tools)
        self._messages: list[Any] = [{"role": "user", "content": question}]
        self.requests: list[str] = []
        """What the provider received, as JSON."""
        self.answers: list[str] = []
        """What the model sent, as JSON."""
        self.seconds = 0.0
        """What the calls and the exports took."""

    def ask(self, calls: Sequence[Call]) -> dict[str, Any]:
        """Send the messages; return the model's, with these calls."""
        count = len(self.requests)
        made = [
            {
                "id": f"call_{count}_{index}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for index, (name, arguments) in enumerate(calls)
        ]
        return self._add({"role": "assistant", "content": None, "tool_calls": made})

    def answer(self, results: Sequence[dict[str, Any]]) -> None:
        """Add the messages with the results of calls."""
        self._messages += results

    def end(self, text: str) -> None:
        """Send the messages; the model answers with a text."""
        self._add({"role": "assistant", "content": text})

    def facts(self) -> dict[str, Any]:
        """Return the sums over all requests."""
        tools, read, written = _compact(self._tools), "".join(self.requests), "".join(self.answers)
        return {
            "title": self.title,
            "requests": len(self.requests),
            "list_bytes": len(tools.encode()),
            "list_tokens": tokens(tools),
            "read_bytes": len(read.encode()),
            "read_tokens": sum(map(tokens, self.requests)),
            "written_bytes": len(written.encode()),
            "written_tokens": sum(map(tokens, self.answers)),
        }

    @staticmethod
    def size_of(tools: Sequence[Any]) -> dict[str, int]:
        """Return the bytes and tokens of a list of tools."""
        text = _compact(list(tools))
        return {"bytes": len(text.encode()), "tokens": tokens(text)}

    def _add(self, message: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(_compact({"model": "m", "messages": self._messages, "tools": self._tools}))
        self.answers.append(_compact(message))
        self._messages.append(message)
        return message


def results_of(message: dict[str, Any], texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return the messages that answer the calls of a message with these texts."""
    calls = message["tool_calls"]
    return [
        {"role": "tool", "tool_call_id": call["id"], "content": text} for call, text in zip(calls, texts, strict=True)
    ]


def tokens(text: str) -> int:
    """Return how many tokens of o200k_base a text has."""
    return len(_encoding().encode(text))


@functools.cache
def _encoding() -> Any:
    import bpe_openai  # it is in the environments of the packages only

    return bpe_openai.get_encoding("o200k_base")


def _compact(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False)
