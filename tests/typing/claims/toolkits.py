"""Toolkit: decorators, sessions, selections, calls, a model's answer, MCP servers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, assert_type

from pydantic import BaseModel

from ahvn_tools import (
    Conversation,
    TextDelta,
    ToolCall,
    ToolContext,
    ToolDefinition,
    Toolkit,
    ToolRegistry,
    ToolResult,
    ToolSpec,
    formats,
    reg_toolspec,
)
from ahvn_tools.formats import Finding
from ahvn_tools.middleware import log
from ahvn_tools.middleware.pending import ApprovalRequest, ExternalCall
from ahvn_tools.toolkit import Run

if TYPE_CHECKING:
    from fastmcp import FastMCP

    from ahvn_tools.mcp.client.remote_server import RemoteServer


class Verdict(BaseModel):
    """Fields for a structured end."""

    is_good: bool


class OwnToolkit(Toolkit):
    """A subclass of the user's."""


class Shelf(ToolRegistry):
    """A class whose methods are tools."""

    @reg_toolspec
    def put(self, book: str) -> str:
        """Methods stay methods."""
        return book

    @reg_toolspec(tags={"read"})
    def take(self, book: str) -> str:
        """As above."""
        return book


def ask(request: ApprovalRequest) -> bool | str | dict[str, Any]:
    """Approve everything but one tool."""
    return request.arguments if request.tool != "take" else "Not this one."


async def ask_later(request: ApprovalRequest) -> bool:
    """An approver may be asynchronous."""
    return bool(request.session_id)


kit = Toolkit("desk", state={}, approver=ask, timeout=5, max_concurrency=4, on_duplicate="keep")
assert_type(Toolkit("desk", approver=ask_later), Toolkit)


@kit.tool
def find(topic: str, context: ToolContext) -> str:
    """A function that is added to a toolkit stays the function that it was."""
    assert_type(context.call_id, str | None)
    assert_type(context.check_path(topic), Path)
    assert_type(context.ask("find it", {"topic": topic}), Literal[True])
    context.report_progress(1, 2, "half")
    return topic


@kit.tool
async def seek(topic: str, context: ToolContext) -> str:
    """What a context sends can be awaited."""
    await context.report_progress(1, 2, "half")
    await context.append_output(topic)
    return topic


@kit.tool(tags={"write"}, requires_approval=True, exclusive="topic")
def write(topic: str) -> int:
    """As above."""
    return len(topic)


assert_type(write("tea"), int)
typed: Callable[[str], int] = write

assert_type(kit.add(Shelf(), prefix="shelf_").bind("user", secret=True).add_group("math", active=True), Toolkit)
assert_type(OwnToolkit("own").add(find, rename="look").bind("user"), OwnToolkit)
assert_type(Shelf().put("book"), str)
assert_type(Shelf().to_toolspecs(), dict[str, ToolSpec])

found: ToolSpec = kit["find"]
assert_type([tool.name for tool in kit if tool.labels.get("requires_approval")], list[str])
assert_type([spec.name for spec in kit], list[str])
assert_type(len(kit), int)
assert_type("find" in kit, bool)

assert_type(kit.add(Shelf(), Shelf(), prefix="s_", version="2", meta={}).add(len, name="size", title="Size"), Toolkit)
assert_type(kit.add(find, description="Find.", arguments={"topic": {"name": "about"}}), Toolkit)
assert_type(kit.check(), list[Finding])
assert_type(kit.check(formats=["openai"], ignore=["not-strict"]), list[Finding])
session = kit.session(user="ann", session_id="s-1", roots=["notes", Path("more")])
assert_type(kit.session(state={"user": "ann"}).select(inactive=True, tags=["read"]), Toolkit)
assert_type(session, Toolkit)
assert_type(kit.session({"user": "ann"}), Toolkit)
assert_type(session.session_id, str | None)
assert_type(kit.select(tags=["write"], audience="main", where=lambda tool: bool(tool.tags)), Toolkit)
assert_type(kit.search("notes"), list[ToolSpec])
assert_type(kit.definitions(), list[ToolDefinition])
assert_type(kit.to("bedrock"), list[dict[str, Any]])
assert_type(kit.to("of another package"), list[dict[str, Any]])
assert_type(kit.finish_with("find", Verdict), Toolkit)
assert_type(kit.groups, dict[str, bool])
assert_type(kit.group("math").active, bool)
assert_type(kit.group("math").tools, list[ToolSpec])
assert_type(kit.toolsets["reading"].description, str)
assert_type(kit.toolset("reading").tools, list[ToolSpec])
assert_type(kit.add_toolset("both", "Both.", any_of=["reading", {"names": ["find"]}], audience="main"), Toolkit)
assert_type(kit.select(any_of=["reading", {"tags": {"write"}}]), Toolkit)
assert_type(kit.tag("find", "read").tag(["find", "write"], "all", "any").untag("find", "read"), Toolkit)
assert_type(kit.add(find, on_duplicate="rename").add_mcp("mcp.json", on_duplicate="keep"), Toolkit)
assert_type([duplicate.new_name for duplicate in kit.duplicates], list[str | None])
assert_type(kit.add_skills("skills", kit.servers["docs"], group="math", audience=["main"], trust=False), Toolkit)
assert_type([skill.description for skill in kit.skills.values()], list[str])
assert_type(kit.remove_skills("tides").skills_prompt(), str)
assert_type(kit.to_skill("sums", source="tools.py", replace=True), dict[str, str])
assert_type(session.state_dict(), dict[str, Any])
assert_type(session.load_state_dict({}), Toolkit)

assert_type(
    kit.exec("find", {"topic": "tea"}, timeout=1.5, call_id="c1", roots="notes", middleware=[log()]), ToolResult
)
assert_type(kit.stream("find"), Generator[ToolResult, None, None])
assert_type(kit.astream("find"), AsyncGenerator[ToolResult, None])
assert_type(kit.cancel("c1"), bool)

run = session.run({"tool_calls": []}, format="openai")
assert_type(run, Run)
assert_type(run[0], dict[str, Any])
assert_type(run[1:], list[dict[str, Any]])
assert_type(list(run), list[dict[str, Any]])
assert_type(run.results, list[tuple[ToolCall, ToolResult]])
assert_type(run.pending, list[ApprovalRequest | ExternalCall])
assert_type(run.pending[0].to_json(), dict[str, Any])
assert_type(kit.resume(run, approved={"c1": True}), Run)
assert_type(kit.resume(run, results={"c1": 3}), Run)
assert_type(kit.resume(run.pending[0], approved=True, arguments={"topic": "tea"}), Run)
assert_type(kit.resume(run.pending[0].to_json(), approved=False, reason="no"), Run)
assert_type(Run.from_json(run.to_json()), Run)
assert_type(kit.run({"tool_calls": []}, run_in_thread=False), Run)
assert_type(kit.run('{"tool_calls": []}'), Run)
assert_type(kit.run([{"type": "function_call"}]), Run)
assert_type(kit.run(Verdict(is_good=True), format="openai"), Run)
assert_type(run.problem, str | None)


def answer_for(messages: list[Any], tools: Any) -> dict[str, Any]:
    """A model."""
    return {"role": "assistant", "content": f"{len(messages)} of {tools}"}


conversation = kit.converse(answer_for, "Hello", max_turns=3, format="openai")
assert_type(conversation, Conversation)
assert_type(kit.converse(formats.openai.model(object(), model="m"), conversation, approved={"c1": True}), Conversation)
assert_type(Conversation.from_json(conversation.to_json()), Conversation)
assert_type(Conversation.from_error(ValueError()), Conversation | None)
for event in kit.stream_converse(answer_for, [{"role": "user", "content": "Hello"}]):
    assert_type(event, TextDelta | ToolCall | ToolResult | Conversation)
for streamed in kit.stream_run({"tool_calls": []}, format="openai"):
    assert_type(streamed, ToolResult | Run)


def servers() -> None:
    """MCP at both ends."""
    assert_type(kit.add_mcp("https://example.com/mcp", auth=lambda state: state["token"], timeout=None), Toolkit)
    assert_type(
        kit.add_mcp(
            "uvx server",
            requires_approval=lambda arguments: "path" in arguments,
            exclusive=lambda arguments: arguments.get("path"),
            on_change=lambda server, changes: print(changes.breaking),
            postprocess=lambda call, result: None if call.name == "get" else result,
        ),
        Toolkit,
    )
    assert_type(kit.servers, dict[str, "RemoteServer"])
    server: FastMCP[Any] = kit.to_fastmcp_server(state=lambda request: {"user": request.client_id}, audience="main")
    print(server)


async def calls() -> None:
    """The asynchronous calls."""
    assert_type(await kit.aexec("find"), ToolResult)
    assert_type(await kit.arun([ToolCall(id="c1", name="find")]), Run)
    assert_type(await kit.aresume(run, approved=True, results={"c2": None}), Run)
    assert_type(await kit.aconverse(answer_for, "Hello"), Conversation)
    assert_type(await kit.aadd_mcp(["python", "server.py"], pin="mcp.lock", include=["get_*"]), Toolkit)
    assert_type(await kit.aadd_skills("skills"), Toolkit)
    async for result in kit.astream("find"):
        assert_type(result, ToolResult)
