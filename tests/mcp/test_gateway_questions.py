"""What the servers behind a served toolkit ask: the client whose call has caused it answers, and no other."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, Context, FastMCP
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)

from ahvn_tools import Toolkit
from tests.mcp import loopback, serving

FORM = {"type": "object", "properties": {"name": {"type": "string", "title": "Na\u200bme"}}, "required": ["name"]}
SECRET = "secret-4242"

server = FastMCP("remote")


@server.tool
async def ask(who: str, context: Context, token: str = "") -> str:
    """Ask as a server of the older protocols."""
    answer = await context.session.elicit_form(f"Who is {who}?\u200b {token}", FORM, context.request_id)
    return f"{who}: {answer.action} {answer.content}"


@server.tool
def ask_by_result(who: str, context: Context, token: str = "") -> Any:
    """Ask as a server of the newest protocol."""
    if context.input_responses is None:
        params = ElicitRequestFormParams(message=f"Who is {who}?\u200b {token}", requested_schema=FORM)
        return InputRequiredResult(input_requests={"who": ElicitRequest(params=params)})
    answer = context.input_responses["who"]
    return f"{who}: {answer.action} {answer.content}"


def _sampling(text: str) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=text))
    return CreateMessageRequest(
        params=CreateMessageRequestParams(messages=[message], max_tokens=9, include_context="allServers")
    )


@server.tool
async def sample(text: str, context: Context) -> str:
    """Ask a model as a server of the older protocols."""
    answer = await context.session.send_request(_sampling(text), CreateMessageResult)
    return str(answer.content.text)


@server.tool
def sample_by_result(text: str, context: Context) -> Any:
    """Ask a model as a server of the newest protocol."""
    if context.input_responses is None:
        return InputRequiredResult(input_requests={"it": _sampling(text)})
    return context.input_responses["it"].content.text


ASK = {"legacy": "ask", "auto": "ask_by_result"}
SAMPLE = {"legacy": "sample", "auto": "sample_by_result"}
both_servers = pytest.mark.parametrize("upstream", ["legacy", "auto"])
both_clients = pytest.mark.parametrize("mode", ["legacy", "auto"])


@asynccontextmanager
async def gateway(target: Any = server, **options: Any) -> AsyncIterator[Toolkit]:
    kit = await Toolkit("gateway").aadd_mcp(target, name="remote", **options)
    try:
        yield kit
    finally:
        await kit.aremove_mcp("remote")


class User:
    """The user of one client, who answers questions after a moment."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.messages: list[str] = []
        self.schemas: list[Any] = []

    async def __call__(self, message: str, _kind: Any, params: Any, _context: Any) -> dict[str, str]:
        self.messages.append(message)
        self.schemas.append(params.requested_schema)
        await asyncio.sleep(0.01)
        return {"name": self.name}


@both_servers
@both_clients
async def test_the_user_of_the_client_answers_the_question_of_a_server(upstream: str, mode: str) -> None:
    user = User("Ann")
    async with gateway(mode=upstream) as kit, Client(kit.to_fastmcp_server(), elicitation_handler=user, mode=mode) as c:
        result = await c.call_tool(ASK[upstream], {"who": "x"})
    assert result.content[0].text == "x: accept {'name': 'Ann'}"
    assert user.messages == ["The MCP server 'remote' asks: Who is x?\\u200b "]
    assert user.schemas[0]["properties"]["name"]["title"] == "Na\\u200bme"


@both_servers
@both_clients
async def test_a_question_shows_no_bound_value(upstream: str, mode: str) -> None:
    user = User("Ann")
    tools = {ASK[upstream]: {"preset": {"token": SECRET}}}
    async with (
        gateway(mode=upstream, tools=tools) as kit,
        Client(kit.to_fastmcp_server(), elicitation_handler=user, mode=mode) as c,
    ):
        await c.call_tool(ASK[upstream], {"who": "x"})
    assert SECRET not in user.messages[0]
    assert "<token>" in user.messages[0]


@both_servers
@both_clients
async def test_a_client_that_shows_no_questions_gets_an_error_that_says_so(upstream: str, mode: str) -> None:
    async with gateway(mode=upstream) as kit, Client(kit.to_fastmcp_server(), mode=mode) as c:
        result = await c.call_tool(ASK[upstream], {"who": "x"}, raise_on_error=False)
    assert result.is_error
    if upstream == "auto":
        assert result.content[0].text == "The MCP client of this call cannot show questions to its user."


@both_servers
@both_clients
@pytest.mark.parametrize("is_over_http", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
@pytest.mark.default_cases(1)
async def test_clients_that_call_at_once_each_answer_their_own_questions(
    upstream: str, mode: str, is_over_http: bool
) -> None:
    users = [User(name) for name in ("Ann", "Bob", "Cid")]

    async def call(url: Any, user: User) -> str:
        async with Client(url, elicitation_handler=user, mode=mode) as c:
            results = await asyncio.gather(*(c.call_tool(ASK[upstream], {"who": user.name}) for _ in range(3)))
            return {result.content[0].text for result in results}.pop()

    if is_over_http:
        with loopback.over_http(server) as target:
            async with gateway(target, mode=upstream) as kit, serving.over_http(kit) as url:
                answers = await asyncio.gather(*(call(url, user) for user in users))
    else:
        async with gateway(mode=upstream) as kit:
            served = kit.to_fastmcp_server()
            answers = await asyncio.gather(*(call(served, user) for user in users))
    assert answers == [f"{user.name}: accept {{'name': '{user.name}'}}" for user in users]
    for user in users:
        assert user.messages == [f"The MCP server 'remote' asks: Who is {user.name}?\\u200b "] * 3


async def test_a_question_over_stdio_is_not_asked_while_calls_of_several_clients_run() -> None:
    users = [User("Ann"), User("Bob")]
    command = [sys.executable, str(Path(__file__).parent / "client" / "asking_server.py")]

    async with (
        gateway(command) as kit,
        serving.over_http(kit) as url,
        Client(url, elicitation_handler=users[0], mode="legacy") as ann,
        Client(url, elicitation_handler=users[1], mode="legacy") as bob,
    ):
        alone = await ann.call_tool("ask", {"together": 1})
        both = await asyncio.gather(*(c.call_tool("ask", {"together": 2}, raise_on_error=False) for c in (ann, bob)))
    assert alone.content[0].text == "Ann"
    assert ["several clients" in result.content[0].text for result in both] == [True, True]
    assert [len(user.messages) for user in users] == [1, 0]


@both_servers
@both_clients
async def test_the_model_of_the_client_answers_a_server(upstream: str, mode: str) -> None:
    seen: list[Any] = []

    async def answer(messages: Any, params: Any, _context: Any) -> str:
        seen.append(params)
        return messages[0].content.text.upper()

    async with (
        gateway(mode=upstream, sampling="client") as kit,
        Client(kit.to_fastmcp_server(), sampling_handler=answer, mode=mode) as c,
    ):
        result = await c.call_tool(SAMPLE[upstream], {"text": "hello"})
    assert result.content[0].text == "HELLO"
    assert seen[0].include_context is None


@both_clients
async def test_the_time_of_a_person_does_not_count_towards_the_timeout(mode: str) -> None:
    async def answer_slowly(*_: Any) -> dict[str, str]:
        await asyncio.sleep(0.6)
        return {"name": "Ann"}

    async with (
        gateway(mode="legacy", timeout=0.5) as kit,
        Client(kit.to_fastmcp_server(), elicitation_handler=answer_slowly, mode=mode) as c,
    ):
        result = await c.call_tool("ask", {"who": "x"})
    assert result.content[0].text.startswith("x: accept")


async def test_a_call_is_continued_once() -> None:
    async with gateway(mode="legacy") as kit, Client(kit.to_fastmcp_server(), elicitation_handler=User("Ann")) as c:
        asked = await c.session.call_tool("ask", {"who": "x"}, allow_input_required=True)
        assert isinstance(asked, InputRequiredResult)
        answer = ElicitResult(action="accept", content={"name": "Ann"})
        answers: Any = dict.fromkeys(asked.input_requests or {}, answer)
        state = asked.request_state
        results = [
            await c.session.call_tool("ask", {"who": "x"}, input_responses=answers, request_state=state)
            for _ in range(2)
        ]
    assert [result.is_error for result in results] == [False, True]
    assert "has ended. Call the tool again." in results[1].content[0].text
