"""A program shows what its tools do while they run: items, output, progress, and a call that the user cancels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

from ahvn_tools import Run, ToolContext, Toolkit

kit = Toolkit("kitchen", timeout=60)


@kit.tool
def bake(cakes: int, context: ToolContext) -> Iterator[str]:
    """Bake cakes."""
    for number in range(1, cakes + 1):
        context.report_progress(number, cakes)
        yield f"cake {number}"


@kit.tool
async def watch(minutes: int, context: ToolContext) -> AsyncIterator[str]:
    """Watch the oven."""
    context.append_output("the oven is on")
    for minute in range(minutes):
        yield f"minute {minute}"
        await asyncio.sleep(3600)


async def main() -> None:
    """Read one stream, cancel another, and show all calls of an answer."""
    items = [item async for item in kit.astream("bake", {"cakes": 2})]
    assert [item.meta["progress"]["progress"] for item in items if "progress" in item.meta] == [1, 2], items
    assert [item.value for item in items if "progress" not in item.meta] == ["cake 1", "cake 2", ["cake 1", "cake 2"]]
    assert items[-1].is_last

    seen = []
    async for item in kit.astream("watch", {"minutes": 5}, call_id="w1"):
        seen.append((item.value, item.is_last))
        if item.value == "minute 0":
            assert kit.cancel("w1")
    assert seen == [("the oven is on", False), ("minute 0", False), (["minute 0"], True)], seen
    assert item.is_interrupted

    bakes = [{"id": f"c{n}", "function": {"name": "bake", "arguments": f'{{"cakes": {n}}}'}} for n in (1, 2)]
    chunks: dict[str | None, list[str]] = {}
    async for chunk in kit.astream_run({"tool_calls": bakes}, format="openai"):
        if isinstance(chunk, Run):
            assert [message["tool_call_id"] for message in chunk] == ["c1", "c2"]
        elif "progress" not in chunk.meta:
            chunks.setdefault(chunk.id, []).append(chunk.value)
    assert chunks == {"c1": ["cake 1"], "c2": ["cake 1", "cake 2"]}, chunks


assert kit.call("bake", {"cakes": 1}) == ["cake 1"]
asyncio.run(main())
