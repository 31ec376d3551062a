"""Output schemas of a server that describe any value, as MCP allows since 2026-07-28, and results that do not fit."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from fastmcp import Client
from jsonschema_rs import validator_for
from mcp_types import CallToolResult, ImageContent, TextContent

from ahvn_tools import ToolCall, Toolkit, formats
from tests.mcp.raw_http import RawService, serving, text
from tests.mcp.serving import over_http

ROWS = {"type": "array", "items": {"$ref": "#/$defs/row"}, "$defs": {"row": {"type": "object", "required": ["n"]}}}
TREE = {
    "$defs": {
        "tree": {"type": "object", "properties": {"parts": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}
    },
    "$ref": "#/$defs/tree",
}
CHOICE = {"anyOf": [{"type": "integer"}, {"type": "object", "properties": {"n": {"type": "integer"}}}]}
RESULTS: dict[str, tuple[Any, Any]] = {
    "rows": (ROWS, [{"n": 1}]),
    "tree": (TREE, {"parts": [{"parts": []}]}),
    "number": (CHOICE, 5),
    "choice": (CHOICE, {"n": 5}),
}
IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}


@contextlib.asynccontextmanager
async def imported(service: RawService) -> AsyncIterator[Toolkit]:
    with serving(service):
        kit = Toolkit("kit")
        await kit.aadd_mcp(service.url, name="raw")
        try:
            yield kit
        finally:
            await kit.aremove_mcp("raw")


def make_service() -> RawService:
    """Return a server that speaks an older revision of the protocol than the one that allows its tools."""
    tools = {
        name: (lambda *_, value=value: {"content": [], "structuredContent": value})
        for name, (_, value) in RESULTS.items()
    }
    service = RawService(**tools)
    service.output_schemas = {name: schema for name, (schema, _) in RESULTS.items()}
    return service


async def test_tool_with_any_output_schema_is_imported_called_and_served_to_older_clients() -> None:
    async with imported(make_service()) as kit, over_http(kit) as url, Client(url, mode="legacy") as client:
        listed = {tool.name: tool for tool in await client.list_tools()}
        for name, (_, value) in RESULTS.items():
            assert await kit.acall(name, {}) == value
            schema = listed[name].output_schema
            assert schema is not None
            assert schema["type"] == "object"
            result = await client.call_tool_mcp(name, {})
            assert not result.is_error
            assert result.structured_content == (value if name == "tree" else {"result": value})


async def test_tool_with_any_output_schema_is_exported_in_each_format() -> None:
    async with imported(make_service()) as kit:
        for name in formats.BUILT_IN:
            assert kit.to(name)
        for spec in kit:
            assert spec.to_prompt()
            assert validator_for(spec.output_schema, offline=True)


async def test_value_that_does_not_fit_any_output_schema_is_an_error_with_the_text() -> None:
    service = RawService(
        rows=lambda *_: {**text("two rows"), "structuredContent": [{"m": 1}]}, plain=lambda *_: text("none")
    )
    service.output_schemas = {"rows": ROWS, "plain": ROWS}
    async with imported(service) as kit:
        for name, said in (("rows", "two rows"), ("plain", "none")):
            error = (await kit.aexec(name, {})).error
            assert error is not None
            assert error.code == "invalid_result"
            assert error.message.endswith(f"The tool has run and answered: {said}")


async def test_answer_that_is_not_mcp_is_an_error_that_says_where_and_shows_no_content() -> None:
    service = RawService(
        riddle=lambda *_: {"content": [{"type": "SECRET"}]},
        empty=lambda *_: {"content": [{"type": "text"}]},
        media=lambda *_: {
            "content": [{"type": "text", "text": "a", "annotations": {"SECRET": 1, "priority": "SECRET"}}]
        },
    )
    async with imported(service) as kit:
        messages = {name: (await kit.aexec(name, {})).text for name in service.tools}
    start = "The server's answer is not a valid MCP result: content.0"
    assert messages == {
        "riddle": f"{start}.type (unknown).",
        "empty": f"{start}.TextContent.text (missing).",
        "media": f"{start}.TextContent.annotations.priority (float parsing).",
    }


async def test_images_of_an_error_result_are_kept_and_its_texts_are_masked() -> None:
    service = RawService(draw=lambda _, sent: {"content": [*text(str(sent))["content"], IMAGE], "isError": True})
    async with imported(service) as kit:
        kit.bind("token", default="hunter2-hunter2")
        result = await kit.aexec("draw", {"size": 5})
        assert result.is_error
        first, image = result.content
        assert (first.text, image.data) == (result.text, "AAAA")
        async with over_http(kit) as url, Client(url) as client:
            served = await client.call_tool_mcp("draw", {})
            assert (served.is_error, [block.type for block in served.content]) == (True, ["text", "image"])


def test_images_of_an_error_result_reach_models_where_the_provider_takes_them() -> None:
    def draw() -> CallToolResult:
        """Draw."""
        blocks = [
            TextContent(type="text", text="too large"),
            ImageContent(type="image", data="AAAA", mime_type="image/png"),
        ]
        return CallToolResult(content=blocks, is_error=True)

    kit = Toolkit("kit")
    kit.add(draw)
    result = kit.exec("draw")
    assert result.text == "too large"
    assert [block.type for block in result.content] == ["text", "image"]
    pairs = [(ToolCall(id="a", name="draw"), result)]
    (message,), (other,) = (formats.get(name).results(pairs) for name in ("anthropic", "openai-responses"))
    block = message["content"][0]
    assert (block["is_error"], block["content"]) == (True, "too large\n[image (image/png), not shown]")
    assert [part["type"] for part in other["output"]] == ["input_text", "input_image"]
