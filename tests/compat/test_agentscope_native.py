"""Tools of the core in the toolkit of this facade: a program is moved tool by tool."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from fastmcp.utilities.types import Image
from pydantic import BaseModel

import ahvn_tools
from ahvn_tools import ToolSpec
from ahvn_tools.compat.agentscope import Toolkit, ToolResponse, ToolUseBlock
from tests.compat.agentscope_calls import (
    INTERRUPTION,
    add,
    answer_of,
    block,
    parameters_of,
    responses_of,
    text,
    texts_of,
)


class Price(BaseModel):
    amount: int
    currency: str


def price_in(city: str, user: str = "nobody") -> Price:
    """Return the price of tea."""
    if city == "Atlantis":
        raise LookupError("no shop there")
    return Price(amount=len(city), currency=user)


def parts(n: int) -> Iterator[int]:
    """Count."""
    yield from range(n)


async def later(n: int) -> AsyncIterator[str]:
    """Count."""
    for one in range(n):
        yield str(one)


@pytest.fixture
def toolkit() -> Toolkit:
    toolkit = Toolkit()
    toolkit.register_tool_function(add)
    return toolkit


def names_of(toolkit: Toolkit) -> list[str]:
    return [schema["function"]["name"] for schema in toolkit.get_json_schemas()]


async def last_text(toolkit: Toolkit, name: str, arguments: dict[str, Any]) -> str:
    call = ToolUseBlock(type="tool_use", id="1", name=name, input=arguments)
    return "".join([texts_of(response)[0] async for response in await toolkit.call_tool_function(call)])


class TestAdded:
    """A tool that is added to `toolkit.kit`."""

    async def test_it_is_listed_and_called_as_the_others_are(self, toolkit):
        toolkit.kit.add(price_in)
        assert names_of(toolkit) == ["add", "price_in"]
        assert toolkit.get_json_schemas()[1]["function"]["description"] == "Return the price of tea."
        assert list(parameters_of(toolkit, "price_in")["properties"]) == ["city", "user"]
        (response,) = await responses_of(toolkit, "price_in", city="Rome", user="Ann")
        assert isinstance(response, ToolResponse)
        assert (texts_of(response), response.is_last) == (['{"amount": 4, "currency": "Ann"}'], True)
        assert await answer_of(toolkit, "add", a=1) == "3"

    async def test_an_error_is_a_text_as_of_the_others(self, toolkit):
        toolkit.kit.add(price_in)
        assert await answer_of(toolkit, "price_in", city="Atlantis") == "Error: no shop there"
        assert (await answer_of(toolkit, "price_in", town="Rome")).startswith("Error: Invalid arguments: unknown")

    async def test_a_preset_is_neither_shown_nor_set_by_a_model(self, toolkit):
        toolkit.kit.add(price_in, preset={"user": "EUR"})
        assert list(parameters_of(toolkit, "price_in")["properties"]) == ["city"]
        assert await answer_of(toolkit, "price_in", city="Rome") == '{"amount": 4, "currency": "EUR"}'
        assert "unknown argument 'user'" in await answer_of(toolkit, "price_in", city="Rome", user="me")

    @pytest.mark.parametrize(("tool", "expected"), [(parts, "[0,1,2]"), (later, '["0","1","2"]')])
    async def test_a_generator_is_one_response(self, toolkit, tool, expected):
        toolkit.kit.add(tool)
        (response,) = await responses_of(toolkit, tool.__name__, n=3)
        assert "".join(texts_of(response)[0].split()) == expected

    async def test_an_image_is_a_block(self, toolkit):
        toolkit.kit.add(lambda: Image(data=b"x", format="png"), name="picture")
        (response,) = await responses_of(toolkit, "picture")
        assert response.content[0] == {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "eA=="},
        }

    async def test_its_group_is_switched_as_that_of_the_others(self, toolkit):
        toolkit.create_tool_group("shop", "Prices.")
        toolkit.kit.add(price_in, group="shop")
        assert names_of(toolkit) == ["add"]
        assert (await answer_of(toolkit, "price_in", city="Rome")).startswith("FunctionInactiveError")
        toolkit.update_tool_groups(["shop"], True)
        assert await answer_of(toolkit, "price_in", city="Rome") == '{"amount": 4, "currency": "nobody"}'

    def test_the_methods_of_the_toolkit_take_it(self, toolkit):
        toolkit.kit.add(price_in)
        assert toolkit.tools["price_in"].original_func is price_in
        assert (toolkit.tools["price_in"].group, toolkit.tools["price_in"].preset_kwargs) == ("basic", {})
        assert toolkit.state_dict()["tools"] == {"add": "basic", "price_in": "basic"}
        with pytest.raises(ValueError, match="'price_in' is already registered"):
            toolkit.register_tool_function(add, func_name="price_in")
        toolkit.remove_tool_function("price_in")
        assert names_of(toolkit) == ["add"]
        toolkit.kit.add(price_in)
        toolkit.clear()
        assert toolkit.tools == {}

    async def test_middleware_of_the_facade_wraps_it(self, toolkit):
        async def shout(kwargs: dict[str, Any], following: Any) -> AsyncIterator[ToolResponse]:
            async for response in await following(**kwargs):
                yield text(texts_of(response)[0].upper())

        toolkit.kit.add(price_in)
        toolkit.register_middleware(shout)
        assert await answer_of(toolkit, "price_in", city="Rome") == '{"AMOUNT": 4, "CURRENCY": "NOBODY"}'

    async def test_a_tool_takes_the_fields_of_an_extended_model(self, toolkit):
        def finish(**fields: Any) -> str:
            """Finish."""
            return "done"

        toolkit.kit.add(finish)
        toolkit.set_extended_model("finish", Price)
        (response,) = await responses_of(toolkit, "finish", amount=1, currency="EUR")
        assert response.metadata is not None
        assert response.metadata["response_msg"] == Price(amount=1, currency="EUR")

    async def test_a_cancelled_call_says_so(self, toolkit):
        started = asyncio.Event()

        async def wait() -> str:
            """Wait."""
            started.set()
            await asyncio.Event().wait()
            return "never"

        toolkit.kit.add(wait)
        seen: list[ToolResponse] = []

        async def collect() -> None:
            async for response in toolkit.call_tool_function(block("wait")):
                seen.append(response)  # noqa: PERF401  # the task is cancelled

        task = asyncio.create_task(collect())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [(texts_of(response), response.is_interrupted) for response in seen] == [([INTERRUPTION], True)]


class TestSpecs:
    """A ToolSpec that is registered."""

    async def test_it_keeps_what_is_bound(self, toolkit):
        spec = ToolSpec.from_function(price_in)
        toolkit.register_tool_function(spec)
        spec.bind("user", default="EUR")
        assert list(parameters_of(toolkit, "price_in")["properties"]) == ["city"]
        assert await answer_of(toolkit, "price_in", city="Rome") == '{"amount": 4, "currency": "EUR"}'

    async def test_it_takes_the_options_of_a_function(self, toolkit):
        toolkit.create_tool_group("shop", "Prices.", active=True)
        toolkit.register_tool_function(
            ToolSpec.from_function(price_in), "shop", {"user": "EUR"}, "price", "Say the price."
        )
        assert toolkit.tools["price"].group == "shop"
        schema = toolkit.get_json_schemas()[-1]["function"]
        assert (schema["name"], schema["description"]) == ("price", "Say the price.")
        assert await answer_of(toolkit, "price", city="Rome") == '{"amount": 4, "currency": "EUR"}'

    def test_a_name_that_is_taken_is_an_error_or_what_the_strategy_says(self, toolkit):
        spec = ToolSpec.from_function(price_in, name="add")
        with pytest.raises(ValueError, match="'add' is already registered"):
            toolkit.register_tool_function(spec)
        toolkit.register_tool_function(spec, namesake_strategy="rename")
        toolkit.register_tool_function(spec, namesake_strategy="override")
        assert names_of(toolkit) == ["add", "add_2"]
        assert toolkit.tools["add"].original_func is price_in

    @pytest.mark.parametrize("options", [{"json_schema": {"type": "function"}}, {"postprocess_func": print}])
    def test_options_that_a_spec_has_itself_are_refused(self, toolkit, options):
        with pytest.raises(ValueError, match=r"^A ToolSpec has its own"):
            toolkit.register_tool_function(ToolSpec.from_function(price_in), **options)
        assert names_of(toolkit) == ["add"]


class TestBackground:
    def test_an_async_execution_is_refused_with_what_replaces_it(self, toolkit):
        with pytest.raises(ValueError, match=r"^async_execution is not available.* toolkit\.kit\.start\(name"):
            toolkit.register_tool_function(price_in, async_execution=True)
        toolkit.register_tool_function(add, func_name="sum", async_execution=False)
        assert names_of(toolkit) == ["add", "sum"]

    @pytest.mark.parametrize("name", ["view_task", "wait_task", "cancel_task"])
    def test_the_methods_for_tasks_are_errors_that_name_what_replaces_them(self, toolkit, name):
        with pytest.raises(AttributeError, match=rf"has no attribute '{name}'\. .*background_tools\(\)"):
            getattr(toolkit, name)
        assert not hasattr(toolkit, name)

    def test_another_unknown_attribute_is_an_ordinary_error(self, toolkit):
        with pytest.raises(AttributeError, match=r"^'Toolkit' object has no attribute 'view'$"):
            _ = toolkit.view

    async def test_a_model_runs_a_tool_of_the_facade_in_the_background(self, toolkit):
        toolkit.kit.add(*toolkit.kit.background_tools())
        started = await last_text(toolkit, "start_call", {"name": "add", "arguments": {"a": 1}})
        finished = json.loads(await last_text(toolkit, "wait_for_call", {"id": json.loads(started)["id"]}))
        assert finished["state"] == "done"
        assert "3" in str(finished["result"])


class TestInTheCore:
    def test_an_empty_toolkit_has_a_toolkit_of_the_core(self):
        assert isinstance(Toolkit().kit, ahvn_tools.Toolkit)

    def test_the_toolkit_of_the_core_can_be_added_to_another_one(self, toolkit):
        core = ahvn_tools.Toolkit("core").add(price_in, toolkit.kit)
        assert core.exec("add", {"a": 1}).text == "3"

    def test_an_added_facade_is_an_error_that_names_its_kit(self, toolkit):
        with pytest.raises(
            ahvn_tools.errors.DefinitionError, match=r"tool\.Toolkit is no tool\. Add its attribute `kit`"
        ):
            ahvn_tools.Toolkit("core").add(toolkit)
