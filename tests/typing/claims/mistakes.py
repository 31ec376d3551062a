"""Mistakes that a type checker must report: an ignore that is not needed is an error of this file."""

from __future__ import annotations

from typing import Any

from ahvn_tools import Toolkit, ToolResult, ToolSpec, tool
from ahvn_tools.middleware import Call, Next, log


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


kit = Toolkit("mistakes")


@kit.tool
def twice(number: int) -> int:
    """Double a number."""
    return 2 * number


@tool
def half(number: float) -> float:
    """Halve a number."""
    return number / 2


def not_async(call: Call, next: Next) -> ToolResult:
    """A middleware must be async."""
    raise NotImplementedError


def ask_nothing(messages: list[Any], tools: Any) -> dict[str, Any]:
    """A model."""
    return {"messages": messages, "tools": tools}


half("two")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
half.exec(nummer=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
half.call()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
text: str = half(1)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
tool(desciption="Add.")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
twice("two")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
ToolSpec.from_function(add, desciption="Add.")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
ToolSpec.from_function(add, timeout="1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
ToolSpec.from_function(add, isolation="thread")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
kit.add(add, audiense="main")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
kit.add(add, tags=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
kit.select(tag="read")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
kit.add_skills("skills", grup="math")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
kit.add_mcp("https://example.com/mcp", pinn="mcp.lock")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
kit.use(not_async)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
kit.use(log)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
kit.run(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
kit.session().run(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
kit.call("twice", number=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
Toolkit("mistakes", middlewares=[])  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
kit.tools  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
kit.exec(name="twice")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
kit.converse(ask_nothing, "Hello", max_turn=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
kit.resume({}, True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
kit.run({}).messages = []  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
