"""Choosing a format: function calling if the model has it, else structured output."""

from __future__ import annotations

import asyncio

import pytest

from ahvn_tools import formats
from ahvn_tools.errors import ToolLookupError, ToolSpecError


class Client:
    """A client whose model has function calling, or not."""

    def __init__(self, answer):
        self.answer = answer
        self.queries = 0

    def supports_function_calling(self):
        self.queries += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "function_calling", "fallback", "expected"),
    [
        (True, True, True, "anthropic"),
        (True, True, False, "anthropic"),
        (False, True, True, "prompt"),
        (True, False, True, "prompt"),
        (False, False, True, "prompt"),
    ],
)
def test_a_client_and_two_switches_decide(answer, function_calling, fallback, expected):
    name = formats.choose_format(
        Client(answer), "anthropic", function_calling=function_calling, fallback_to_structured_output=fallback
    )
    assert name == expected
    assert callable(formats.get(name).export)


def test_a_model_without_function_calling_and_no_fallback_is_an_error_that_names_the_switch():
    with pytest.raises(ToolSpecError, match=r"'Client' has no function calling.*fallback_to_structured_output=True"):
        formats.choose_format(Client(False), "openai", fallback_to_structured_output=False)


@pytest.mark.parametrize("answer", [True, False])
def test_both_switches_off_is_an_error_that_names_both(answer):
    with pytest.raises(ToolSpecError, match="function_calling=True or fallback_to_structured_output=True"):
        formats.choose_format(Client(answer), "openai", function_calling=False, fallback_to_structured_output=False)


def test_a_client_is_not_queried_when_function_calling_is_off():
    client = Client(True)
    formats.choose_format(client, "openai", function_calling=False)
    formats.choose_format(object(), "openai", function_calling=False)
    assert client.queries == 0


def test_a_client_is_queried_each_time():
    client = Client(True)
    assert formats.choose_format(client, "openai") == "openai"
    client.answer = False
    assert formats.choose_format(client, "openai") == "prompt"
    assert client.queries == 2


def test_an_unknown_native_format_is_refused_at_once():
    client = Client(False)
    with pytest.raises(ToolLookupError, match=r"no format 'antropic'\. Did you mean 'anthropic'"):
        formats.choose_format(client, "antropic", function_calling=False)
    assert client.queries == 0


def test_prompt_may_be_the_native_format():
    assert formats.choose_format(Client(True), "prompt") == "prompt"


def test_exceptions_of_a_client_are_raised():
    with pytest.raises(ConnectionError, match="no route"):
        formats.choose_format(Client(ConnectionError("no route")), "openai")


def test_a_client_without_the_method_is_refused_with_two_fixes():
    with pytest.raises(ToolSpecError, match=r"no supports_function_calling\(\) of 'object'\. Add that method, or set "):
        formats.choose_format(object(), "openai")


@pytest.mark.parametrize("answer", [None, 1, "yes"])
def test_an_answer_that_is_neither_true_nor_false_is_refused(answer):
    with pytest.raises(ToolSpecError, match=f"returned {type(answer).__name__}. Return True or False"):
        formats.choose_format(Client(answer), "openai")


async def test_an_asynchronous_client_is_refused():
    class Asynchronous:
        async def supports_function_calling(self):
            return False

    for client in (Asynchronous(), Client(asyncio.get_running_loop().create_future())):
        with pytest.raises(ToolSpecError, match=r"is asynchronous\. Await it first, and pass its result as function_"):
            formats.choose_format(client, "openai")
    answer = await Asynchronous().supports_function_calling()
    assert formats.choose_format(Asynchronous(), "openai", function_calling=answer) == "prompt"
