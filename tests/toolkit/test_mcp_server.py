"""A toolkit served in memory by both protocols: audiences, session state, notifications and errors."""

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
from mcp_types import Implementation, ToolListChangedNotification
from pydantic import BaseModel

from ahvn_tools import ToolContext, ToolError, Toolkit, tool
from ahvn_tools.errors import ToolkitError
from ahvn_tools.toolkit.mcp_server import ToolkitServer


@pytest.fixture(params=["auto", pytest.param("legacy", marks=pytest.mark.exhaustive)])
def wire(request: pytest.FixtureRequest) -> str:
    """The two generations of the protocol that a client may speak."""
    return str(request.param)


@asynccontextmanager
async def served(kit: Toolkit, wire: str, **options: Any) -> AsyncIterator[Any]:
    async with Client(kit.to_fastmcp_server(**options), mode=wire) as client:
        yield client


async def names(client: Any) -> list[str]:
    return [tool.name for tool in await client.list_tools()]


async def error_text(client: Any, name: str, /, **arguments: Any) -> str:
    """Call a tool that fails, and return the error text for the client."""
    answer = await client.call_tool_mcp(name, arguments)
    assert answer.is_error
    (block,) = answer.content
    return str(block.text)


async def reports_of(client: Any, name: str, /, **arguments: Any) -> tuple[Any, list[tuple[float, Any, Any]]]:
    """Call a tool, and return its data and the reports of its progress."""
    reports: list[tuple[float, Any, Any]] = []

    async def take(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))

    return (await client.call_tool(name, arguments, progress_handler=take)).data, reports


def giving(value: Any) -> Any:
    """Return a function that returns a value and declares its type."""

    def give() -> Any:
        return value

    give.__annotations__["return"] = type(value)
    return give


def noting() -> Toolkit:
    """A toolkit with a bound user and a tool that adds."""
    kit = Toolkit("notes", state={"user": "guest"})

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


async def test_a_client_sees_the_tools_as_the_toolkit_exports_them(wire: str):
    kit = noting()
    async with served(kit, wire) as client:
        listed = {tool.name: tool for tool in await client.list_tools()}
        assert list(listed) == ["notes_of", "add"]
        for definition in kit.definitions():
            assert listed[definition.name].input_schema == definition.input_schema
            assert listed[definition.name].output_schema == definition.output_schema
        assert listed["notes_of"].meta["fastmcp"]["tags"] == ["read"]


async def test_a_call_returns_structured_content_and_text(wire: str):
    async with served(noting(), wire) as client:
        answer = await client.call_tool_mcp("add", {"a": 1, "b": "2"})
    assert (answer.structured_content, answer.content[0].text, answer.is_error) == ({"result": 3}, "3", False)


async def test_arguments_are_checked_and_a_bound_parameter_is_refused(wire: str):
    async with served(noting(), wire) as client:
        assert "'a'" in await error_text(client, "add", a="one", b=2)
        assert "'user'" in await error_text(client, "notes_of", topic="tea", user="eve")


async def test_a_change_of_the_toolkit_is_served_with_the_next_request(wire: str):
    kit = noting()
    async with served(kit, wire) as client:
        kit.add(giving(1), rename="one")
        kit["add"].bind("b", default=10)
        assert await names(client) == ["notes_of", "add", "one"]
        assert (await client.call_tool("add", {"a": 1})).data == 11
        kit.remove("add")
        assert await names(client) == ["notes_of", "one"]
        assert "Unknown tool" in await error_text(client, "add", a=1)


async def test_a_tool_of_another_version_is_not_found(wire: str):
    kit = Toolkit("old").add(tool(version="1.0")(noting))
    async with served(kit, wire) as client:
        requests = {"fastmcp": {"version": "2.0"}}
        answer = await client.call_tool("noting", {}, meta=requests, raise_on_error=False)
    assert "Unknown tool" in answer.content[0].text


# whose state


async def test_a_request_fills_the_session_that_its_call_runs_in(wire: str):
    server = noting().to_fastmcp_server(state=lambda request: {"user": request.client["name"]})
    async with Client(server, mode=wire, client_info=Implementation(name="desk", version="1")) as client:
        assert (await client.call_tool("notes_of", {"topic": "tea"})).data == "desk: tea 3"


async def test_state_may_be_made_by_an_async_function_and_may_be_none(wire: str):
    async def ann(request: Any) -> dict[str, str]:
        await asyncio.sleep(0)
        return {"user": "ann"}

    async with served(noting(), wire, state=ann) as client:
        assert (await client.call_tool("notes_of", {"topic": "tea"})).data == "ann: tea 3"
    async with served(noting(), wire, state=lambda request: None) as client:
        assert (await client.call_tool("notes_of", {"topic": "tea"})).data == "guest: tea 3"


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
            assert await error_text(client, "add", a=1, b=2) == "Error calling tool 'add'"
    assert "ValueError (test_mcp_server.py, line" in caplog.text
    assert "password123" not in caplog.text


async def test_a_tool_error_of_the_state_function_reaches_the_client(wire: str):
    def locked(request: Any) -> Any:
        raise ToolError("Log in first.")

    async with served(noting(), wire, state=locked) as client:
        assert await error_text(client, "add", a=1, b=2) == "Log in first."


async def test_a_state_function_that_exits_does_not_end_the_server(wire: str):
    async with served(noting(), wire, state=lambda request: sys.exit(1)) as client:
        assert await error_text(client, "add", a=1, b=2) == "Error calling tool 'add'"
        assert len(await names(client)) == 2


# audiences


def for_roles() -> Toolkit:
    kit = Toolkit("roles")
    for name, audience in (("all", ()), ("staff", "staff"), ("boss", "boss"), ("both", ("staff", "boss"))):
        kit.add(giving("done"), rename=name, audience=audience)
    return kit


async def test_without_an_audience_only_tools_for_everyone_are_served(wire: str):
    async with served(for_roles(), wire) as client:
        assert await names(client) == ["all"]
        assert await error_text(client, "staff") == "Unknown tool: 'staff'"


@pytest.mark.parametrize(
    ("audience", "names_listed"),
    [
        ("staff", ["all", "staff", "both"]),
        (["staff", "boss"], ["all", "staff", "boss", "both"]),
        (lambda request: "boss", ["all", "boss", "both"]),
        (lambda request: None, ["all"]),
    ],
)
async def test_an_audience_sees_its_tools_and_those_for_everyone(wire: str, audience: Any, names_listed: list[str]):
    async with served(for_roles(), wire, audience=audience) as client:
        assert await names(client) == names_listed
        for name in names_listed:
            assert (await client.call_tool(name)).data == "done"


async def test_an_async_function_may_return_the_audience(wire: str):
    async def requests(request: Any) -> list[str]:
        await asyncio.sleep(0)
        return [request.meta["role"]] if "role" in request.meta else []

    async with served(for_roles(), wire, audience=requests) as client:
        assert await names(client) == ["all"]
        answer = await client.call_tool("boss", meta={"role": "boss"})
        assert answer.structured_content == {"result": "done"}
        assert await error_text(client, "boss") == "Unknown tool: 'boss'"


async def test_a_selection_that_names_an_audience_is_served_to_it(wire: str):
    kit = for_roles()
    kit.add_toolset("work", audience="staff")
    for view in (kit.select(audience="staff"), kit.select(toolset="work")):
        async with served(view, wire) as client:
            assert await names(client) == ["all", "staff", "both"]
    async with served(kit.select(audience="staff"), wire, audience="boss") as client:
        assert await names(client) == ["all", "both"]
    for any_of, listed in (
        (["work", {"audience": "boss"}], ["all", "staff", "boss", "both"]),
        (["work", {"names": ["boss"]}], ["all"]),
    ):
        async with served(kit.select(any_of=any_of), wire) as client:
            assert await names(client) == listed


async def test_a_failing_audience_function_is_an_error_and_no_empty_list(wire: str, caplog: pytest.LogCaptureFixture):
    def broken(request: Any) -> Any:
        raise ValueError("password123")

    async with served(for_roles(), wire, audience=broken) as client:
        with pytest.raises(MCPError, match="The tools cannot be listed"):
            await client.list_tools()
        assert await error_text(client, "all") == "Error calling tool 'all'"
    assert "password123" not in caplog.text


OF_THE_REQUEST: dict[str, Any] = {"state": {"user": "ann"}, "audience": None, "session": "desk"}
"""The options that may be functions of the request, each with a value that they may return."""


@pytest.mark.parametrize("option", OF_THE_REQUEST)
async def test_a_sync_function_of_the_request_never_runs_in_the_event_loop(wire: str, option: str):
    threads: set[int] = set()

    def resolve(request: Any) -> Any:
        assert request.transport in (None, "memory")
        threads.add(threading.get_ident())
        return OF_THE_REQUEST[option]

    async with served(noting(), wire, **{option: resolve}) as client:
        assert await names(client) == ["notes_of", "add"]
        assert (await client.call_tool("add", {"a": 1, "b": 2})).data == 3
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("option", OF_THE_REQUEST)
async def test_a_function_of_the_request_that_hangs_ends_with_the_timeout_of_the_call(
    wire: str, option: str, is_async: bool
):
    release = threading.Event()

    async def ahang(request: Any) -> None:
        await asyncio.sleep(60)

    def hang(request: Any) -> None:
        release.wait(60)

    kit = Toolkit("slow", timeout=0.1).add(giving("done"), rename="work")
    try:
        async with served(kit, wire, **{option: ahang if is_async else hang}) as client:
            assert "did not finish within 0.1 seconds; the `state`, `audience` or" in await error_text(client, "work")
    finally:
        release.set()


@pytest.mark.parametrize("option", OF_THE_REQUEST)
async def test_the_time_of_a_function_of_the_request_counts_towards_the_timeout(wire: str, option: str):
    async def slow(request: Any) -> Any:
        await asyncio.sleep(0.12)
        return OF_THE_REQUEST[option]

    kit = Toolkit("slow", timeout=0.2)

    @kit.tool
    async def work() -> str:
        await asyncio.sleep(0.12)
        return "done"

    async with served(kit, wire, **{option: slow}) as client:
        assert "did not finish within 0.2 seconds" in await error_text(client, "work")


async def test_an_audience_function_is_asked_once_for_each_call(wire: str):
    asked: list[str] = []

    async with served(for_roles(), wire, audience=lambda request: asked.append("all")) as client:
        assert (await client.call_tool("all")).data == "done"
        before = len(asked)
        assert (await client.call_tool("all")).data == "done"
    assert len(asked) - before == 1


async def test_a_view_and_a_session_are_served_as_they_are(wire: str):
    kit = noting()
    async with served(kit.select(tags={"read"}).session(user="ann"), wire) as client:
        assert await names(client) == ["notes_of"]
        assert (await client.call_tool("notes_of", {"topic": "tea"})).data == "ann: tea 3"
        assert await error_text(client, "add", a=1, b=2) == "Unknown tool: 'add'"


@pytest.mark.parametrize("option", [{"state": 1}, {"session": "x"}, {"audience": 5}, {"audience": [""]}, {"stat": 1}])
def test_options_that_do_not_fit_are_refused(option: dict[str, Any]):
    with pytest.raises(ToolkitError):
        noting().to_fastmcp_server(**option)


# groups, search, approval, middleware


def grouped() -> Toolkit:
    kit = Toolkit("grouped").add_group("math", "Numbers.", notes="Be exact.")
    kit.add(giving(1), rename="one", group="math")
    return kit.add(kit.groups_tool())


class Listening:
    """A client that counts its notifications of a changed list of tools."""

    def __init__(self, server: Any, wire: str) -> None:
        self.changes = 0
        self.client = Client(server, mode=wire, message_handler=self.take)

    async def take(self, message: Any) -> None:
        self.changes += isinstance(message, ToolListChangedNotification)


async def test_a_call_of_a_tool_in_an_inactive_group_says_so(wire: str):
    async with served(grouped(), wire) as client:
        assert await names(client) == ["set_groups"]
        assert "group 'math' is not active" in await error_text(client, "one")


async def test_groups_are_switched_for_one_client_alone_and_it_is_notified(wire: str):
    server = grouped().to_fastmcp_server(session=lambda request: request.meta.get("me", "?"))
    one, two = Listening(server, wire), Listening(server, wire)
    async with one.client, two.client:
        assert await names(one.client) == ["set_groups"]
        answer = await one.client.call_tool("set_groups", {"math": True}, meta={"me": "ann"})
        assert "Be exact." in answer.data
        assert (one.changes, two.changes) == (1, 0)
        assert (await one.client.call_tool("one", meta={"me": "ann"})).structured_content == {"result": 1}
        assert "not active" in await error_text(two.client, "one")
        assert one.changes == 1


async def test_an_older_client_is_known_by_its_own_session():
    server = grouped().to_fastmcp_server()
    async with Client(server, mode="legacy") as one, Client(server, mode="legacy") as two:
        await one.call_tool("set_groups", {"math": True})
        assert (await names(one), await names(two)) == (["one", "set_groups"], ["set_groups"])


async def test_an_async_function_may_return_the_session_id(wire: str):
    async def desk(request: Any) -> Any:
        return request.meta.get("desk")

    def where(context: ToolContext) -> str:
        return str(context.session_id)

    async with served(Toolkit("where").add(where), wire, session=desk) as client:
        answers = [(await client.call_tool("where", meta={"desk": "one"})).data for _ in range(2)]
    assert answers[0] == answers[1]
    assert answers[0].split(".")[0] == "one"


@pytest.mark.parametrize("session_id", [5, b"one", ["one"]])
async def test_a_session_id_must_be_a_string(wire: str, session_id: Any):
    async with served(noting(), wire, session=lambda request: session_id) as client:
        assert await error_text(client, "add", a=1, b=2) == "Error calling tool 'add'"


async def test_an_empty_session_id_means_no_session(wire: str, caplog: pytest.LogCaptureFixture):
    async with served(grouped(), wire, session=lambda request: "") as client:
        assert "cannot distinguish this client from others" in await error_text(client, "set_groups", math=True)
    assert "Serve with tokens, or say with session=… which requests belong together." in caplog.text


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
        assert "score" in await error_text(client, "report")
        answer = await client.call_tool("report", meta={"me": "ann"})
        assert answer.structured_content == {"result": "done"}


async def test_an_anonymous_client_cannot_switch_groups():
    async with served(grouped(), "auto") as client:
        assert "cannot distinguish this client from others" in await error_text(client, "set_groups", math=True)


@pytest.mark.parametrize(("options", "is_anonymous"), [({}, True), ({"session": lambda request: "one"}, False)])
async def test_a_tool_knows_whether_its_client_can_be_distinguished_from_others(options: dict, is_anonymous: bool):
    kit = Toolkit("asking")

    @kit.tool
    def ask(context: ToolContext) -> bool:
        return context.is_anonymous

    assert kit.call("ask", {}) is False
    assert kit.session().call("ask", {}) is False
    async with served(kit, "auto", **options) as client:
        assert (await client.call_tool("ask")).data is is_anonymous


async def test_a_client_is_notified_once_with_its_next_call_of_an_earlier_change(wire: str):
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


async def test_a_tool_that_adds_tools_notifies_its_client(wire: str):
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
        names_found = await client.call_tool("search_tools", {"query": "find notes"})
        assert [tool["name"] for tool in names_found.data] == ["notes_of"]
        arguments = {"name": "notes_of", "arguments": {"topic": "tea"}}
        assert (await client.call_tool("call_tool", arguments)).content[0].text == "ann: tea 3"
        assert (await client.call_tool("notes_of", {"topic": "tea"})).content[0].text == "ann: tea 3"


async def test_search_finds_only_tools_for_this_client(wire: str):
    kit = for_roles().add_search()
    async with served(kit, wire) as client:
        names_found = await client.call_tool("search_tools", {"query": "staff boss"})
        assert names_found.data == []
        assert "There is no tool" in await error_text(client, "call_tool", name="staff")


async def test_call_tool_reveals_no_tool_of_another_audience(wire: str):
    kit = (
        for_roles()
        .add_group("night", "Late.")
        .add(giving(1), rename="alarm", group="night", audience="boss")
        .add_search()
    )
    async with served(kit, wire) as client:
        for name in ("staff", "alarm", "nobody"):
            answer = await error_text(client, "call_tool", name=name)
            assert answer.startswith(f"There is no tool {name!r}.")
            assert "alarm" not in answer.removeprefix(f"There is no tool {name!r}.")


async def test_a_client_gets_only_the_beginning_of_a_long_name_back(wire: str):
    async with served(noting(), wire) as client:
        answer = await client.call_tool_mcp("x" * 1_000_000, {})
    assert (answer.is_error, answer.content[0].text) == (True, f"Unknown tool: {'x' * 200!r}…")


@pytest.mark.parametrize(("count", "is_on_loop"), [(10, True), (100_000, False)])
async def test_large_arguments_are_not_validated_on_the_loop(wire: str, count: int, is_on_loop: bool):
    kit = Toolkit("numbers")

    @kit.tool
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    called: set[str] = set()
    async with served(kit, wire) as client:
        sys.setprofile(lambda frame, _event, _argument: called.add(frame.f_code.co_name))  # of this thread alone
        try:
            answer = await client.call_tool_mcp("total", {"numbers": [1] * count})
        finally:
            sys.setprofile(None)
    assert answer.structured_content == {"result": count}
    assert ("enforce_limits" in called) is is_on_loop


async def test_a_tool_error_with_an_unencodable_text_reaches_the_client(wire: str):
    def broken(request: Any) -> Any:
        raise ToolError("not \ud800")

    async with served(for_roles(), wire, audience=broken) as client:
        with pytest.raises(MCPError, match="not \ufffd"):
            await client.list_tools()
        assert await error_text(client, "all") == "not \ufffd"


async def test_a_served_call_that_needs_an_approval_asks_the_approver_or_returns_an_error(wire: str):
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


async def test_the_toolkits_middleware_wraps_served_calls(wire: str):
    kit, events = noting(), []

    async def watch(call: Any, next: Any) -> Any:
        events.append((call.name, call.is_served, call.session_id is not None))
        return await next(call)

    kit.use(watch)
    async with served(kit, wire) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
    assert events == [("add", True, True)]


# errors


async def test_the_client_sees_an_exception_only_with_mask_errors_false(wire: str, caplog: pytest.LogCaptureFixture):
    kit = Toolkit("failing", state={"token": "hunter2-hunter2"})

    @kit.tool
    def fail(token: str) -> None:
        raise ValueError(f"no access with {token}")

    kit.bind("token", secret=True)
    with caplog.at_level(logging.ERROR):
        async with served(kit, wire) as client:
            assert await error_text(client, "fail") == "Error calling tool 'fail'"
    assert "'fail' raised ValueError (test_mcp_server.py, line" in caplog.text
    async with served(kit, wire, mask_errors=False) as client:
        assert await error_text(client, "fail") == "ValueError: no access with <token>"
    assert "hunter2" not in caplog.text


async def test_a_tool_error_reaches_the_client_unchanged(wire: str, caplog: pytest.LogCaptureFixture):
    def refuse() -> None:
        """Refuse."""
        raise ToolError("Not on Sundays.")

    async with served(Toolkit("closed").add(refuse), wire) as client:
        assert await error_text(client, "refuse") == "Not on Sundays."
    assert caplog.text == ""


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, asyncio.CancelledError])
@pytest.mark.parametrize("is_async", [False, True])
async def test_no_exception_of_a_tool_ends_the_server(wire: str, kind: type[BaseException], is_async: bool):
    def fail() -> None:
        raise kind("bye")

    async def afail() -> None:
        raise kind("bye")

    kit = noting().add(afail if is_async else fail, rename="fail")
    async with served(kit, wire) as client:
        await error_text(client, "fail")
        assert (await client.call_tool("add", {"a": 1, "b": 2})).data == 3


async def test_progress_and_output_reach_the_client_in_order(wire: str):
    kit = Toolkit("working")

    @kit.tool
    def work(context: ToolContext) -> str:
        context.append_output("first")
        context.report_progress(1, 2, "half")
        context.append_output({"a": 1})
        threading.Thread(target=context.report_progress, args=(2, 2, "whole")).start()
        time.sleep(0.05)
        return "done"

    async with served(kit, wire) as client:
        data, reports = await reports_of(client, "work")
    assert (data, [message for _, _, message in reports]) == ("done", ["first", "half", '{"a": 1}', "whole"])
    assert [progress for progress, _, _ in reports] == pytest.approx([1, 1, 1, 2])
    assert reports[2][0] > reports[1][0]


@pytest.mark.parametrize(
    ("options", "error_text"),
    [
        ({"auth": "secret"}, "`auth` of a server is a FastMCP auth provider or token verifier.*not a str"),
        ({"fastmcp": {"name": "x", "auth": None}}, r"Pass \['auth', 'name'\] as options of the server"),
    ],
)
def test_invalid_options_are_refused_with_the_expected_type(options: Any, error_text: str):
    with pytest.raises(ToolkitError, match=error_text):
        noting().to_fastmcp_server(**options)


def test_find_for_any_client_returns_only_tools_that_some_client_may_see():
    kit = Toolkit("kit").add(giving(1), rename="for_all").add(giving(2), rename="for_clerks", audience="clerk")
    for options in ({}, {"audience": "guest"}):
        served = ToolkitServer(kit._view, options)
        assert served.find_for_any_client("for_all") is not None
        assert served.find_for_any_client("for_clerks") is None
    for options in ({"audience": "clerk"}, {"audience": lambda request: "clerk"}):
        assert ToolkitServer(kit._view, options).find_for_any_client("for_clerks") is not None


async def test_other_tools_on_the_server_neither_hide_nor_break_the_toolkit(wire: str):
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


async def test_the_host_may_use_the_server_outside_a_request():
    kit = Toolkit("kit")

    @kit.tool
    def add(closed: int, right: int) -> int:
        return closed + right

    @kit.tool
    def grow() -> None:
        kit.add(len)

    server = kit.to_fastmcp_server(state=lambda request: {"over": request.transport})
    assert [tool.name for tool in await server.list_tools()] == ["add", "grow"]
    assert not (await server.call_tool("grow")).is_error
    assert (await server.call_tool("add", {"closed": 1, "right": 2})).structured_content == {"result": 3}
    tool = await server.get_tool("add")
    assert (await tool.run({"closed": 1, "right": 2})).structured_content == {"result": 3}
    assert await server.get_tool("subtract") is None


async def test_reports_reach_the_client_in_order_whatever_sends_them(wire: str):
    kit = Toolkit("working")

    @kit.tool
    def work(context: ToolContext) -> None:
        for number in range(50):
            context.append_output(f"output {number}")
            reporting = threading.Thread(target=context.report_progress, args=(number, None, f"report {number}"))
            reporting.start()
            reporting.join()

    async with served(kit, wire) as client:
        _, reports = await reports_of(client, "work")
    expected = [f"{what} {number}" for number in range(50) for what in ("output", "report")]
    assert [message for _, _, message in reports] == expected


async def test_a_flood_of_reports_waits_in_bounded_memory_and_the_last_one_arrives(wire: str):
    kit = Toolkit("working")

    @kit.tool
    async def work(context: ToolContext) -> None:
        for number in range(10_000):
            context.report_progress(number)

    async with served(kit, wire) as client:
        _, reports = await reports_of(client, "work")
    assert (reports[0][0], reports[-1][0]) == (0, 9_999)
    assert len(reports) <= 200


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_report_after_the_end_is_not_sent(wire: str, is_async: bool):
    kit, contexts = Toolkit("working"), []

    def work(context: ToolContext) -> None:
        contexts.append(context)
        context.report_progress(1, 2, "half")

    async def awork(context: ToolContext) -> None:
        work(context)

    async with served(kit.add(awork if is_async else work, name="work"), wire) as client:
        _, reports = await reports_of(client, "work")
        contexts[0].report_progress(2, 2, "late")
        contexts[0].append_output("late")
        await client.list_tools()
    assert reports == [(1, 2, "half")]
    contexts[0].report_progress(2, 2, "when the server has gone")


async def test_items_of_a_generator_are_progress_and_then_the_result(wire: str):
    kit = Toolkit("counting")

    @kit.tool
    async def count(up_to: int) -> AsyncIterator[int]:
        for number in range(up_to):
            yield number

    async with served(kit, wire) as client:
        data, reports = await reports_of(client, "count", up_to=3)
    assert (data, [(progress, text) for progress, _, text in reports]) == ([0, 1, 2], [(1, "0"), (2, "1"), (3, "2")])


async def test_a_tool_is_cancelled_when_its_client_stops_waiting(wire: str):
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


async def test_a_timeout_applies_to_sync_tools_too(wire: str):
    is_over = threading.Event()
    kit = Toolkit("slow", timeout=0.1).add(lambda: is_over.wait(8), rename="sleep")
    async with served(kit, wire) as client:
        began = time.perf_counter()
        assert "within 0.1 seconds" in await error_text(client, "sleep")
        assert time.perf_counter() - began < 7
    is_over.set()


async def test_a_tool_that_ignores_its_cancellation_does_not_delay_the_next_call(wire: str):
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
        assert time.perf_counter() - began < 15
    release.set()


@pytest.mark.exhaustive
async def test_a_thousand_calls_at_once_are_all_right(wire: str):
    async with served(noting(), wire, state=lambda request: {"user": request.meta["who"]}) as client:
        calls = [client.call_tool("notes_of", {"topic": "x", "limit": n}, meta={"who": f"u{n}"}) for n in range(1_000)]
        answers = [answer.data for answer in await asyncio.gather(*calls)]
    assert answers == [f"u{n}: x {n}" for n in range(1_000)]


def test_the_notes_of_active_groups_are_the_instructions_for_clients():
    kit = Toolkit("grouped").add_group("math", active=True, notes="Be exact.").add_group("art", notes="Be bold.")
    assert kit.to_fastmcp_server().instructions == "Be exact."
    assert kit.to_fastmcp_server(instructions="Other.", name="x", version="3").instructions == "Other."
    assert noting().to_fastmcp_server().instructions is None
