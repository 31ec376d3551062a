"""The audience of a session: without one, a session has only the tools that are for everyone."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastmcp import Client

from ahvn_tools import ToolContext, Toolkit, load
from ahvn_tools.builtins import SubAgents, SubAgentTask
from ahvn_tools.errors import ToolkitError, ToolLookupError, ToolNotAvailableError
from ahvn_tools.results import ToolCall

EVERYONE = ["find"]
CLERK = ["find", "refund"]
ALL = ["find", "refund", "erase"]


def find(query: str) -> str:
    """Find an order."""
    return f"found {query}"


def refund(order: int = 1) -> str:
    """Pay an order back, canary."""
    return f"refunded {order}"


def erase() -> str:
    """Erase all orders, canary."""
    return "erased"


@pytest.fixture
def kit() -> Toolkit:
    kit = Toolkit("desk", secret_key=b"k" * 16).add(find).add(refund, audience="clerk")
    return kit.add(erase, audience="owner")


def names(kit: Toolkit) -> list[str]:
    return [tool.name for tool in kit]


@pytest.mark.parametrize(
    ("derive", "expected"),
    [
        (lambda kit: kit, ALL),
        (lambda kit: kit.select(tags=[]).select(names=ALL), []),
        (lambda kit: kit.select(names=ALL), ALL),
        (lambda kit: kit.session(), EVERYONE),
        (lambda kit: kit.session(session_id="u1"), EVERYONE),
        (lambda kit: kit.session().session(), EVERYONE),
        (lambda kit: kit.session().select(names=ALL), EVERYONE),
        (lambda kit: kit.select(names=ALL).session(), EVERYONE),
        (lambda kit: kit.select(where=lambda tool: True).session(), EVERYONE),
        (lambda kit: kit.session(audience="clerk"), CLERK),
        (lambda kit: kit.session(audience=None), ALL),
        (lambda kit: kit.session(audience="clerk").session(), CLERK),
        (lambda kit: kit.session(audience=None).session(), ALL),
        (lambda kit: kit.session().session(audience="clerk"), CLERK),
        (lambda kit: kit.session().session(audience=None), ALL),
        (lambda kit: kit.session().select(audience="clerk"), CLERK),
        (lambda kit: kit.select(audience="clerk").session(), CLERK),
        (lambda kit: kit.select(audience="clerk").session(audience=None), CLERK),
        (lambda kit: kit.select(audience="clerk").session(audience="owner"), EVERYONE),
        (lambda kit: kit.session(audience=None).select(audience="clerk"), CLERK),
        (lambda kit: kit.session(audience="clerk", session_id="u1"), CLERK),
        (lambda kit: kit.session(audience="nobody"), EVERYONE),
        (lambda kit: kit.add_toolset("all", names=ALL).select(toolset="all").session(), EVERYONE),
        (lambda kit: kit.add_toolset("clerks", audience="clerk").select(toolset="clerks").session(), CLERK),
        (lambda kit: kit.select(any_of=[{"audience": "clerk"}, {"audience": "owner"}]).session(), ALL),
        (lambda kit: kit.select(any_of=[{"audience": "clerk"}, {"names": ALL}]).session(), EVERYONE),
    ],
)
def test_a_session_has_the_tools_of_the_audience_that_it_names(
    kit: Toolkit, derive: Callable[[Toolkit], Toolkit], expected: list[str]
) -> None:
    view = derive(kit)
    assert names(view) == expected
    assert [definition.name for definition in view.definitions()] == expected
    assert [name for name in ALL if not view.exec(name, {"query": "q"} if name == "find" else {}).is_error] == expected
    assert [name for name in ALL if name in view] == expected
    assert ("canary" in repr((view.to("openai"), view.to_prompt(), view._repr_html_()))) == ("refund" in expected)
    assert {tool.name for tool in view.search("order orders")} <= set(expected)


def test_the_errors_say_how_to_open_the_session(kit: Toolkit) -> None:
    session = kit.session()
    message = (
        "The tool 'refund' is not available in this session, which names no audience: "
        "the host can use session(audience=…)."
    )
    assert session.exec("refund").error.code == "not_available"
    assert session.exec("refund").error.message == message
    assert kit.session(audience="owner").exec("refund").text == (
        "The tool 'refund' is not available to the audience 'owner'."
    )
    assert session.select(names=["find"]).exec("refund").text == "The tool 'refund' is not available in this selection."
    with pytest.raises(ToolNotAvailableError):
        session.call("refund")
    with pytest.raises(ToolLookupError, match=r"'refund' is not for the audience of this session.*audience=None"):
        session["refund"]


def test_a_session_follows_a_change_of_a_tool(kit: Toolkit) -> None:
    session = kit.session()
    kit.add(refund, on_duplicate="replace")
    assert names(session) == CLERK
    kit.add(find, audience="owner", on_duplicate="replace")
    assert names(session) == ["refund"]


@pytest.mark.parametrize("audience", [3, ["clerk"], {"clerk"}, b"clerk"])
def test_another_type_of_audience_is_refused(kit: Toolkit, audience: Any) -> None:
    with pytest.raises(ToolkitError, match="'audience' of a selection is one name"):
        kit.session(audience=audience)


def test_no_audience_in_a_selection_says_what_to_do(kit: Toolkit) -> None:
    with pytest.raises(ToolkitError, match=r"Leave it out, or open session\(audience=None\)"):
        kit.select(audience=None)  # type: ignore[arg-type]


def test_a_value_of_the_state_may_be_named_audience() -> None:
    def say(audience: str) -> str:
        """Say who listens."""
        return audience

    kit = Toolkit("talk").add(say).bind("audience")
    assert kit.session({"audience": "all of you"}).call("say") == "all of you"
    assert "audience" not in kit.session(audience="clerk").state


def test_the_audience_is_that_of_the_object_and_not_of_the_session_id(kit: Toolkit) -> None:
    clerk, anyone = kit.session(session_id="u1", audience="clerk"), kit.session(session_id="u1")
    clerk.state["seen"] = True
    assert anyone.state == {"seen": True}
    assert (names(clerk), names(anyone)) == (CLERK, EVERYONE)


def test_groups_whose_tools_are_for_an_audience_are_not_in_a_session_without_one(kit: Toolkit) -> None:
    kit = Toolkit("desk").add_group("money", "Canary.", notes="Canary notes.").add_group("later")
    kit.add(refund, group="money", audience="clerk").add(kit.groups_tool())
    session = kit.session()
    assert list(session.groups) == ["basic", "later"]
    assert list(session["set_groups"].params) == ["later"]
    assert session.exec("set_groups", {"money": True}).error.code == "invalid_parameters"
    with pytest.raises(ToolLookupError, match="no group 'money'"):
        session.activate("money")
    for view in (kit.session(audience="clerk"), kit.session(audience=None)):
        assert view.activate("money").notes == "## money\nCanary notes."


def test_a_toolset_for_an_audience_shows_its_tools_to_that_audience_only(kit: Toolkit) -> None:
    kit.add_toolset("clerks", audience="clerk")
    assert [tool.name for tool in kit.session().toolset("clerks").tools] == EVERYONE
    assert [tool.name for tool in kit.session(audience="clerk").toolset("clerks").tools] == CLERK


async def test_no_way_of_calling_reaches_a_tool_for_an_audience(kit: Toolkit) -> None:
    def reach(context: ToolContext) -> list[str]:
        """Call the tools of this session."""
        assert context.toolkit is not None
        return names(context.toolkit)

    kit.add_search().add(reach)
    kit.add(*kit.background_tools())
    session = kit.session()
    call = {"name": "refund", "arguments": {}}
    with ThreadPoolExecutor(1) as executor:
        mapped = next(session.map(executor, [("refund", {})]))
    codes = [
        session.exec("refund").error.code,
        (await session.aexec("refund")).error.code,
        list(session.stream("refund"))[-1].error.code,
        session.run([ToolCall(id="c", name="refund", arguments={})]).results[0][1].error.code,
        (await session.arun([ToolCall(id="c", name="refund", arguments={})])).results[0][1].error.code,
        session.exec("call_tool", call).error.code,
        session.exec("start_call", call).error.code,
        mapped.error.code,
    ]
    assert set(codes) <= {"not_available", "not_found"}
    with pytest.raises(ToolNotAvailableError):
        session.start("refund")
    assert "refund" not in session.call("search_tools", {"query": "pay an order back"})
    assert not {"refund", "erase"} & set(session.call("reach"))
    assert "refund" in kit.session(audience="clerk").call("reach")


def test_a_call_that_waits_is_resumed_for_its_audience_only(kit: Toolkit) -> None:
    kit.add(refund, audience="clerk", requires_approval=True, on_duplicate="replace")
    run = kit.session(session_id="u1", audience="clerk").run([ToolCall(id="c", name="refund", arguments={})])
    with pytest.raises(ToolkitError, match=r"names no audience.*still open"):
        kit.session(session_id="u1").resume(run, approved=True)
    done = kit.session(session_id="u1", audience="clerk").resume(run, approved=True)
    assert done.results[0][1].value == "refunded 1"


def test_a_sub_agent_of_a_session_has_no_tool_for_an_audience_that_its_parent_does_not_have() -> None:
    seen: list[list[str]] = []

    async def run(task: SubAgentTask) -> str:
        seen.append(names(task.toolkit))
        return "done"

    kit = Toolkit("agent").add(find).add(refund, audience=["main", "sub"]).add(erase, audience="main")
    SubAgents(run, kit).add_to(kit)
    request = {"context_summary": "", "sub_agents": [{"prompt": "p"}]}
    for session in (kit.session(), kit.session(audience="main")):
        session.call("self_fork", request)
    assert ["refund" in tools for tools in seen] == [False, True]
    assert all("erase" not in tools and "task_finish" in tools for tools in seen)


@pytest.mark.parametrize(
    ("derive", "options", "expected"),
    [
        (lambda kit: kit.session(), {}, EVERYONE),
        (lambda kit: kit.session(audience=None), {}, EVERYONE),
        (lambda kit: kit.session(), {"audience": "clerk"}, CLERK),
        (lambda kit: kit.session(), {"audience": lambda request: ["clerk"]}, CLERK),
        (lambda kit: kit.session(audience=None), {"audience": "clerk"}, CLERK),
        (lambda kit: kit.session(audience="clerk"), {}, CLERK),
        (lambda kit: kit.session(audience="clerk"), {"audience": "owner"}, EVERYONE),
    ],
)
async def test_a_served_session_has_the_tools_of_the_audience_that_is_named(
    kit: Toolkit, derive: Callable[[Toolkit], Toolkit], options: dict[str, Any], expected: list[str]
) -> None:
    async with Client(derive(kit).to_fastmcp_server(**options)) as client:
        assert [tool.name for tool in await client.list_tools()] == expected
        answers = {name: await client.call_tool_mcp(name, {"query": "q"} if name == "find" else {}) for name in ALL}
    assert [name for name, answer in answers.items() if not answer.is_error] == expected


def test_a_served_session_is_checked_for_every_audience() -> None:
    kit = Toolkit("desk").add(refund, audience="clerk", task="required")
    with pytest.raises(ToolkitError, match="'refund' only runs as a task"):
        kit.session().to_fastmcp_server(audience="clerk")


async def test_a_toolkit_that_was_loaded_for_an_audience_is_for_it(kit: Toolkit) -> None:
    for sources in ([kit], [kit, find]):
        loaded = load(*sources, audience="clerk")
        assert set(names(loaded.session())) == set(CLERK)
        async with Client(loaded.to_fastmcp_server()) as client:
            assert {tool.name for tool in await client.list_tools()} == set(CLERK)
    loaded.add(erase, audience="owner")
    assert loaded.session().exec("erase").text == "The tool 'erase' is not available to the audience 'clerk'."
    assert loaded.session(audience="owner").call("erase") == "erased"
    assert loaded.session(audience=None).call("erase") == "erased"
    async with Client(loaded.to_fastmcp_server()) as client:
        assert "erase" not in {tool.name for tool in await client.list_tools()}
