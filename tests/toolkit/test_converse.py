"""Conversations: a model is asked and its calls run, until it answers or something has to be decided."""

from __future__ import annotations

from typing import Any

import pytest

from ahvn_tools import Toolkit, formats


def call(name: str, call_id: str = "c1", **arguments: Any) -> dict[str, Any]:
    """Return an answer of OpenAI's format with one call."""
    (message,) = formats.get("openai").message([ahvn_call(name, call_id, arguments)])
    return message


def ahvn_call(name: str, call_id: str, arguments: dict[str, Any]) -> Any:
    from ahvn_tools import ToolCall

    return ToolCall(id=call_id, name=name, arguments=arguments)


def say(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def script(*answers: Any) -> Any:
    """Return a model that gives these answers, one after the other."""
    left = iter(answers)
    return lambda messages, tools: next(left)


@pytest.fixture
def kit() -> Toolkit:
    kit = Toolkit("notes")

    @kit.tool
    def find(topic: str) -> str:
        """Find a note."""
        return f"a note on {topic}"

    return kit


def test_a_model_is_asked_until_it_answers_without_calls(kit):
    conversation = kit.converse(script(call("find", topic="tea"), say("It is about tea.")), "What do I know?")
    assert conversation.text == "It is about tea."
    assert (conversation.stop_reason, conversation.turns) == ("answered", 2)
    assert [message["role"] for message in conversation.messages] == ["user", "assistant", "tool", "assistant"]
    assert conversation.messages[2]["content"] == "a note on tea"
