"""OpenAI's programs call tools of a toolkit: with its SDK, against a server that refuses what OpenAI refuses."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("openai", reason='needs the SDK: pip install "ahvn-tools[openai]"')

from openai import AsyncOpenAI, BadRequestError, OpenAI
from openai.types.responses import ToolParam
from openai.types.responses.response_input_item_param import FunctionCallOutput

from ahvn_tools import ToolError, Toolkit
from tests.formats.hosted.conversation import aconverse_openai, converse_openai
from tests.formats.hosted.openai_service import CALLER, OpenAIService
from tests.formats.hosted.server import serving
from tests.formats.sdks.type_checks import fits


def make_kit(**options: Any) -> Toolkit:
    """Return a toolkit with a tool for programs and one for the model."""
    kit = Toolkit("stock")

    @kit.tool(allowed_callers=["programmatic"])
    def inventory(sku: str) -> dict[str, int]:
        """Return how many there are."""
        if sku == "none":
            raise ToolError("There is no such thing.")
        return {"available": len(sku)}

    @kit.tool(allowed_callers=["direct"])
    def order(sku: str) -> str:
        """Order one."""
        return f"Ordered {sku}."

    return kit


def counts() -> Iterator[Any]:
    """Add two numbers, and then read an error."""
    first, second = yield [("inventory", {"sku": "ab"}), ("inventory", {"sku": "abc"})]
    [failed] = yield [("inventory", {"sku": "none"})]
    return f"{json.loads(first)['available'] + json.loads(second)['available']}, {failed}"


@pytest.fixture
def connect() -> Iterator[Callable[..., OpenAI]]:
    """Returns a client of a service; the server stops at the end of the test."""
    with contextlib.ExitStack() as stack:

        def connected(service: OpenAIService) -> OpenAI:
            url = stack.enter_context(serving(service))
            return stack.enter_context(OpenAI(base_url=url, api_key="none", max_retries=0))

        yield connected


def request(tools: list[Any]) -> dict[str, Any]:
    """Return a request with one question."""
    return {"model": "gpt", "store": False, "input": [{"role": "user", "content": "How many?"}], "tools": tools}


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("options", [{}, {"strict": True}, {"output_schema": True}], ids=["plain", "strict", "output"])
def test_a_program_calls_tools_in_several_turns_and_in_parallel(connect, streams, options):
    asked = request(list(make_kit().to("openai-responses", programmatic_tool_calling=True, **options)))
    service = OpenAIService(counts)
    said = converse_openai(connect(service), make_kit(), asked, streams=streams)
    assert said == "The program said: 5, Error: There is no such thing."
    assert len(service.requests) == 4, "the program's output comes without a message, and is sent back"
    fits(list[ToolParam], asked["tools"])
    outputs = [item for item in service.requests[-1]["input"] if item.get("type") == "function_call_output"]
    fits(list[FunctionCallOutput], outputs)
    assert [output["caller"] for output in outputs] == [CALLER] * 3


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
async def test_a_program_is_answered_from_async_code(streams):
    service, kit = OpenAIService(counts), make_kit()
    with serving(service) as url:
        async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            asked = request(list(kit.to("openai-responses", programmatic_tool_calling=True)))
            said = await aconverse_openai(client, kit, asked, streams=streams)
    assert said == "The program said: 5, Error: There is no such thing."


def test_without_its_own_tool_the_service_refuses_tools_for_programs(connect):
    with pytest.raises(BadRequestError, match="requires programmatic_tool_calling"):
        connect(OpenAIService(counts)).responses.create(**request(list(make_kit().to("openai-responses"))))


def test_an_output_without_the_caller_is_refused(connect):
    service, kit = OpenAIService(counts), make_kit()
    client = connect(service)
    asked = request(list(kit.to("openai-responses", programmatic_tool_calling=True)))
    answer = client.responses.create(**asked)
    outputs = [{key: value for key, value in output.items() if key != "caller"} for output in kit.run(answer)]
    asked["input"] += [*(item.model_dump(exclude_none=True) for item in answer.output), *outputs]
    with pytest.raises(BadRequestError, match="The caller of call_1 is missing"):
        client.responses.create(**asked)


def test_a_program_that_calls_a_tool_for_the_model_alone_gets_an_error():
    item = {"type": "function_call", "call_id": "c1", "name": "order", "arguments": '{"sku": "a"}', "caller": CALLER}
    [output] = make_kit().run([item], format="openai-responses")
    assert output == {
        "type": "function_call_output",
        "call_id": "c1",
        "output": "Error: The tool 'order' cannot be called by a program. Call it directly.",
        "caller": CALLER,
    }


def test_a_program_waits_for_an_approval_as_long_as_the_toolkit():
    kit = Toolkit("desk", approval_expiry=86_400)
    kit.tool(requires_approval=True)(order_one)
    item = {"type": "function_call", "call_id": "c1", "name": "order_one", "arguments": "{}", "caller": CALLER}
    run = kit.run([item], format="openai-responses")
    assert run.continuation.answer_by is None
    [output] = kit.resume(run, approved=True)
    assert (output["output"], output["caller"]) == ("Ordered.", CALLER)


def order_one() -> str:
    """Order one."""
    return "Ordered."
