"""Which calls may be made twice: by annotations, and by name."""

from __future__ import annotations

from ahvn_tools import Toolkit, ToolResult, ToolSpec
from ahvn_tools.middleware.repeatable import ForRepeatableCalls


def told_of(names: tuple[str, ...], tools=(), all_tools: bool = False, **annotations: bool) -> list[str]:
    told: list[str] = []
    chosen = ForRepeatableCalls(tools, all_tools=all_tools)

    async def look(call, next):
        if chosen.acts_on(call):
            told.append(call.name)
        return ToolResult()

    kit = Toolkit("k", middleware=[look])
    for name in names:
        kit.add(ToolSpec.from_function(print_nothing, name=name, annotations=annotations or None))
        kit.exec(name)
    return told


def print_nothing() -> None: ...


def test_annotations_mark_a_tool_as_repeatable():
    assert told_of(("read",), readOnlyHint=True) == told_of(("read",), idempotentHint=True) == ["read"]
    assert told_of(("read",)) == told_of(("read",), destructiveHint=True, readOnlyHint=False) == []


def test_tools_may_be_named():
    assert told_of(("delete", "delete_all"), tools={"delete"}) == ["delete"]
    assert told_of(("delete", "delete_all"), all_tools=True) == ["delete", "delete_all"]


def test_a_str_is_one_tool_name():
    assert told_of(("delete", "delete_all", "all"), tools="delete_all") == ["delete_all"]
