"""A file of tools for the tests of `call`: sync, async, isolated and streaming ones, questions, files, errors."""

DESK = '''
import asyncio
import os
import time
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, SecretStr

from ahvn_tools import ToolContext, ToolError, Toolkit

kit = Toolkit("desk", state={"user": {"name": "canary-ann"}}).bind("user", "user.name").add_group("heavy")


class Point(BaseModel):
    x: int
    y: float = 0.0


def started() -> None:
    if file := os.environ.get("DESK_STARTED"):
        Path(file).write_text(str(os.getpid()))


@kit.tool
def greet(name: str, times: int = 1, user: str = "") -> str:
    """Greet a person."""
    print("printed by the tool")
    return f"hello {name} " * times


@kit.tool
def who(user: str) -> dict[str, Any]:
    return {"length": len(user), "known": user == "canary-bob"}


@kit.tool
def echo(
    text: str = "",
    number: int = 0,
    share: float = 0.0,
    flag: bool = False,
    tags: list[str] | None = None,
    ids: list[int] | None = None,
    point: Point | None = None,
    either: int | str = 0,
    anything: Any = None,
    color: Literal["red", "green"] = "red",
    level: Annotated[int, Field(ge=1)] = 1,
    maybe: str | None = None,
) -> dict[str, Any]:
    values = dict(locals())
    defaults = [("color", "red"), ("level", 1)]
    chosen = {name: value for name, value in values.items() if (name, value) not in defaults}
    return {name: value for name, value in chosen.items() if value not in ("", 0, None)}


@kit.tool
def count(to: int, context: ToolContext, seconds: float = 0.0):
    """Count up."""
    for number in range(to):
        context.report_progress(number, to, f"step {number} \\x1b[2J")
        context.append_output(f"output {number} \\x1b[2J")
        yield number
        started()
        time.sleep(seconds)


@kit.tool
def sleep(seconds: float = 600.0) -> str:
    started()
    try:
        time.sleep(seconds)
    finally:
        print("cleaned up", flush=True)
    return "slept"


@kit.tool
async def asleep(seconds: float = 600.0) -> str:
    started()
    try:
        await asyncio.sleep(seconds)
    finally:
        print("cleaned up", flush=True)
    return "slept"


@kit.tool(isolation="process")
def isolated(seconds: float = 600.0) -> str:
    started()
    time.sleep(seconds)
    return "slept"


@kit.tool(requires_approval=True)
def wipe(path: str, token: SecretStr | None = None) -> str:
    return f"wiped {path}"


@kit.tool
def ask(path: str, context: ToolContext) -> str:
    context.ask(f"delete {path}", {"path": path})
    return "deleted"


@kit.tool
async def ask_later(path: str, context: ToolContext) -> str:
    await context.aask(f"delete {path}", {"path": path})
    return "deleted"


@kit.tool
def fail(user: str) -> str:
    raise ValueError(f"no such user: {user}")


@kit.tool
def refuse() -> str:
    raise ToolError("first line\\nsecond \\x1b[31mline")


@kit.tool
def leave() -> None:
    raise SystemExit(3)


@kit.tool(group="heavy")
def lift() -> None:
    """Lift."""


@kit.tool
def hostile() -> str:
    return "a\\x1b[2J\\u202eb"


@kit.tool
def pictures() -> list[Any]:
    from mcp_types import AudioContent, BlobResourceContents, EmbeddedResource, ImageContent, TextContent

    blob = BlobResourceContents(uri="file:///../../evil.py", blob="ZXZpbA==", mime_type="text/x-python")
    return [
        TextContent(type="text", text="two pictures"),
        ImageContent(type="image", data="Zmlyc3Q=", mime_type="image/png"),
        ImageContent(type="image", data="c2Vjb25k", mime_type="image/png"),
        AudioContent(type="audio", data="c291bmQ=", mime_type="../../sh"),
        EmbeddedResource(type="resource", resource=blob),
    ]


@kit.tool
def login(name: str, password: str, color: Literal["red", "green"], level: Annotated[int, Field(ge=1)]) -> str:
    """Log in."""
    return f"{len(password)} {color} {level}"
'''
