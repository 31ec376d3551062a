"""Anthropic's programs call tools of a toolkit: with its SDK, against a server that refuses what Anthropic refuses."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("anthropic", reason='needs the SDK: pip install "ahvn-tools[anthropic]"')

from anthropic import Anthropic, AsyncAnthropic, BadRequestError
from anthropic.types import MessageParam, ToolUnionParam
from mcp_types import ImageContent, TextContent

from ahvn_tools import Run, ToolError, Toolkit
from ahvn_tools.errors import ToolkitError
from tests.formats.hosted.anthropic_service import CONTAINER, AnthropicService
from tests.formats.hosted.conversation import aconverse_anthropic, anthropic_request, converse_anthropic
from tests.formats.hosted.server import serving
from tests.formats.sdks.type_checks import fits

ROWS = {"West": [3, 4], "East": [5]}
PNG = base64.b64encode(b"\x89PNG").decode()


def make_kit() -> Toolkit:
    """Return a toolkit with a tool for programs and one for the model."""
    kit = Toolkit("sales", state={"user": "ann"})

    @kit.tool(allowed_callers=["programmatic"])
    def rows(region: str, user: str) -> list[int]:
        """Return the revenues of a region."""
        if region not in ROWS:
            raise ToolError(f"There is no region {region!r}.")
        return ROWS[region]

    @kit.tool(allowed_callers=["direct"])
    def send(text: str) -> str:
        """Send a text."""
        return f"Sent {text}."

    @kit.tool
    def chart(region: str) -> list[Any]:
        """Draw a chart."""
        return [TextContent(type="text", text=region), ImageContent(type="image", data=PNG, mime_type="image/png")]

    return kit.bind("user")


def sums() -> Iterator[Any]:
    """Sum the rows of two regions, and then of a third that does not exist."""
    west, east = yield [("rows", {"region": "West"}), ("rows", {"region": "East"})]
    [missing] = yield [("rows", {"region": "North"})]
    return f"{sum(json.loads(west)) + sum(json.loads(east))}, {missing}"


@pytest.fixture
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Anthropic]]:
    """Returns a client of a service; the server stops at the end of the test."""
    with contextlib.ExitStack() as stack:

        def connected(service: AnthropicService) -> Anthropic:
            url = stack.enter_context(serving(service))
            return stack.enter_context(Anthropic(base_url=url, api_key="none", max_retries=0))

        yield connected


def export(kit: Toolkit, **options: Any) -> list[Any]:
    """Return the tools with Anthropic's own."""
    return list(kit.to("anthropic", code_execution=True, **options))


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
def test_a_program_calls_tools_in_several_turns_and_in_parallel(connect, streams):
    service = AnthropicService(sums)
    request = anthropic_request(export(make_kit()))
    said = converse_anthropic(connect(service), make_kit(), request, streams=streams)
    assert said == "The program said: 12, Error: There is no region 'North'."
    assert [each.get("container") for each in service.requests] == [None, CONTAINER, CONTAINER]
    fits(list[ToolUnionParam], request["tools"])
    fits(list[MessageParam], [message for message in request["messages"] if message["role"] == "user"])


@pytest.mark.parametrize("is_beta", [False, True], ids=["released", "beta"])
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
async def test_a_program_is_answered_from_async_code(streams, is_beta):
    service, kit = AnthropicService(sums).also_calls("send", {"text": "hello"}), make_kit()
    with serving(service) as url:
        async with AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as client:
            api = client.beta.messages if is_beta else client.messages
            said = await aconverse_anthropic(api, kit, anthropic_request(export(kit)), streams=streams)
    assert said == "The program said: 12, Error: There is no region 'North'."
    assert [each.get("container") for each in service.requests] == [None, CONTAINER, CONTAINER]


def test_a_call_of_the_model_and_those_of_its_program_are_answered_together(connect):
    service = AnthropicService(sums).also_calls("send", {"text": "hello"})
    request = anthropic_request(export(make_kit()))
    assert "12" in converse_anthropic(connect(service), make_kit(), request)
    first = service.requests[1]["messages"][-1]["content"]
    assert [block["content"] for block in first] == ["[3, 4]", "[5]", "Sent hello."]


def test_a_paused_turn_goes_on_without_a_message_of_the_host(connect):
    request = anthropic_request(export(make_kit()))
    service = AnthropicService(sums, pauses=True)
    assert converse_anthropic(connect(service), make_kit(), request).startswith("The program said: 12")
    assert [message["role"] for message in service.requests[-1]["messages"][-2:]] == ["user", "assistant"]


def test_an_image_in_the_result_of_a_program_is_a_note(connect):
    def draws() -> Iterator[Any]:
        [seen] = yield [("chart", {"region": "West"})]
        return seen

    tools = export(make_kit(), allowed_callers=["direct", "programmatic"])
    said = converse_anthropic(connect(AnthropicService(draws)), make_kit(), anthropic_request(tools))
    assert said == "The program said: West\n[image (image/png), not shown]"


def test_the_model_itself_still_sees_the_image():
    answer = [
        {"type": "tool_use", "id": "t1", "name": "chart", "input": {"region": "West"}, "caller": {"type": "direct"}}
    ]
    [message] = make_kit().run(answer, format="anthropic")
    assert [part["type"] for part in message["content"][0]["content"]] == ["text", "image"]


def test_without_the_container_the_service_refuses_the_results(connect):
    service, kit = AnthropicService(sums), make_kit()
    client, request = connect(service), anthropic_request(export(make_kit()))
    answer = client.messages.create(**request)
    request["messages"] += [{"role": "assistant", "content": answer.content}, *kit.run(answer)]
    with pytest.raises(BadRequestError, match="container_id is required"):
        client.messages.create(**request)


def test_without_code_execution_the_service_refuses_tools_for_programs(connect):
    with pytest.raises(BadRequestError, match="requires a code execution tool"):
        connect(AnthropicService(sums)).messages.create(**anthropic_request(list(make_kit().to("anthropic"))))


def test_strict_tools_stay_strict_beside_those_that_programs_call(connect):
    tools = export(make_kit(), strict=True)
    assert [tool.get("strict") for tool in tools] == [False, True, True, None]
    assert "12" in converse_anthropic(connect(AnthropicService(sums)), make_kit(), anthropic_request(tools))


def test_a_program_that_calls_a_tool_for_the_model_alone_gets_an_error(connect):
    """The service does not forbid it: `allowed_callers` is no boundary of Anthropic's."""

    def sends() -> Iterator[Any]:
        [answer] = yield [("send", {"text": "spam"})]
        return answer

    tools = make_kit().to("anthropic", code_execution=True)
    sent = [
        {**tool, "allowed_callers": ["code_execution_20260120"]} if "input_schema" in tool else tool for tool in tools
    ]
    said = converse_anthropic(connect(AnthropicService(sends)), make_kit(), anthropic_request(sent))
    assert said == "The program said: Error: The tool 'send' cannot be called by a program. Call it directly."


def waiting_run(expires_at: str = "2099-01-01T00:00:00Z") -> tuple[Toolkit, Run, list[str]]:
    """Return a run whose program waits for an approval, and what its tool has done."""
    closed: list[str] = []
    kit = Toolkit("desk")

    @kit.tool(requires_approval=True)
    def close(issue: str) -> str:
        closed.append(issue)
        return f"Closed {issue}."

    def closes() -> Iterator[Any]:
        [answer] = yield [("close", {"issue": "7"})]
        return answer

    service = AnthropicService(closes, expires_at=expires_at)
    request = anthropic_request(export(kit, allowed_callers="programmatic"))
    return kit, kit.run(service.answer(request), format="anthropic"), closed


def test_an_approval_in_time_goes_on_in_another_process_with_the_container():
    kit, run, closed = waiting_run()
    saved = Run.from_json(json.loads(json.dumps(run.to_json())))
    assert (saved.container, saved.continuation) == (run.container, run.continuation)
    done = kit.resume(saved, approved=True)
    assert (done.container.id, closed) == (CONTAINER, ["7"])
    [message] = done
    assert message["content"] == [{"type": "tool_result", "tool_use_id": "call_1", "content": "Closed 7."}]


def test_an_approval_after_the_end_of_the_container_runs_nothing():
    kit, run, closed = waiting_run("2020-01-01T00:00:00Z")
    with pytest.raises(ToolkitError, match="has expired"):
        kit.resume(run, approved=True)
    [message] = kit.resume(run, approved=False, reason="Too late.")
    assert (message["content"][0]["is_error"], closed) == (True, [])
    assert message["content"][0]["content"].startswith("Error: ")
