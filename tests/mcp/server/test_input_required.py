"""A served tool may ask its client for input, or say that the client lacks a capability, as FastMCP sends both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.client.elicitation import ElicitResult
from fastmcp.tools import Tool
from mcp.shared.exceptions import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    TextContent,
)
from pydantic import Field
from typing_extensions import TypeAliasType

from ahvn_tools import Toolkit, ToolResult, ToolSpec
from ahvn_tools.errors import InputRequiredError
from ahvn_tools.execution.call import Call, Next
from ahvn_tools.middleware.cache import cache
from ahvn_tools.middleware.log import log
from ahvn_tools.middleware.retry import retry

Alias = TypeAliasType("Alias", InputRequiredResult | None)
NAME_SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


async def greet(greeting: str, context: Context) -> str | InputRequiredResult:
    """Greet the user by name."""
    answer = (context.input_responses or {}).get("user")
    if answer is not None and answer.content:
        return f"{greeting}, {answer.content['name']} ({context.request_state})"
    params = ElicitRequestFormParams(message="What is your name?", requested_schema=NAME_SCHEMA)
    return InputRequiredResult(input_requests={"user": ElicitRequest(params=params)}, request_state="asked")


def need_sampling() -> str:
    """Fail, because the client cannot sample."""
    data = {"requiredCapabilities": {"sampling": {}}}
    raise MCPError(code=MISSING_REQUIRED_CLIENT_CAPABILITY, message="Sampling is required.", data=data)


async def answer_ann(message: str, response_type: Any, params: Any, context: Any) -> ElicitResult[Any]:
    """Answer an elicitation."""
    assert message == "What is your name?"
    return ElicitResult(action="accept", content={"name": "Ann"})


async def pass_on(call: Call, next: Next) -> ToolResult:
    """Do nothing."""
    return await next(call)


KITS = {
    "plain": lambda: Toolkit("kit").add(greet),
    "middleware": lambda: Toolkit("kit", middleware=[cache(), retry(attempts=3), pass_on]).add(greet),
    "timeout": lambda: Toolkit("kit").add(greet, timeout=60),
    "fastmcp": lambda: Toolkit("kit").add(ToolSpec.from_mcp(Tool.from_function(greet))),
}


@pytest.mark.parametrize("create", KITS.values(), ids=KITS)
async def test_a_client_is_asked_for_input_and_calls_again_with_it(create: Any):
    async with Client(create().to_fastmcp_server(), elicitation_handler=answer_ann) as client:
        answer = await client.call_tool("greet", {"greeting": "Hello"})
    assert answer.data == "Hello, Ann (asked)"


async def test_a_question_to_a_client_is_logged_without_the_text_for_a_local_caller(caplog: pytest.LogCaptureFixture):
    kit = Toolkit("kit", middleware=[log()]).add(greet)
    with caplog.at_level("INFO"):
        async with Client(kit.to_fastmcp_server(), elicitation_handler=answer_ann) as client:
            await client.call_tool("greet", {"greeting": "Hello"})
        kit.add(ask_in_parts).exec("ask_in_parts")
    lines = [record.getMessage() for record in caplog.records if hasattr(record, "outcome")]
    assert ["input_required" in lines[0], " -> ok in " in lines[1]] == [True, True]
    assert ["served toolkit" in line for line in lines] == [False, False, True]


async def greet_in_parts(greeting: str, context: Context) -> AsyncIterator[str | InputRequiredResult]:
    """Greet the user by name, word by word."""
    yield greeting
    answer = await greet(greeting, context)
    yield answer
    yield "the end"


def ask_in_parts() -> Iterator[Any]:
    """Ask the user, after a first item."""
    yield 1
    params = ElicitRequestFormParams(message="What is your name?", requested_schema=NAME_SCHEMA)
    yield InputRequiredResult(input_requests={"user": ElicitRequest(params=params)})


@pytest.mark.parametrize("middleware", [[], [pass_on]], ids=["direct", "middleware"])
async def test_a_generator_asks_with_an_item_and_runs_again_from_its_start(middleware: list[Any]):
    kit = Toolkit("kit", middleware=middleware).add(greet_in_parts)
    async with Client(kit.to_fastmcp_server(), elicitation_handler=answer_ann) as client:
        answer = await client.call_tool("greet_in_parts", {"greeting": "Hello"})
    assert answer.structured_content == {"result": ["Hello", "Hello, Ann (asked)", "the end"]}


@pytest.mark.parametrize("middleware", [[], [pass_on]], ids=["direct", "middleware"])
async def test_a_generator_that_asks_a_local_caller_ends_with_an_error(middleware: list[Any]):
    kit = Toolkit("kit", middleware=middleware).add(ask_in_parts)
    results = [kit.exec("ask_in_parts"), await kit.aexec("ask_in_parts"), *kit.stream("ask_in_parts")]
    results += [result async for result in kit.astream("ask_in_parts")]
    assert [result.value for result in results if not result.is_last] == [1, 1]
    assert {result.error.code for result in results if result.is_last and result.error} == {"input_required"}
    assert not any("What is your name?" in result.text for result in results)
    with pytest.raises(InputRequiredError):
        kit.call("ask_in_parts")


async def test_a_hidden_tool_behind_search_asks_too():
    kit = Toolkit("kit").add(greet).add_search(core=[])
    async with Client(kit.to_fastmcp_server(), elicitation_handler=answer_ann) as client:
        answer = await client.call_tool("call_tool", {"name": "greet", "arguments": {"greeting": "Hello"}})
    assert answer.content == [TextContent(type="text", text="Hello, Ann (asked)")]


@pytest.mark.parametrize("middleware", [[], [pass_on]], ids=["direct", "middleware"])
async def test_a_tool_that_calls_such_a_tool_asks_too(middleware: list[Any]):
    inner = Toolkit("inner", middleware=middleware).add(greet)

    async def outer() -> str:
        """Call the other tool."""
        return f"outer: {await inner.acall('greet', {'greeting': 'Hello'})}"

    async with Client(Toolkit("kit").add(outer).to_fastmcp_server(), elicitation_handler=answer_ann) as client:
        assert (await client.call_tool("outer")).data == "outer: Hello, Ann (asked)"


async def test_a_client_of_an_older_protocol_learns_why_it_cannot_be_asked():
    async with Client(Toolkit("kit").add(greet).to_fastmcp_server(), mode="legacy") as client:
        with pytest.raises(MCPError, match="only exists at MCP 2026-07-28"):
            await client.call_tool("greet", {"greeting": "Hello"})


async def test_an_imported_tool_asks_the_elicitation_handler_of_the_import():
    server = FastMCP("remote")
    server.tool(greet)
    kit = await Toolkit("kit").aadd_mcp(server, name="remote", elicitation=answer_ann)
    result = await kit.aexec("greet", {"greeting": "Hello"})
    await kit.aremove_mcp("remote")
    assert (result.value, result.error) == ("Hello, Ann (asked)", None)


@pytest.mark.parametrize("middleware", [[], [pass_on]], ids=["direct", "middleware"])
async def test_a_local_caller_gets_an_error_and_no_request_as_text(middleware: list[Any]):
    def ask() -> InputRequiredResult:
        """Ask."""
        return InputRequiredResult(request_state="asked")

    kit = Toolkit("kit", middleware=middleware).add(ask)
    chunks = [chunk async for chunk in kit.astream("ask")]
    for result in (kit.exec("ask"), await kit.aexec("ask"), chunks[-1]):
        assert result.error is not None
        assert (result.error.code, "asked" in result.text, result.value) == ("input_required", False, None)
    for call in (kit.call, ToolSpec.from_function(ask).call if not middleware else kit["ask"].call):
        with pytest.raises(InputRequiredError, match="only a client of a served toolkit"):
            call("ask") if call == kit.call else call()


@pytest.mark.parametrize("is_masked", [True, False])
async def test_a_missing_capability_keeps_its_code_and_data(is_masked: bool):
    server = Toolkit("kit", middleware=[pass_on]).add(need_sampling).to_fastmcp_server(mask_errors=is_masked)
    async with Client(server) as client:
        with pytest.raises(MCPError) as raised:
            await client.call_tool("need_sampling")
    assert raised.value.error.code == MISSING_REQUIRED_CLIENT_CAPABILITY
    assert raised.value.error.data == {"requiredCapabilities": {"sampling": {}}}


@pytest.mark.parametrize(
    "annotation",
    [
        str | InputRequiredResult,
        int | str | InputRequiredResult,
        list[int] | Alias,
        Annotated[str | InputRequiredResult, Field(description="A text.")],
        InputRequiredResult,
    ],
)
def test_a_request_for_input_is_not_part_of_the_output_schema(annotation: Any):
    def ask() -> None: ...

    ask.__annotations__["return"] = annotation
    assert ToolSpec.from_function(ask).output_schema == Tool.from_function(ask).output_schema


async def test_other_protocol_errors_of_a_tool_are_masked():
    def fail() -> None:
        raise MCPError(code=-32000, message="secret")

    async with Client(Toolkit("kit").add(fail).to_fastmcp_server()) as client:
        answer = await client.call_tool_mcp("fail", {})
    assert (answer.is_error, answer.content[0].text) == (True, "Error calling tool 'fail'")
