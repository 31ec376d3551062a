"""Function calling where the model has it, else structured output: a choice of format."""

from __future__ import annotations

import asyncio

import pytest

from ahvn_tools import formats
from ahvn_tools.errors import ToolLookupError, ToolSpecError


class Client:
    """A client whose model has function calling, or has none."""

    def __init__(self, told):
        self.told = told
        self.asked = 0

    def supports_function_calling(self):
        self.asked += 1
        if isinstance(self.told, Exception):
            raise self.told
        return self.told


@pytest.mark.parametrize(
    ("told", "function_calling", "fallback", "expected"),
    [
        (True, True, True, "anthropic"),
        (True, True, False, "anthropic"),
        (False, True, True, "prompt"),
        (True, False, True, "prompt"),
        (False, False, True, "prompt"),
    ],
)
def test_a_client_and_two_switches_decide(told, function_calling, fallback, expected):
    chosen = formats.choose_format(
        Client(told), "anthropic", function_calling=function_calling, fallback_to_structured_output=fallback
    )
    assert chosen == expected
    assert callable(formats.get(chosen).export)


def test_a_model_without_function_calling_and_no_fallback_is_an_error_that_names_the_switch():
    with pytest.raises(ToolSpecError, match=r"'Client' has no function calling.*fallback_to_structured_output=True"):
        formats.choose_format(Client(False), "openai", fallback_to_structured_output=False)


@pytest.mark.parametrize("told", [True, False])
def test_both_switches_off_is_an_error_that_names_both(told):
    with pytest.raises(ToolSpecError, match="function_calling=True or fallback_to_structured_output=True"):
        formats.choose_format(Client(told), "openai", function_calling=False, fallback_to_structured_output=False)


def test_a_client_is_not_asked_when_function_calling_is_off():
    client = Client(True)
    formats.choose_format(client, "openai", function_calling=False)
    formats.choose_format(object(), "openai", function_calling=False)
    assert client.asked == 0


def test_a_client_is_asked_each_time():
    client = Client(True)
    assert formats.choose_format(client, "openai") == "openai"
    client.told = False
    assert formats.choose_format(client, "openai") == "prompt"
    assert client.asked == 2


def test_an_unknown_native_format_is_refused_at_once():
    client = Client(False)
    with pytest.raises(ToolLookupError, match=r"no format 'antropic'\. Did you mean 'anthropic'"):
        formats.choose_format(client, "antropic", function_calling=False)
    assert client.asked == 0


def test_prompt_may_be_the_native_format():
    assert formats.choose_format(Client(True), "prompt") == "prompt"


def test_what_a_client_raises_is_raised():
    with pytest.raises(ConnectionError, match="no route"):
        formats.choose_format(Client(ConnectionError("no route")), "openai")


def test_a_client_that_cannot_tell_is_refused_with_the_two_ways_out():
    with pytest.raises(ToolSpecError, match=r"'object' cannot tell.*supports_function_calling\(\), or set function_"):
        formats.choose_format(object(), "openai")


@pytest.mark.parametrize("told", [None, 1, "yes"])
def test_an_answer_that_is_neither_true_nor_false_is_refused(told):
    with pytest.raises(ToolSpecError, match=f"gave {type(told).__name__}. Let it return True or False"):
        formats.choose_format(Client(told), "openai")


async def test_an_asynchronous_client_is_awaited_by_its_owner():
    class Asynchronous:
        async def supports_function_calling(self):
            return False

    for client in (Asynchronous(), Client(asyncio.get_running_loop().create_future())):
        with pytest.raises(
            ToolSpecError, match=r"is asynchronous\. Await it before, and pass what it gives as function_"
        ):
            formats.choose_format(client, "openai")
    told = await Asynchronous().supports_function_calling()
    assert formats.choose_format(Asynchronous(), "openai", function_calling=told) == "prompt"
