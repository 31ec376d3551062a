"""Postprocess: a host's function over the chunks and results of a tool."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import pytest
from fastmcp import Client
from mcp_types import ImageContent, TextContent
from pydantic import BaseModel

from ahvn_tools import ToolCall, Toolkit, ToolResult, ToolSpec
from ahvn_tools.middleware import cache, keep_large, record, truncate
from tests.execution.entry_points import combinations


def kit_of(function: Any, body: Any = lambda: 1) -> Toolkit:
    return Toolkit("kit").add(body, rename="one", postprocess=function)


async def one_later() -> int:
    return 1


@combinations(error={"exit": SystemExit(3), "interrupt": KeyboardInterrupt(), "error": ValueError("hunter2")})
async def test_served_what_it_raises_is_an_error_result(error: BaseException) -> None:
    def fail(_call: Any, _result: Any) -> None:
        raise error

    kit = kit_of(fail)
    result = await kit["one"].to_fastmcp().run({})
    assert result.is_error
    assert "hunter2" not in result.content[0].text


async def test_in_a_local_call_system_exit_is_raised() -> None:
    def leave(_call: Any, _result: Any) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        await kit_of(leave).aexec("one")


class Note(BaseModel):
    """An object with one property."""

    text: str


SECRET = "a secret"
PIXEL = base64.b64encode(b"a secret image").decode()
IMAGE = ImageContent(type="image", data=PIXEL, mime_type="image/png")
TEXT = TextContent(type="text", text=SECRET)


def say() -> str:
    return SECRET


def note() -> Note:
    return Note(text=SECRET)


def untyped():
    return {"a": SECRET, "b": 1}


def table() -> dict[str, str]:
    return {"a": SECRET}


def pictured():
    return [TEXT, IMAGE]


def said():
    return [TEXT]


def unlike() -> ToolResult:
    return ToolResult("short", structured_content={"long": SECRET}, blocks=(TEXT,))


def listed() -> list[str]:
    return [SECRET]


def raw() -> Any:
    return SECRET


def replaced_values() -> dict[str, tuple[Any, dict[str, Any], Any, Any]]:
    """A tool, its options, the new value, and the structured content that it has then."""
    return {
        "text": (say, {}, "REDACTED", {"result": "REDACTED"}),
        "of_an_only_property": (note, {}, "REDACTED", {"text": "REDACTED"}),
        "object": (untyped, {}, "REDACTED", None),
        "object_by_object": (untyped, {}, {"c": 2}, {"c": 2}),
        "typed_object": (table, {}, {"a": "***"}, {"a": "***"}),
        "list": (listed, {}, ["***"], {"result": ["***"]}),
        "image": (pictured, {}, "REDACTED", None),
        "block": (said, {}, "REDACTED", None),
        "own_result": (unlike, {"output_schema": None}, "REDACTED", None),
        "own_result_by_object": (unlike, {"output_schema": None}, {"c": 2}, {"c": 2}),
        "raw": (raw, {"output": "raw", "render": lambda value: TEXT}, "REDACTED", None),
        "none": (say, {"output_schema": None}, None, None),
    }


@pytest.mark.parametrize("place", ["postprocess", "middleware"])
@pytest.mark.parametrize(("body", "options", "value", "structured"), replaced_values().values(), ids=replaced_values())
async def test_no_form_of_a_result_has_the_value_that_was_replaced(
    body: Any, options: dict[str, Any], value: Any, structured: Any, place: str, tmp_path: Any
) -> None:
    def redact(_call: Any, result: ToolResult) -> ToolResult:
        return replace(result, value=value)

    async def around(call: Any, next: Any) -> ToolResult:
        return redact(call, await next(call))

    added: Any = {"postprocess": redact} if place == "postprocess" else {"middleware": [around]}
    around_it = [record(tmp_path / "calls.jsonl"), cache(ttl=60)]
    kit = Toolkit("kit", middleware=around_it).add(ToolSpec.from_function(body, name="one", **options), **added)
    for _ in range(2):  # the second one is from the cache
        result = await kit.aexec("one")
        assert (result.value, result.structured_content) == (value, structured)
    async with Client(kit.to_fastmcp_server()) as client:
        served = await client.call_tool("one", raise_on_error=False)
    streamed = [chunk async for chunk in kit.astream("one")]
    call = ToolCall(id="1", name="one")
    messages = [kit.run([call], format=name).messages for name in ("openai", "anthropic", "gemini", "langchain", "mcp")]
    recorded = (tmp_path / "calls.jsonl").read_text()
    shown = f"{result!r}{result.text}{result.content}{result.to_mcp()}{pickle.dumps(result)!r}{asdict(result)}"
    whole = f"{shown}{served.content}{served.structured_content}{streamed}{messages}{recorded}"
    assert SECRET not in whole
    assert PIXEL not in whole
    if structured is not None:
        assert served.structured_content == structured


def test_what_is_replaced_together_with_the_value_is_used() -> None:
    result = Toolkit("kit").add(say).exec("say")
    changed = replace(result, value="x", structured_content={"mine": 1}, blocks=(IMAGE,))
    assert (changed.structured_content, changed.content) == ({"mine": 1}, [IMAGE])
    assert replace(changed, meta={"a": 1}).content == [IMAGE]
    assert replace(changed, value="y").content[0].text == "y"


@pytest.mark.parametrize("middleware", [keep_large(1_000), truncate(100)], ids=["keep_large", "truncate"])
def test_a_part_of_a_long_result_is_not_shown_after_its_value_was_replaced(middleware: Any) -> None:
    kit = Toolkit("kit", middleware=[middleware])
    kit.add(lambda: SECRET * 1_000, rename="long", description="Return a text.")

    async def redact(call: Any, next: Any) -> ToolResult:
        return replace(await next(call), value="REDACTED")

    result = kit.exec("long", middleware=[redact])
    assert (result.text, [block.text for block in result.content]) == ("REDACTED", ["REDACTED"])


def test_chunks_that_are_replaced() -> None:
    def redact(_call: Any, result: ToolResult) -> ToolResult:
        return replace(result, value="REDACTED")

    def notes() -> Iterator[Note]:
        yield Note(text=SECRET)

    assert SECRET not in repr(list(kit_of(redact, notes).stream("one")))
