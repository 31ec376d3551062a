"""ToolSpec: how tools are made, bound and called."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping, MutableMapping
from typing import Annotated, Any, assert_type

from ahvn_tools import Secret, ToolDefinition, ToolResult, ToolSpec


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


class NamedSpec(ToolSpec):
    """A subclass of the user's."""


def log_in(name: str, phrase: Annotated[str, Secret]) -> str:
    """`Annotated[str, Secret]` is a text for the function."""
    assert_type(phrase, str)
    return name


spec = ToolSpec.from_function(add, name="plus", tags={"math"}, timeout=2.5, isolation="process")
spec = ToolSpec.from_function(add, max_items=10, max_bytes=None)
assert_type(spec, ToolSpec)
assert_type(ToolSpec.from_code("def f(): ..."), ToolSpec)
assert_type(ToolSpec.from_schema("find", {"type": "object"}, add, tags={"math"}), ToolSpec)
assert_type(ToolSpec.from_schema(name="find", input_schema={"type": "object"}, function=add), ToolSpec)
assert_type(ToolSpec.from_function(add, convert=False), ToolSpec)
assert_type(ToolSpec.from_schema("find", {"type": "object"}, external=True, output_schema={"type": "object"}), ToolSpec)
assert_type(ToolSpec.from_openai({}, external=True), ToolSpec)
assert_type(ToolSpec.from_function(add, output="raw", render=str), ToolSpec)
assert_type(ToolSpec.from_function(add, output_schema=None), ToolSpec)
assert_type(ToolSpec.from_function(add, description_separator=" "), ToolSpec)
assert_type(NamedSpec.from_function(add), NamedSpec)
assert_type(ToolSpec.from_function(func=add, examples=({"a": number} for number in range(3))), ToolSpec)

assert_type(spec.bind("a", "session.a", default=3).bind("b", resolver=lambda: 1, secret=True).unbind("a"), ToolSpec)
assert_type(NamedSpec.from_function(add).unbind("a").clone(), NamedSpec)
assert_type(NamedSpec.from_function(add).bind("a"), ToolSpec)  # `bind` returns the type that has fewer parameters
assert_type(spec.state, MutableMapping[str, Any])
spec.state = {"session": {"a": 1}}
assert_type(spec.binds, Mapping[str, str])

assert_type(spec.name, str)
assert_type(spec.title, str | None)
assert_type(spec.description, str)
assert_type(spec.tags, frozenset[str])
assert_type(spec.timeout, float | None)
assert_type(spec.definition, ToolDefinition)
assert_type(spec.input_schema, dict[str, Any])
assert_type(spec.output_schema, dict[str, Any] | None)
assert_type(spec.function, Callable[..., Any])
assert_type(spec.to_prompt(), str)
assert_type(spec.to("bedrock", strict=True), dict[str, Any])
assert_type(spec.to("of another package"), dict[str, Any])
assert_type(spec.to_jsonschema(strict=False), dict[str, Any])
assert_type(spec.to_jsonschema(plain=True), dict[str, Any])

assert_type(spec.exec(a=1), ToolResult)
assert_type(spec.stream(a=1), Generator[ToolResult, None, None])
assert_type(spec.astream(a=1), AsyncGenerator[ToolResult, None])
total: int = spec(1, b=2)  # the value of a call is Any: it is the JSON form of what the function returned
total = spec.call(a=1)


async def calls() -> None:
    """The asynchronous calls."""
    assert_type(await spec.aexec(a=1), ToolResult)
    value: int = await spec.acall(a=1)
    async for result in spec.astream(a=1):
        assert_type(result, ToolResult)
    assert_type(await ToolSpec.afrom_client(object(), "plus"), ToolSpec)
    print(value)
