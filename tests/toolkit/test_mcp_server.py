"""A served toolkit, asked in memory on both wires: who sees what, whose state a call reads, what a client is told."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.server.providers import Provider
from mcp.shared.exceptions import MCPError
from mcp_types import ToolListChangedNotification
from pydantic import BaseModel

from ahvn_tools import ToolContext, ToolError, Toolkit, tool
from ahvn_tools.errors import ToolkitError
from ahvn_tools.toolkit.mcp_server import ToolkitServer

WIRES = ("legacy", "auto")


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> str:
    """The two generations of the protocol that a client may speak."""
    return str(request.param)


@asynccontextmanager
async def served(kit: Toolkit, wire: str, **options: Any) -> AsyncIterator[Any]:
    async with Client(kit.to_fastmcp_server(**options), mode=wire) as client:
        yield client


async def names(client: Any) -> list[str]:
    return [tool.name for tool in await client.list_tools()]


async def told(client: Any, name: str, /, **arguments: Any) -> str:
    """Call a tool that fails, and return what the client is told."""
    answer = await client.call_tool_mcp(name, arguments)
    assert answer.is_error
    (block,) = answer.content
    return str(block.text)


def giving(value: Any) -> Any:
    """Return a function that gives a value, and says of which type it is."""

    def give() -> Any:
        return value

    give.__annotations__["return"] = type(value)
    return give


def noting() -> Toolkit:
    """A toolkit with a bound user and a tool that adds."""
    kit = Toolkit("notes", state={"user": "nobody"})

    @kit.tool(tags={"read"})
    def notes_of(user: str, topic: str, limit: int = 3) -> str:
        """Find notes.

        Args:
            topic: What they are about.
        """
        return f"{user}: {topic} {limit}"

    @kit.tool
    async def add(a: int, b: int) -> int:
        return a + b

    return kit.bind("user")


async def test_a_client_sees_the_tools_as_the_toolkit_shows_them(wire: str):
    kit = noting()
    async with served(kit, wire) as client:
        listed = {tool.name: tool for tool in await client.list_tools()}
        assert list(listed) == ["notes_of", "add"]
        for definition in kit.definitions():
            assert listed[definition.name].input_schema == definition.input_schema
            assert listed[definition.name].output_schema == definition.output_schema
        assert listed["notes_of"].meta["fastmcp"]["tags"] == ["read"]


async def test_a_call_gives_structured_content_and_text(wire: str):
    async with served(noting(), wire) as client:
        answer = await client.call_tool_mcp("add", {"a": 1, "b": "2"})
    assert (answer.structured_content, answer.content[0].text, answer.is_error) == ({"result": 3}, "3", False)


async def test_arguments_are_checked_and_a_bound_parameter_is_refused(wire: str):
    async with served(noting(), wire) as client:
        assert "'a'" in await told(client, "add", a="one", b=2)
        assert "'user'" in await told(client, "notes_of", topic="tea", user="eve")


async def test_what_changes_in_the_toolkit_is_served_with_the_next_request(wire: str):
    kit = noting()
    async with served(kit, wire) as client:
        kit.add(giving(1), rename="one")
        kit["add"].bind("b", default=10)
        assert await names(client) == ["notes_of", "add", "one"]
        assert (await client.call_tool("add", {"a": 1})).data == 11
        kit.remove("add")
        assert await names(client) == ["notes_of", "one"]
        assert "Unknown tool" in await told(client, "add", a=1)


async def test_a_tool_of_another_version_is_not_there(wire: str):
    kit = Toolkit("old").add(tool(version="1.0")(noting))
    async with served(kit, wire) as client:
        asked = {"fastmcp": {"version": "2.0"}}
        answer = await client.call_tool("noting", {}, meta=asked, raise_on_error=False)
    assert "Unknown tool" in answer.content[0].text


# whose state


async def test_a_request_fills_the_session_that_its_call_runs_in(wire: str):
    async with served(noting(), wire, state=lambda request: {"user": request.client["name"]}) as client:
        assert (await client.call_tool("notes_of", {"topic": "tea"})).data == "mcp: tea 3"


async def test_state_may_be_made_by_an_async_function_and_may_be_none(wire: str):
    async def ann(request: Any) -> dict[str, str]:
        await asyncio.sleep(0)
        return {"user": "ann"}

    async with served(noting(), wire, state=ann) as client:
        assert (await client.call_tool("notes_of", {"topic": "tea"})).data == "ann: tea 3"
    async with served(noting(), wire, state=lambda request: None) as client:
        assert (await client.call_tool("notes_of", {"topic": "tea"})).data == "nobody: tea 3"


async def test_two_clients_of_one_server_never_share_a_value(wire: str):
    kit = Toolkit("memory")

    @kit.tool
    async def keep(value: str, context: ToolContext) -> list[str]:
        context.toolkit.state["seen"] = value
        await asyncio.sleep(0.001)
        return [context.toolkit.state["seen"], context.toolkit.state["who"]]

    server = kit.to_fastmcp_server(state=lambda request: {"who": request.meta["who"]})
    async with Client(server, mode=wire) as one, Client(server, mode=wire) as two:
        calls = [
            client.call_tool("keep", {"value": f"{who}{number}"}, meta={"who": who})
            for number in range(20)
            for who, client in (("ann", one), ("bob", two))
        ]
        answers = [answer.data for answer in await asyncio.gather(*calls)]
    assert answers == [[f"{who}{number}", who] for number in range(20) for who in ("ann", "bob")]
    assert kit.state == {}


async def test_state_that_is_no_mapping_or_cannot_be_made_is_an_error_without_its_text(
    wire: str, caplog: pytest.LogCaptureFixture
):
    def broken(request: Any) -> Any:
        raise ValueError("password123")

    for state in (broken, lambda request: "password123"):
        async with served(noting(), wire, state=state) as client:
            assert await told(client, "add", a=1, b=2) == "Error calling tool 'add'"
    assert "ValueError (test_mcp_server.py, line" in caplog.text
    assert "password123" not in caplog.text


async def test_a_tool_error_of_the_state_function_speaks_to_the_client(wire: str):
    def locked(request: Any) -> Any:
        raise ToolError("Log in first.")

    async with served(noting(), wire, state=locked) as client:
        assert await told(client, "add", a=1, b=2) == "Log in first."


async def test_a_state_function_that_exits_does_not_end_the_server(wire: str):
    async with served(noting(), wire, state=lambda request: sys.exit(1)) as client:
        assert await told(client, "add", a=1, b=2) == "Error calling tool 'add'"
        assert len(await names(client)) == 2


# for whom


def for_roles() -> Toolkit:
    kit = Toolkit("roles")
    for name, audience in (("all", ()), ("staff", "staff"), ("boss", "boss"), ("both", ("staff", "boss"))):
        kit.add(giving("done"), rename=name, audience=audience)
    return kit


async def test_without_an_audience_only_what_is_for_everyone_is_served(wire: str):
    async with served(for_roles(), wire) as client:
        assert await names(client) == ["all"]
        assert await told(client, "staff") == "Unknown tool: 'staff'"


@pytest.mark.parametrize(
    ("audience", "shown"),
    [
        ("staff", ["all", "staff", "both"]),
        (["staff", "boss"], ["all", "staff", "boss", "both"]),
        (lambda request: "boss", ["all", "boss", "both"]),
        (lambda request: None, ["all"]),
    ],
)
async def test_an_audience_sees_what_is_for_it_and_for_everyone(wire: str, audience: Any, shown: list[str]):
    async with served(for_roles(), wire, audience=audience) as client:
        assert await names(client) == shown
        for name in shown:
            assert (await client.call_tool(name)).data == "done"


async def test_an_audience_may_be_found_out_by_an_async_function(wire: str):
    async def asked(request: Any) -> list[str]:
        await asyncio.sleep(0)
        return [request.meta["role"]] if "role" in request.meta else []

    async with served(for_roles(), wire, audience=asked) as client:
        assert await names(client) == ["all"]
        answer = await client.call_tool("boss", meta={"role": "boss"})
        assert answer.structured_content == {"result": "done"}
        assert await told(client, "boss") == "Unknown tool: 'boss'"


async def test_a_selection_that_names_an_audience_is_served_to_it(wire: str):
    kit = for_roles()
    kit.toolset("work", audience="staff")
    for view in (kit.select(audience="staff"), kit.select(toolset="work")):
        async with served(view, wire) as client:
            assert await names(client) == ["all", "staff", "both"]
    async with served(kit.select(audience="staff"), wire, audience="boss") as client:
        assert await names(client) == ["all", "both"]


async def test_an_audience_that_cannot_be_found_out_is_an_error_and_no_empty_list(
    wire: str, caplog: pytest.LogCaptureFixture
):
    def broken(request: Any) -> Any:
        raise ValueError("password123")

    async with served(for_roles(), wire, audience=broken) as client:
        with pytest.raises(MCPError, match="The tools cannot be listed"):
            await client.list_tools()
        assert await told(client, "all") == "Error calling tool 'all'"
    assert "password123" not in caplog.text


@pytest.mark.parametrize("option", ["audience", "session"])
@pytest.mark.parametrize(
    "kind", [SystemExit, KeyboardInterrupt, asyncio.CancelledError], ids=lambda kind: kind.__name__
)
async def test_no_function_that_is_asked_who_asks_ends_the_server(wire: str, option: str, kind: type[BaseException]):
    def ending(request: Any) -> Any:
        raise kind

    async with served(for_roles(), wire, **{option: ending}) as client:
        with pytest.raises(MCPError, match="The tools cannot be listed"):
            await client.list_tools()
        for _ in range(2):
            assert await told(client, "all") == "Error calling tool 'all'"


async def test_a_view_and_a_session_are_served_as_they_are(wire: str):
    kit = noting()
    async with served(kit.select(tags={"read"}).session(user="ann"), wire) as client:
        assert await names(client) == ["notes_of"]
        assert (await client.call_tool("notes_of", {"topic": "tea"})).data == "ann: tea 3"
        assert await told(client, "add", a=1, b=2) == "Unknown tool: 'add'"


@pytest.mark.parametrize("option", [{"state": 1}, {"session": "x"}, {"audience": 5}, {"audience": [""]}, {"stat": 1}])
def test_options_that_do_not_fit_are_refused(option: dict[str, Any]):
    with pytest.raises(ToolkitError):
        noting().to_fastmcp_server(**option)


# groups, search, approval, middleware


def grouped() -> Toolkit:
    kit = Toolkit("grouped").group("math", "Numbers.", notes="Be exact.")
    kit.add(giving(1), rename="one", group="math")
    return kit.add(kit.groups_tool())


class Listening:
    """A client that counts how often it is told of another list of tools."""

    def __init__(self, server: Any, wire: str) -> None:
        self.changes = 0
        self.client = Client(server, mode=wire, message_handler=self.take)

    async def take(self, message: Any) -> None:
        self.changes += isinstance(message, ToolListChangedNotification)


async def test_a_tool_of_a_group_that_is_not_active_says_so(wire: str):
    async with served(grouped(), wire) as client:
        assert await names(client) == ["set_groups"]
        assert "group 'math' is not active" in await told(client, "one")


async def test_groups_are_switched_for_one_client_alone_and_it_is_told(wire: str):
    server = grouped().to_fastmcp_server(session=lambda request: request.meta.get("me", "?"))
    one, two = Listening(server, wire), Listening(server, wire)
    async with one.client, two.client:
        assert await names(one.client) == ["set_groups"]
        answer = await one.client.call_tool("set_groups", {"math": True}, meta={"me": "ann"})
        assert "Be exact." in answer.data
        assert (one.changes, two.changes) == (1, 0)
        assert (await one.client.call_tool("one", meta={"me": "ann"})).structured_content == {"result": 1}
        assert "not active" in await told(two.client, "one")
        assert one.changes == 1


async def test_an_older_client_is_known_by_its_own_session():
    server = grouped().to_fastmcp_server()
    async with Client(server, mode="legacy") as one, Client(server, mode="legacy") as two:
        await one.call_tool("set_groups", {"math": True})
        assert (await names(one), await names(two)) == (["one", "set_groups"], ["set_groups"])


async def test_requests_belong_together_by_what_an_async_function_says_too(wire: str):
    async def desk(request: Any) -> Any:
        return request.meta.get("desk")

    def where(context: ToolContext) -> str:
        return str(context.session_id)

    async with served(Toolkit("where").add(where), wire, session=desk) as client:
        answers = [(await client.call_tool("where", meta={"desk": "one"})).data for _ in range(2)]
    assert answers[0] == answers[1]
    assert answers[0].endswith("one")


@pytest.mark.parametrize("given", [5, b"one", ["one"]])
async def test_what_says_which_requests_belong_together_has_to_be_a_text(wire: str, given: Any):
    async with served(noting(), wire, session=lambda request: given) as client:
        assert await told(client, "add", a=1, b=2) == "Error calling tool 'add'"


async def test_an_empty_text_says_nothing_of_which_requests_belong_together(wire: str):
    async with served(grouped(), wire, session=lambda request: "") as client:
        assert "cannot tell this client from others" in await told(client, "set_groups", math=True)


async def test_a_tool_may_finish_with_a_model_for_one_client(wire: str):
    class Report(BaseModel):
        score: int

    kit = Toolkit("reporting").add(giving("done"), rename="report")

    @kit.tool
    def judge(context: ToolContext) -> None:
        context.toolkit.finish_with("report", Report)

    async with served(kit, wire, session=lambda request: request.meta.get("me", "?")) as client:
        await client.call_tool("judge")
        (report, _) = await client.list_tools()
        assert list(report.input_schema["properties"]) == ["score"]
        assert (await client.call_tool("report", {"score": 1})).data == "done"
        assert "score" in await told(client, "report")
        answer = await client.call_tool("report", meta={"me": "ann"})
        assert answer.structured_content == {"result": "done"}


async def test_groups_cannot_be_switched_for_a_client_that_nothing_tells_from_others():
    async with served(grouped(), "auto") as client:
        assert "cannot tell this client from others" in await told(client, "set_groups", math=True)


async def test_a_client_is_told_once_with_its_next_call_of_a_change_that_came_between(wire: str):
    kit = noting()
    listening = Listening(kit.to_fastmcp_server(session=lambda request: "one"), wire)
    async with listening.client as client:
        await client.call_tool("add", {"a": 1, "b": 2})
        assert listening.changes == 0
        await client.list_tools()
        kit.add(giving(1), rename="one")
        for _ in range(2):
            await client.call_tool("add", {"a": 1, "b": 2})
        assert listening.changes == 1
        kit.remove("one")
        await client.list_tools()
        await client.call_tool("add", {"a": 1, "b": 2})
        assert listening.changes == 1


async def test_a_tool_that_adds_tools_tells_its_client(wire: str):
    kit = Toolkit("growing")

    @kit.tool
    def grow() -> None:
        kit.add(giving(1), rename=f"tool{len(kit)}")

    listening = Listening(kit.to_fastmcp_server(), wire)
    async with listening.client as client:
        await client.call_tool("grow")
        await client.call_tool("grow")
        assert await names(client) == ["grow", "tool1", "tool2"]
    assert listening.changes == 2


async def test_a_large_toolkit_is_served_behind_search(wire: str):
    kit = noting().add_search(core=["add"])
    async with served(kit, wire, state=lambda request: {"user": "ann"}) as client:
        assert await names(client) == ["add", "search_tools", "call_tool"]
        found = await client.call_tool("search_tools", {"query": "find notes"})
        assert [tool["name"] for tool in found.data] == ["notes_of"]
        arguments = {"name": "notes_of", "arguments": {"topic": "tea"}}
        assert (await client.call_tool("call_tool", arguments)).content[0].text == "ann: tea 3"
        assert (await client.call_tool("notes_of", {"topic": "tea"})).content[0].text == "ann: tea 3"


async def test_search_finds_nothing_that_is_not_for_this_client(wire: str):
    kit = for_roles().add_search()
    async with served(kit, wire) as client:
        found = await client.call_tool("search_tools", {"query": "staff boss"})
        assert found.data == []
        assert "There is no tool" in await told(client, "call_tool", name="staff")


async def test_whom_a_tool_is_not_for_learns_nothing_of_it_through_call_tool_either(wire: str):
    kit = (
        for_roles().group("night", "Late.").add(giving(1), rename="alarm", group="night", audience="boss").add_search()
    )
    async with served(kit, wire) as client:
        for name in ("staff", "alarm", "nobody"):
            answer = await told(client, "call_tool", name=name)
            assert answer.startswith(f"There is no tool {name!r}.")
            assert "alarm" not in answer.removeprefix(f"There is no tool {name!r}.")


async def test_a_tool_error_that_nobody_can_send_is_told_all_the_same(wire: str):
    def broken(request: Any) -> Any:
        raise ToolError("not \ud800")

    async with served(for_roles(), wire, audience=broken) as client:
        with pytest.raises(MCPError, match="not \ufffd"):
            await client.list_tools()
        assert await told(client, "all") == "not \ufffd"


async def test_a_call_that_needs_an_approval_asks_the_approver_or_says_that_it_waits(wire: str):
    kit = Toolkit("careful").add(giving("gone"), rename="delete", requires_approval=True)
    async with served(kit, wire) as client:
        answer = await client.call_tool_mcp("delete", {})
        assert answer.is_error
        assert "needs an approval" in answer.content[0].text
        assert answer.meta["approval"]["tool"] == "delete"
    kit = Toolkit("careful", approver=lambda request: request.tool == "delete")
    kit.add(giving("gone"), rename="delete", requires_approval=True)
    async with served(kit, wire) as client:
        assert (await client.call_tool("delete")).data == "gone"


async def test_the_middleware_of_the_toolkit_stands_around_served_calls(wire: str):
    kit, seen = noting(), []

    async def watch(call: Any, next: Any) -> Any:
        seen.append((call.name, call.is_served, call.session_id is not None))
        return await next(call)

    kit.use(watch)
    async with served(kit, wire) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
    assert seen == [("add", True, True)]


# what is told


async def test_what_a_tool_raises_is_told_only_when_the_server_says_so(wire: str, caplog: pytest.LogCaptureFixture):
    kit = Toolkit("failing", state={"token": "hunter2-hunter2"})

    @kit.tool
    def fail(token: str) -> None:
        raise ValueError(f"no access with {token}")

    kit.bind("token", secret=True)
    with caplog.at_level(logging.ERROR):
        async with served(kit, wire) as client:
            assert await told(client, "fail") == "Error calling tool 'fail'"
    assert "'fail' raised ValueError (test_mcp_server.py, line" in caplog.text
    async with served(kit, wire, mask_errors=False) as client:
        assert await told(client, "fail") == "ValueError: no access with <token>"
    assert "hunter2" not in caplog.text


async def test_a_tool_error_is_told_as_it_is(wire: str, caplog: pytest.LogCaptureFixture):
    def refuse() -> None:
        raise ToolError("Not on Sundays.")

    async with served(Toolkit("closed").add(refuse), wire) as client:
        assert await told(client, "refuse") == "Not on Sundays."
    assert caplog.text == ""


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, asyncio.CancelledError])
@pytest.mark.parametrize("is_async", [False, True])
async def test_whatever_a_tool_raises_the_server_goes_on(wire: str, kind: type[BaseException], is_async: bool):
    def fail() -> None:
        raise kind("bye")

    async def afail() -> None:
        raise kind("bye")

    kit = noting().add(afail if is_async else fail, rename="fail")
    async with served(kit, wire) as client:
        await told(client, "fail")
        assert (await client.call_tool("add", {"a": 1, "b": 2})).data == 3


async def test_progress_and_output_reach_the_client_in_order(wire: str):
    kit, seen = Toolkit("working"), []

    @kit.tool
    def work(context: ToolContext) -> str:
        context.append_output("first")
        context.report_progress(1, 2, "half")
        context.append_output({"a": 1})
        threading.Thread(target=context.report_progress, args=(2, 2, "whole")).start()
        time.sleep(0.05)
        return "done"

    async def take(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with served(kit, wire) as client:
        assert (await client.call_tool("work", progress_handler=take)).data == "done"
    assert [message for _, _, message in seen] == ["first", "half", '{"a": 1}', "whole"]
    assert [progress for progress, _, _ in seen] == pytest.approx([1, 1, 1, 2])
    assert seen[2][0] > seen[1][0]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"auth": "secret"}, "`auth` of a server is a FastMCP auth provider or token verifier.*not a str"),
        ({"fastmcp": {"name": "x", "auth": None}}, r"Give \['auth', 'name'\] beside `fastmcp`"),
    ],
)
def test_options_that_do_not_fit_are_refused_with_what_to_give(options: Any, told: str):
    with pytest.raises(ToolkitError, match=told):
        noting().to_fastmcp_server(**options)


def test_what_every_client_is_told_alike_is_nothing_of_a_tool_that_is_for_none_of_them():
    kit = Toolkit("kit").add(giving(1), rename="for_all").add(giving(2), rename="for_clerks", audience="clerk")
    for options in ({}, {"audience": "guest"}):
        served = ToolkitServer(kit._view, options)
        assert served.find_for_any_client("for_all") is not None
        assert served.find_for_any_client("for_clerks") is None
    for options in ({"audience": "clerk"}, {"audience": lambda request: "clerk"}):
        assert ToolkitServer(kit._view, options).find_for_any_client("for_clerks") is not None


async def test_what_a_host_adds_beside_the_toolkit_neither_hides_nor_breaks_it(wire: str):
    class Down(Provider):
        async def _list_tools(self) -> Any:
            raise RuntimeError

    kit = Toolkit("kit").add(giving(1), rename="one")
    server = kit.to_fastmcp_server()
    server.tool(name="one")(giving("theirs"))
    server.tool(name="two")(giving(2))
    server.add_provider(Down())
    async with Client(server, mode=wire) as client:
        assert await names(client) == ["one", "two"]
        assert (await client.call_tool("one")).data == 1
        assert (await client.call_tool("two")).data == 2


async def test_the_host_may_use_the_server_outside_of_any_request():
    kit = Toolkit("kit")

    @kit.tool
    def add(left: int, right: int) -> int:
        return left + right

    @kit.tool
    def grow() -> None:
        kit.add(len)

    server = kit.to_fastmcp_server(state=lambda request: {"over": request.transport})
    assert [tool.name for tool in await server.list_tools()] == ["add", "grow"]
    assert not (await server.call_tool("grow")).is_error
    assert (await server.call_tool("add", {"left": 1, "right": 2})).structured_content == {"result": 3}
    tool = await server.get_tool("add")
    assert (await tool.run({"left": 1, "right": 2})).structured_content == {"result": 3}
    assert await server.get_tool("subtract") is None


async def test_whatever_tells_something_it_is_told_in_that_order(wire: str):
    kit, seen = Toolkit("working"), []

    @kit.tool
    def work(context: ToolContext) -> None:
        for number in range(50):
            context.append_output(f"output {number}")
            reporting = threading.Thread(target=context.report_progress, args=(number, None, f"report {number}"))
            reporting.start()
            reporting.join()

    async def take(progress: float, total: float | None, message: str | None) -> None:
        seen.append(message)

    async with served(kit, wire) as client:
        await client.call_tool("work", progress_handler=take)
    assert seen == [f"{what} {number}" for number in range(50) for what in ("output", "report")]


async def test_a_flood_of_reports_waits_in_bounded_memory_and_the_last_one_arrives(wire: str):
    kit, seen = Toolkit("working"), []

    @kit.tool
    async def work(context: ToolContext) -> None:
        for number in range(10_000):
            context.report_progress(number)

    async def take(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with served(kit, wire) as client:
        await client.call_tool("work", progress_handler=take)
    assert (seen[0], seen[-1]) == (0, 9_999)
    assert len(seen) <= 200


async def test_what_is_told_after_the_end_is_told_nobody(wire: str):
    kit, seen, contexts = Toolkit("working"), [], []

    @kit.tool
    def work(context: ToolContext) -> None:
        contexts.append(context)
        context.report_progress(1, 2, "half")

    async def take(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with served(kit, wire) as client:
        await client.call_tool("work", progress_handler=take)
        contexts[0].report_progress(2, 2, "late")
        contexts[0].append_output("late")
        await client.list_tools()
    assert seen == [(1, 2, "half")]
    contexts[0].report_progress(2, 2, "when the server has gone")


async def test_an_async_tool_may_report_and_return_at_once(wire: str):
    kit, seen = Toolkit("working"), []

    @kit.tool
    async def work(context: ToolContext) -> int:
        context.report_progress(1)
        return 1

    async def take(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with served(kit, wire) as client:
        await client.call_tool("work", progress_handler=take)
        assert seen == [1]


async def test_items_of_a_generator_are_progress_and_then_the_result(wire: str):
    kit, seen = Toolkit("counting"), []

    @kit.tool
    async def count(up_to: int) -> AsyncIterator[int]:
        for number in range(up_to):
            yield number

    async def take(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, message))

    async with served(kit, wire) as client:
        assert (await client.call_tool("count", {"up_to": 3}, progress_handler=take)).data == [0, 1, 2]
    assert seen == [(1, "0"), (2, "1"), (3, "2")]


async def test_a_tool_that_nobody_waits_for_is_told(wire: str):
    kit, ended = Toolkit("waiting"), threading.Event()

    @kit.tool
    def wait(context: ToolContext) -> None:
        while not context.cancelled:
            time.sleep(0.005)
        ended.set()

    async with served(kit, wire) as client:
        with pytest.raises(MCPError):
            await client.call_tool("wait", timeout=0.2)
        assert await asyncio.to_thread(ended.wait, 5)


async def test_a_call_can_be_cancelled_on_the_host_by_its_id(wire: str):
    kit, begun = Toolkit("waiting"), asyncio.get_running_loop().create_future()

    @kit.tool
    async def wait(context: ToolContext) -> None:
        begun.set_result(context.call_id)
        await asyncio.sleep(60)

    async with served(kit, wire) as client:
        call = asyncio.ensure_future(client.call_tool_mcp("wait", {}))
        assert kit.cancel(await begun)
        assert "was cancelled" in (await call).content[0].text


async def test_a_timeout_holds_for_sync_tools_too(wire: str):
    kit = Toolkit("slow", timeout=0.1).add(lambda: time.sleep(2), rename="sleep")
    async with served(kit, wire) as client:
        began = time.perf_counter()
        assert "within 0.1 seconds" in await told(client, "sleep")
        assert time.perf_counter() - began < 1


async def test_a_tool_that_refuses_to_be_cancelled_does_not_hold_up_the_next_call(wire: str):
    kit, release = noting(), asyncio.Event()

    @kit.tool
    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    async with served(kit, wire) as client:
        with pytest.raises(MCPError):
            await client.call_tool("stubborn", timeout=0.1)
        began = time.perf_counter()
        assert (await client.call_tool("add", {"a": 1, "b": 2})).data == 3
        assert time.perf_counter() - began < 1
    release.set()


async def test_a_thousand_calls_at_once_are_all_right(wire: str):
    async with served(noting(), wire, state=lambda request: {"user": request.meta["who"]}) as client:
        calls = [client.call_tool("notes_of", {"topic": "x", "limit": n}, meta={"who": f"u{n}"}) for n in range(1_000)]
        answers = [answer.data for answer in await asyncio.gather(*calls)]
    assert answers == [f"u{n}: x {n}" for n in range(1_000)]


def test_what_a_model_should_know_of_the_active_groups_is_told_to_clients():
    kit = Toolkit("grouped").group("math", active=True, notes="Be exact.").group("art", notes="Be bold.")
    assert kit.to_fastmcp_server().instructions == "Be exact."
    assert kit.to_fastmcp_server(instructions="Other.", name="x", version="3").instructions == "Other."
    assert noting().to_fastmcp_server().instructions is None
