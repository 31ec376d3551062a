"""A spec as a FastMCP tool: FastMCP lists the definition, the spec runs the call, and no tool can end the server."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError as ForeignToolError
from fastmcp.server.dependencies import get_context
from fastmcp.tools import Tool
from fastmcp.utilities.types import File, Image
from mcp_types import ImageContent, TextContent
from pydantic import BaseModel

from ahvn_tools import ToolError, ToolResult, ToolSpec, tool
from ahvn_tools.errors import ToolSpecError


class Served:
    """Specs on a FastMCP server, and a client of it."""

    def __init__(self, *specs: ToolSpec, **options: Any) -> None:
        self.server = FastMCP("test", **options)
        for spec in specs:
            self.server.add_tool(spec.to_fastmcp())
        self.client = Client(self.server)

    async def __aenter__(self) -> Any:
        return await self.client.__aenter__()

    async def __aexit__(self, *error: object) -> None:
        await self.client.__aexit__(*error)


async def call(spec: ToolSpec, **arguments: Any) -> Any:
    async with Served(spec) as client:
        return await client.call_tool_mcp(spec.name, arguments)


async def get_error(spec: ToolSpec, **arguments: Any) -> str:
    result = await call(spec, **arguments)
    assert result.is_error
    (block,) = result.content
    return block.text


@tool(tags={"a"}, title="Add up", annotations={"readOnlyHint": True})
def add(a: int, b: int = 2, token: str = "none") -> int:
    """Add two numbers.

    Args:
        a: The first.
    """
    return a + b


def test_the_tool_is_a_fastmcp_tool():
    for fastmcp_tool in (add.tool, add.binded, add.to_fastmcp()):
        assert isinstance(fastmcp_tool, Tool)
        assert (fastmcp_tool.name, fastmcp_tool.description, fastmcp_tool.title, fastmcp_tool.tags) == (
            "add",
            "Add two numbers.",
            "Add up",
            {"a"},
        )
        assert (fastmcp_tool.parameters, fastmcp_tool.output_schema) == (add.input_schema, add.output_schema)


def test_the_tool_is_created_once_and_again_after_a_binding():
    spec = add.clone()
    assert spec.binded is spec.binded
    before = spec.binded
    spec.bind("b", default=3)
    assert spec.binded is not before
    assert list(spec.binded.parameters["properties"]) == ["a", "token"]
    assert list(before.parameters["properties"]) == ["a", "b", "token"]


def test_the_caller_may_change_an_exported_tool():
    exported = add.to_fastmcp()
    exported.parameters["properties"].clear()
    assert list(add.to_fastmcp().parameters["properties"]) == list(add.params)


async def test_a_listing_shows_the_definition():
    spec = add.clone().bind("token", default="classified")
    async with Served(spec) as client:
        (listed,) = await client.list_tools()
    assert listed.model_dump(exclude={"execution"}) == spec.to_mcp().model_dump(exclude={"execution"})
    assert "token" not in str(listed)


async def test_a_call_returns_text_and_structured_content():
    result = await call(add, a="1")
    assert (result.is_error, result.structured_content) == (False, {"result": 3})
    assert [block.text for block in result.content] == ["3"]
    assert "duration" not in (result.meta or {})


async def test_state_is_read_when_called():
    spec = add.clone().bind("b", "settings.b", 5)
    async with Served(spec) as client:
        assert (await client.call_tool("add", {"a": 1})).data == 6
        spec.state["settings"]["b"] = 7
        assert (await client.call_tool("add", {"a": 1})).data == 8


async def test_a_bound_parameter_is_sealed():
    spec = add.clone().bind("token", default="classified")
    text = await get_error(spec, a=1, token="mine")
    assert text.startswith("Invalid arguments: unknown argument 'token'")
    assert "classified" not in text
    assert "mine" not in text


@pytest.mark.parametrize("is_masked", [True, False])
async def test_invalid_arguments_are_reported(is_masked):
    async with Served(add, mask_error_details=is_masked) as client:
        result = await client.call_tool_mcp("add", {"a": "classified", "c": 1})
    assert result.is_error
    assert "'a' should be a valid integer" in result.content[0].text
    assert "unknown argument 'c'" in result.content[0].text
    assert "classified" not in result.content[0].text


def failing(error: Exception) -> Any:
    async def fail() -> int:
        raise error

    return fail


def giving(value: Any) -> Any:
    return lambda: value


COUNTED = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
MASKED, INVALID = "Error calling tool 'f'", "The tool returned an invalid result."


@pytest.mark.parametrize(
    ("body", "options", "text"),
    [
        (failing(ToolError("Try an even number.")), {}, "Try an even number."),
        (failing(ForeignToolError("Try an even number.")), {}, "Try an even number."),
        (failing(KeyError("inner")), {}, MASKED),
        (failing(ToolSpecError("inner")), {}, MASKED),
        (failing(ExceptionGroup("inner", [ValueError()])), {}, MASKED),
        (lambda: asyncio.sleep(30), {"timeout": 0.1}, "Tool 'f' did not finish within 0.1 seconds"),
        (lambda a: a, {"binds": {"a": "id"}}, "The tool cannot run: its host has not provided a value that it needs."),
        (giving({"n": "text"}), {"output_schema": COUNTED}, INVALID),
        (giving({}), {"output_schema": COUNTED}, INVALID),
        (giving({"n": 1.5}), {"output_schema": COUNTED}, INVALID),
        (giving("many"), {"output_schema": COUNTED}, INVALID),
        (giving(object()), {}, INVALID),
    ],
)
async def test_a_failure_is_an_error_result_with_this_text(body, options, text):
    failed = await call(ToolSpec.from_function(body, name="f", **options))
    assert (failed.is_error, failed.structured_content) == (True, None)
    assert [block.text.partition(";")[0].removesuffix(".") for block in failed.content] == [text.removesuffix(".")]
    assert "duration" not in (failed.meta or {})


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), StopIteration()], ids=repr)
async def test_no_exception_of_a_tool_ends_the_server(error, is_async):
    def leave() -> int:
        raise error

    async def aleave() -> int:
        raise error

    spec = ToolSpec.from_function(aleave if is_async else leave, name="leave")
    async with Served(spec, add) as client:
        result = await client.call_tool_mcp("leave", {})
        assert result.is_error
        assert result.content[0].text == "Error calling tool 'leave'"
        assert (await client.call_tool("add", {"a": 1})).data == 3


def test_a_surrogate_in_a_definition_is_replaced():
    def find(text: str = "\ud800") -> str:
        return text

    find.__doc__ = "Find \ud800."
    spec = ToolSpec.from_function(find, title="\ud800", tags={"\ud800"}, meta={"\ud800": "\ud800"})
    sent = json.loads(spec.to_fastmcp().to_mcp_tool().model_dump_json())
    assert (sent["title"], sent["meta"]["\ufffd"]) == ("\ufffd", "\ufffd")
    assert sent["input_schema"]["properties"]["text"]["default"] == "\ufffd"


class Point(BaseModel):
    x: int


@pytest.mark.parametrize(
    ("value", "texts", "structured"),
    [
        ("text", ["text"], None),
        (None, [], None),
        ({"a": 1}, ['{"a": 1}'], {"a": 1}),
        ([1, 2], ["[1, 2]"], None),
        (Point(x=1), ['{"x": 1}'], {"x": 1}),
        (TextContent(type="text", text="block"), ["block"], None),
        (ToolResult("v", {"s": 1}), ["v"], {"s": 1}),
    ],
    ids=repr,
)
async def test_values_become_content(value, texts, structured):
    result = await call(ToolSpec.from_function(lambda: value, name="f"))
    assert not result.is_error
    assert [block.text for block in result.content] == texts
    assert result.structured_content == structured


async def test_media_become_content_blocks():
    @tool
    def media() -> list:
        return [Image(data=b"png", format="png"), "and", File(data=b"text", format="txt")]

    image, text, file = (await call(media)).content
    assert isinstance(image, ImageContent)
    assert (image.mime_type, text.text, file.type) == ("image/png", "and", "resource")


async def test_a_generator_returns_the_list_of_its_items():
    @tool
    async def count(n: int) -> AsyncIterator[int]:
        for i in range(n):
            yield i

    assert (await call(count, n=3)).structured_content == {"result": [0, 1, 2]}


async def test_a_body_can_report_progress_through_fastmcp():
    seen: list[tuple[float, float | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total))

    @tool
    async def work() -> str:
        await get_context().report_progress(1, 2)
        return "done"

    async with Served(work) as client:
        assert (await client.call_tool("work", {}, progress_handler=progress)).data == "done"
    assert seen == [(1, 2)]


async def test_a_slow_sync_tool_does_not_block_others():
    started, release = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @tool
    def slow() -> str:
        loop.call_soon_threadsafe(started.set)
        return str(release.wait(20))

    async with Served(slow, add) as client:
        waiting = asyncio.create_task(client.call_tool("slow", {}))
        await asyncio.wait_for(started.wait(), 20)
        assert (await client.call_tool("add", {"a": 1})).data == 3
        release.set()
        assert (await waiting).data == "True"
