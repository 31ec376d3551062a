"""A toolkit between an MCP server and an MCP client: what the server asks for, and the code of its error."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastmcp import Client, Context, FastMCP
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)

from ahvn_tools import ApprovalRules, ToolError, Toolkit
from tests.mcp import loopback
from tests.mcp.hostile.driver import command

TOKEN = "token-4242"
QUESTION = ElicitRequestFormParams(
    message="Who are you?", requested_schema={"type": "object", "properties": {"name": {"type": "string"}}}
)

server = FastMCP("remote")


@server.tool
def greet(context: Context) -> Any:
    """Ask for a name by an InputRequiredResult, and greet."""
    if context.input_responses is None:
        return InputRequiredResult(input_requests={"who": ElicitRequest(params=QUESTION)})
    answer = context.input_responses["who"]
    return f"{answer.action} {answer.content}"


@server.tool
def refuse(code: int, token: str) -> str:
    """Raise an MCPError that repeats the token wherever it can."""
    raise MCPError(code, f"refused with {token}", {"requiredCapabilities": {"sampling": {token: {}}, token: {}}})


@asynccontextmanager
async def gateway(target: Any, **options: Any) -> AsyncIterator[Client[Any]]:
    """Import the server into a toolkit, and yield a client of this toolkit."""
    tools = {"refuse": {"preset": {"token": TOKEN}}}
    kit = await Toolkit("gateway").aadd_mcp(target, name="remote", tools=tools, **options)
    try:
        async with Client(kit.to_fastmcp_server()) as client:
            yield client
    finally:
        await kit.aremove_mcp("remote")


async def answer(message: str, *_: Any) -> dict[str, str]:
    return {"name": f"asked {message!r}"}


@pytest.mark.parametrize("is_over_http", [False, True])
async def test_input_request_of_a_server_goes_to_the_handler_of_add_mcp(is_over_http: bool) -> None:
    if is_over_http:
        with loopback.over_http(server) as url:
            async with gateway(url, elicitation=answer) as client:
                result = await client.call_tool("greet")
    else:
        async with gateway(server, elicitation=answer) as client:
            result = await client.call_tool("greet")
    assert result.content[0].text == f"accept {{'name': \"asked {QUESTION.message!r}\"}}"


async def test_missing_capability_keeps_its_code_and_its_names_but_no_text_of_the_server() -> None:
    async with gateway(server) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("refuse", {"code": MISSING_REQUIRED_CLIENT_CAPABILITY})
    assert caught.value.code == MISSING_REQUIRED_CLIENT_CAPABILITY
    assert caught.value.data == {"requiredCapabilities": {"sampling": {}}}
    assert TOKEN not in str(caught.value)


async def test_other_error_of_a_server_is_an_error_result() -> None:
    """As through FastMCP's own proxy. The exception of a local call has the code."""
    kit = await Toolkit("gateway").aadd_mcp(command("telling_failure"), name="remote")
    async with Client(kit.to_fastmcp_server()) as client:
        result = await client.call_tool("bad", raise_on_error=False)
    with pytest.raises(ToolError) as caught:
        await kit.acall("bad")
    await kit.aremove_mcp("remote")
    assert result.is_error
    assert result.content[0].text.endswith(" more characters)")
    assert isinstance(caught.value.__cause__, MCPError)
    assert caught.value.__cause__.code == INTERNAL_ERROR
    assert caught.value.mcp_response is None


@pytest.mark.parametrize(
    ("by_rule", "approver", "outcome"),
    [
        (True, None, ("ok", ["client"])),
        (True, "host", ("ok", ["host"])),
        (False, "host", ("ok", ["host"])),
        (False, None, ("request", [])),
    ],
)
async def test_who_approves_calls_of_the_tools_behind_a_gateway(
    by_rule: bool, approver: str | None, outcome: tuple[str, list[str]]
) -> None:
    shop, asked = FastMCP("shop"), []
    shop.tool(lambda: "ok", name="buy", description="Buy.")

    async def ask_client(*_: Any) -> ElicitResult:
        asked.append("client")
        return ElicitResult(action="accept", content={"approve": True})

    def ask_host(_: Any) -> bool:
        asked.append("host")
        return True

    rules = ApprovalRules(mode="allow", ask=["shop/buy"]) if by_rule else None
    kit = Toolkit("gateway", rules=rules, approver=ask_host if approver == "host" else None)
    await kit.aadd_mcp(shop, requires_approval=not by_rule)
    try:
        async with Client(kit.to_fastmcp_server(), elicitation_handler=ask_client) as client:
            result = await client.call_tool("buy", raise_on_error=False)
    finally:
        await kit.aremove_mcp()
    found = "request" if result.is_error and "approval" in str(result.meta) else result.content[0].text
    assert (found, asked) == outcome
