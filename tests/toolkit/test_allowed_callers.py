"""Tools that only a model, or only its programs, may call: in a run, through other tools, in code mode, in exports."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from fastmcp import FastMCP
from pydantic import BaseModel

from ahvn_tools import Run, ToolCall, ToolContext, Toolkit, middleware
from ahvn_tools.errors import ToolCallError, ToolkitError, ToolSpecError
from ahvn_tools.formats.continuation import NO_CONTINUATION
from tests.toolkit.subjects import noting

BY_PROGRAM = {"caller": {"type": "code_execution_20260120", "tool_id": "s1"}}
BY_OTHER = {"caller": {"type": "browser"}}


def rows(region: str = "West") -> str:
    """Return rows."""
    return f"rows of {region}"


def send(text: str = "hello") -> str:
    """Send a text."""
    return f"sent {text}"


def ask() -> str:
    """Ask."""
    return "asked"


def make_kit(**options: Any) -> Toolkit:
    """Return a toolkit with a tool for programs, one for the model, and one for both."""
    kit = Toolkit("sales", **options)
    kit.add(rows, allowed_callers="programmatic").add(send, allowed_callers={"direct"})
    return kit.add(ask)


def run_one(kit: Toolkit, name: str, provider: dict[str, Any], /, **arguments: Any) -> Any:
    """Run one call of a model, and return its result."""
    call = ToolCall(id="c1", name=name, arguments=arguments, provider=provider, format="anthropic")
    [(_, result)] = kit.run([call]).results
    return result


@pytest.mark.parametrize(
    ("name", "provider", "expected"),
    [
        ("rows", BY_PROGRAM, "rows of West"),
        ("rows", {}, "The tool 'rows' can only be called by a program."),
        ("rows", BY_OTHER, "The tool 'rows' can only be called by a program."),
        ("send", {}, "sent hello"),
        ("send", BY_PROGRAM, "The tool 'send' cannot be called by a program. Call it directly."),
        ("send", BY_OTHER, "The tool 'send' can only be called directly."),
        ("ask", BY_PROGRAM, "asked"),
        ("ask", {}, "asked"),
        ("ask", BY_OTHER, "asked"),
    ],
)
def test_a_call_runs_if_its_caller_may_call_the_tool(name, provider, expected):
    result = run_one(make_kit(), name, provider)
    assert result.text == expected
    assert result.error is None or result.error.code == "not_available"


async def test_the_rule_holds_from_async_code_and_in_a_stream():
    kit = make_kit()
    call = ToolCall(id="c1", name="send", provider=BY_PROGRAM, format="anthropic")
    for run in (await kit.arun([call, call]), [item async for item in kit.astream_run([call])][-1]):
        assert isinstance(run, Run)
        assert {result.error.code for _, result in run.results if result.error} == {"not_available"}


def test_the_host_may_call_each_tool():
    kit = make_kit()
    assert (kit.call("rows"), kit.exec("send").value) == ("rows of West", "sent hello")


def test_a_tool_that_is_hidden_is_hidden_from_programs_too():
    kit = make_kit()
    kit.add(lambda: "secret", name="hidden", audience="admin", allowed_callers="direct")
    result = run_one(kit.select(audience="user"), "hidden", BY_PROGRAM)
    assert "program" not in result.text


def test_another_tool_that_calls_it_is_no_way_around():
    kit = make_kit().add_search()
    kit.add(*kit.background_tools())
    by_search = run_one(kit, "call_tool", BY_PROGRAM, name="send")
    in_background = run_one(kit, "start_call", BY_PROGRAM, name="send")
    assert "cannot be called by a program" in by_search.text
    assert "cannot be called by a program" in in_background.text
    assert run_one(kit, "call_tool", {}, name="send").text == "sent hello"


def test_a_search_finds_only_what_its_caller_may_call():
    kit = make_kit().add_search()
    everything = {"rows", "send", "ask", "search_tools", "call_tool"}
    assert {tool.name for tool in kit.search("rows send ask")} <= everything
    for provider, hidden in ((BY_PROGRAM, "send"), ({}, "rows"), (BY_OTHER, "rows")):
        found = [tool["name"] for tool in run_one(kit, "search_tools", provider, query="rows send ask").value]
        assert "ask" in found
        assert hidden not in found
    assert {tool["name"] for tool in kit.call("search_tools", {"query": "rows send ask"})} == {"rows", "send", "ask"}


def test_a_search_with_a_rank_of_the_host_finds_only_what_its_caller_may_call():
    seen: list[list[str]] = []

    def rank(query: str, tools: Any) -> list[str]:
        seen.append([tool.name for tool in tools])
        return seen[-1]

    kit = make_kit().add_search(rank=rank)
    assert [tool["name"] for tool in run_one(kit, "search_tools", BY_PROGRAM, query="x").value] == ["rows", "ask"]
    assert seen == [["rows", "ask"]]


def test_the_text_for_a_prompt_has_no_tool_that_only_programs_may_call():
    text = make_kit().to_prompt()
    assert ("send(" in text, "ask(" in text, "rows(" in text) == (True, True, False)


def test_middleware_and_the_tool_know_the_caller():
    seen: list[Any] = []

    def who(context: ToolContext) -> str:
        """Tell who calls."""
        return str(context.caller)

    kit = Toolkit("log", middleware=[noting(seen, lambda call: call.caller)]).add(who)
    assert [run_one(kit, "who", provider).value for provider in (BY_PROGRAM, {}, BY_OTHER)] == [
        "programmatic",
        "direct",
        "browser",
    ]
    assert kit.call("who") == "None"
    assert seen == ["programmatic", "direct", "browser", None]


def test_another_toolkit_keeps_the_rule():
    kit = Toolkit("outer").add(make_kit())
    assert run_one(kit, "send", BY_PROGRAM).is_error
    assert run_one(kit, "ask", BY_PROGRAM).text == "asked"


@pytest.mark.parametrize("wrong", [[], "nobody", ["direct", "nobody"], 3, [3], ""], ids=repr)
def test_what_is_no_caller_is_refused(wrong):
    with pytest.raises(ToolkitError):
        Toolkit("k").add(ask, allowed_callers=wrong)


def callers(tools: Any) -> dict[str, Any]:
    """Return who may call each exported tool."""
    return {tool.get("name") or tool["function"]["name"]: tool.get("allowed_callers") for tool in tools}


def test_an_export_has_the_callers_of_each_tool():
    version = "code_execution_20260120"
    assert callers(make_kit().to("anthropic")) == {"rows": [version], "send": ["direct"], "ask": None}
    assert callers(make_kit().to("openai-responses")) == {"rows": ["programmatic"], "send": ["direct"], "ask": None}


def test_what_a_tool_says_has_priority_over_the_option_of_the_export():
    version = "code_execution_20260521"
    tools = make_kit().to("anthropic", allowed_callers=["direct", "programmatic"], code_execution=version)
    expected = {"rows": [version], "send": ["direct"], "ask": ["direct", version], "code_execution": None}
    assert callers(tools) == expected
    tools = make_kit().to("openai-responses", allowed_callers={"send": "programmatic", "ask": "programmatic"})
    assert callers(tools) == {"rows": ["programmatic"], "send": ["direct"], "ask": ["programmatic"]}


def test_the_export_of_a_single_tool_has_its_callers():
    kit = make_kit()
    assert kit["send"].to("anthropic")["allowed_callers"] == ["direct"]
    assert kit["send"].to("anthropic", allowed_callers=["programmatic"])["allowed_callers"] == ["direct"]
    assert kit["rows"].to("openai-responses", read_only=True)["allowed_callers"] == ["programmatic"]
    assert "allowed_callers" not in kit["ask"].to("anthropic")
    assert "allowed_callers" not in kit["rows"].to("openai")


@pytest.mark.parametrize("name", ["openai", "mistral", "ollama"])
def test_a_provider_without_programs_is_not_told_of_tools_for_programs(name):
    assert callers(make_kit().to(name)) == {"send": None, "ask": None}


def test_an_export_that_names_no_caller_is_refused_beside_tools_with_callers_of_their_own():
    with pytest.raises(ToolSpecError, match="names no caller"):
        make_kit().to("anthropic", allowed_callers=[])
    assert callers(make_kit().to("anthropic", allowed_callers={}))["ask"] is None


class Tree(BaseModel):
    branches: list[Tree] = []


def plant(tree: Tree) -> str:
    """Plant a tree."""
    return "planted"


@pytest.mark.parametrize("own", [True, False], ids=["of the tools", "of the export"])
def test_a_recursive_tool_of_a_server_does_not_break_the_export_of_the_others(own, caplog):
    server = FastMCP("garden")
    server.tool(rows)
    server.tool(plant)
    option: dict[str, Any] = {"allowed_callers": "programmatic"}
    kit = Toolkit("k").add_mcp(server, **(option if own else {})).add(ask)
    option = {} if own else option
    assert callers(kit.to("anthropic", **option)).keys() == {"rows", "ask"}
    assert len(kit.to("anthropic", **option)) == 2
    assert [record.getMessage().count("'plant'") for record in caplog.records] == [1], "it is reported once"
    assert "plant" in callers(kit.to("openai-responses", **option))
    with pytest.raises(ToolSpecError, match="refuses programs that call 'plant'"):
        kit["plant"].to("anthropic", **option)


def test_a_tool_of_a_server_with_the_name_of_anthropics_own_does_not_break_the_export_of_the_others(caplog):
    server = FastMCP("garden")
    server.tool(rows)
    server.tool(plant, name="code_execution")
    kit = Toolkit("k").add_mcp(server)
    assert [tool["name"] for tool in kit.to("anthropic", code_execution=True)] == ["rows", "code_execution"]
    assert "Anthropic's own tool has its name" in caplog.text
    assert "input_schema" in kit.to("anthropic")[1]


def test_a_recursive_tool_of_the_host_is_refused():
    with pytest.raises(ToolSpecError, match="refuses programs that call 'plant'"):
        Toolkit("k").add(plant, name="plant", allowed_callers="programmatic").to("anthropic")


def test_a_read_only_export_has_the_callers_and_is_shared():
    kit = make_kit()
    tools = kit.to("anthropic", read_only=True, code_execution=True)
    assert kit.to("anthropic", read_only=True, code_execution=True) is tools
    assert callers(tools)["send"] == ["direct"]


def waiting(kit: Toolkit, provider: dict[str, Any], format: str | None) -> Run:
    """Return a run with a call that waits for an approval."""
    return kit.run([ToolCall(id="c1", name="ask", provider=provider, format=format)], format=format)


def test_a_request_of_a_program_can_be_approved_as_long_as_the_program_waits():
    kit = Toolkit("k", approval_expiry=None).add(ask, requires_approval=True)
    now = time.time()
    run = waiting(kit, BY_PROGRAM, "anthropic")
    expiry = run.pending[0].expires_at
    assert now + 200 < expiry < now + 241
    assert run.continuation.answer_by is not None
    assert expiry <= run.continuation.answer_by, "a request cannot be approved when the program no longer waits"
    assert Run.from_json(run.to_json()).continuation == run.continuation
    assert kit.resume(run, approved=True).results[0][1].value == "asked"


def test_a_request_of_a_program_through_langchain_expires_with_the_program():
    kit = Toolkit("k", approval_expiry=None).add(ask, requires_approval=True)
    block = {"type": "tool_use", "id": "t1", "name": "ask", "input": {}, **BY_PROGRAM}
    message = {
        "type": "ai",
        "content": [block],
        "tool_calls": [{"type": "tool_call", "id": "t1", "name": "ask", "args": {}}],
        "response_metadata": {"container": {"id": "container_1", "expires_at": "2099-01-01T00:00:00Z"}},
    }
    run = kit.run(message)
    expiry = run.pending[0].expires_at
    assert (run.container is not None and run.container.id, run.is_paused) == ("container_1", False)
    assert expiry < time.time() + 241


def test_a_request_through_another_tool_expires_with_the_program():
    kit = Toolkit("k", approval_expiry=None).add(ask, requires_approval=True).add_search()
    call = ToolCall(id="c1", name="call_tool", arguments={"name": "ask"}, provider=BY_PROGRAM, format="anthropic")
    expiry = kit.run([call]).pending[0].expires_at
    assert expiry < time.time() + 241
    assert kit.run([replace(call, provider={})]).pending[0].expires_at is None


@pytest.mark.parametrize(
    "wrong", [10**400, float("nan"), float("inf"), "soon", []], ids=["huge", "nan", "inf", "text", "list"]
)
def test_a_saved_run_with_a_wrong_time_is_refused(wrong):
    data = waiting(Toolkit("k").add(ask, requires_approval=True), BY_PROGRAM, "anthropic").to_json()
    data["continuation"]["answer_by"] = wrong
    with pytest.raises(ToolSpecError, match="not a saved run"):
        Run.from_json(data)


@pytest.mark.parametrize(
    ("seconds", "provider", "name"),
    [(3_000, {}, "anthropic"), (3_000, BY_OTHER, None), (20, BY_PROGRAM, "anthropic")],
    ids=["of the model", "of another caller", "shorter than a program waits"],
)
def test_other_requests_can_be_approved_as_long_as_the_toolkit_says(seconds, provider, name):
    kit = Toolkit("k", approval_expiry=seconds).add(ask, requires_approval=True)
    expiry = waiting(kit, provider, name).pending[0].expires_at
    assert seconds - 10 < expiry - time.time() < seconds + 2


def test_beside_a_program_a_request_of_the_model_can_be_approved_as_long_as_the_toolkit_says():
    kit = Toolkit("k", approval_expiry=3_000).add(ask, requires_approval=True)
    calls = [
        ToolCall(id=call_id, name="ask", provider=provider, format="anthropic")
        for call_id, provider in (("c1", BY_PROGRAM), ("c2", {}))
    ]
    program, model = kit.run(calls).pending
    assert program.expires_at + 2_000 < model.expires_at


@pytest.mark.parametrize(("year", "expected"), [(2020, []), (2099, ["call", "question"])], ids=["late", "in time"])
async def test_what_an_approver_decides_when_the_program_no_longer_waits_is_rejected(year, expected):
    done: list[str] = []
    kit = Toolkit("desk", approver=lambda _: True)

    @kit.tool(requires_approval=True)
    def close() -> None:
        """Close."""
        done.append("call")

    @kit.tool
    async def remove(context: ToolContext) -> None:
        """Remove."""
        await context.aask("Remove it")
        done.append("question")

    blocks = [
        {"type": "tool_use", "id": f"t{number}", "name": name, "input": {}, **BY_PROGRAM}
        for number, name in enumerate(("close", "remove"))
    ]
    container = {"id": "container_1", "expires_at": f"{year}-01-01T00:00:00Z"}
    run = await kit.arun({"role": "assistant", "content": blocks, "container": container}, format="anthropic")
    codes = [result.error.code for _, result in run.results if result.error is not None]
    assert (sorted(done), codes) == (expected, [] if expected else ["rejected", "rejected"])
    assert expected or all("no longer waits" in result.text for _, result in run.results)


def make_desk() -> Toolkit:
    """Return a toolkit with a tool that needs approvals, and that only programs may call."""
    return Toolkit("desk").add(who, allowed_callers="programmatic", requires_approval=True)


def who(context: ToolContext) -> str:
    """Tell who calls."""
    return str(context.caller)


@pytest.mark.parametrize("is_saved", [False, True], ids=["request", "json"])
def test_an_approved_request_runs_as_a_call_of_its_caller(is_saved):
    kit = make_desk()
    request = kit.run([ToolCall(id="c1", name="who", provider=BY_PROGRAM, format="anthropic")]).pending[0]
    [(_, result)] = kit.resume(request.to_json() if is_saved else request, approved=True).results
    assert (request.caller, result.value) == ("programmatic", "programmatic")


def test_an_approved_request_of_the_host_runs_as_its_call():
    kit = make_desk()
    [(_, result)] = kit.resume(kit.exec("who").meta["approval"], approved=True).results
    assert result.value == "None"


async def test_an_approved_call_in_the_background_runs_as_a_call_of_its_caller():
    kit = make_desk()
    kit.add(*kit.background_tools())
    call = ToolCall(id="c1", name="start_call", arguments={"name": "who"}, provider=BY_PROGRAM)
    started = (await kit.arun([call])).results[0][1].value
    await kit.await_(started["id"], 5)
    status = kit.status(started["id"])
    [(_, result)] = (await kit.aresume(status, approved=True)).results
    assert (status.state, result.value) == ("waiting_for_approval", "programmatic")


def test_the_caller_of_a_saved_run_cannot_be_changed():
    kit = make_desk()
    data = kit.run([ToolCall(id="c1", name="who", provider=BY_PROGRAM, format="anthropic")]).to_json()
    data["calls"][0]["provider"] = {}
    assert kit.resume(Run.from_json(data), approved=True).results[0][1].value == "programmatic"
    data["calls"][0]["request"]["caller"] = "direct"
    with pytest.raises(ToolkitError, match="has been changed"):
        make_desk().resume(Run.from_json(data), approved=True)
    data["calls"][0]["request"]["caller"] = 7
    with pytest.raises(ToolSpecError):
        Run.from_json(data)


@pytest.mark.parametrize("name", ["anthropic", "openai", "openai-responses"])
def test_a_run_without_programs_says_nothing_about_the_next_request(name):
    run = make_kit().run([ToolCall(id="c1", name="ask", format=name)], format=name)
    assert (run.container, run.is_paused, run.continuation) == (None, False, NO_CONTINUATION)
    assert "continuation" not in run.to_json()


def test_an_answer_without_calls_may_ask_to_go_on():
    run = make_kit().run({"role": "assistant", "content": [], "stop_reason": "pause_turn"}, format="anthropic")
    assert (run.results, list(run), run.is_paused) == ([], [], True)
    assert not make_kit().run({"role": "assistant", "content": [], "stop_reason": "end_turn"}).is_paused


def test_limits_count_the_calls_of_programs():
    kit = Toolkit("k", middleware=[middleware.limit(per_run=1)]).add(ask)
    calls = [ToolCall(id=f"c{number}", name="ask", provider=BY_PROGRAM, format="anthropic") for number in range(3)]
    codes = [None if result.error is None else result.error.code for _, result in kit.run(calls).results]
    assert sorted(codes, key=str) == [None, "limit_exceeded", "limit_exceeded"]


@pytest.mark.exhaustive
def test_a_direct_call_through_the_toolkit_raises_as_for_a_hidden_tool():
    from ahvn_tools.toolkit.calls import CallOptions, execute

    kit = make_kit()
    result = execute(kit._view, "send", None, CallOptions(caller="programmatic"))
    assert isinstance(result.exception, ToolCallError)
