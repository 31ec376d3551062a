"""Half of a surrogate pair, as a text has that was cut inside of an emoji, costs one character or one call."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.formats.json_data import replace_surrogates
from ahvn_tools.mcp.lone_surrogates import LoneSurrogates
from tests.mcp.raw_http import RawService, serving, text


@contextlib.asynccontextmanager
async def imported(server: Any, **options: Any) -> AsyncIterator[Toolkit]:
    kit = Toolkit("kit")
    await kit.aadd_mcp(server, name="raw", **options)
    try:
        yield kit
    finally:
        await kit.aremove_mcp("raw")


HALF = "cut \ud83d"
RAW = Path(__file__).parent / "raw_server.py"


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({"text": HALF}, "in 'text'"),
        ({"text": [{"deep": HALF}]}, "in 'text'"),
        ({"text": {HALF: 1}}, "in 'text'"),
        ({"text": "[" + json.dumps(HALF) + "]", "list": json.dumps([HALF])}, "in 'list'"),
        ({HALF: 1}, "in the name of an argument"),
    ],
)
def test_lone_surrogate_in_an_argument_is_an_invalid_parameter_of_a_tool_with_a_schema(
    arguments: dict[str, Any], place: str
) -> None:
    """jsonschema-rs raises where a schema has a pattern, and overlooks it elsewhere."""
    schema = {
        "type": "object",
        "properties": {"text": {"pattern": "^"}, "list": {"type": "array", "items": {"pattern": "^"}}},
    }
    seen: list[Any] = []
    spec = ToolSpec.from_schema("echo", schema, lambda **given: seen.append(given))
    error = spec.exec(**arguments).error
    assert error is not None
    assert error.code == "invalid_parameters"
    assert place in error.message
    assert not seen
    error.message.encode()


def test_lone_surrogate_in_a_bound_value_is_an_error_before_the_call() -> None:
    spec = ToolSpec.from_schema("echo", {"type": "object", "properties": {"a": {}}, "required": ["a"]}, lambda a: a)
    spec.bind("a", default={"b": HALF})
    error = spec.exec().error
    assert error is not None
    assert error.code == "unbound_state"


async def test_only_the_call_with_a_lone_surrogate_fails_over_stdio() -> None:
    async with imported([sys.executable, str(RAW)]) as kit:
        first = await kit.acall("pid", {})
        error = (await kit.aexec("echo", {"text": HALF})).error
        assert error is not None
        assert error.code == "invalid_parameters"
        assert await kit.acall("pid", {}) == first


async def test_only_the_call_with_a_lone_surrogate_fails_over_http() -> None:
    done = threading.Event()
    with serving(RawService(slow=lambda *_: done.wait(10) and text("done"), echo=lambda *_: text("x"))) as service:
        async with imported(service.url) as kit:
            other = asyncio.create_task(kit.acall("slow", {}))
            await asyncio.to_thread(service.called.wait, 10)
            error = (await kit.aexec("echo", {"text": HALF})).error
            assert error is not None
            assert error.code == "invalid_parameters"
            done.set()
            assert await other == "done"
        assert [name for name, _ in service.calls] == ["slow"]


async def test_answer_to_a_question_loses_the_lone_surrogate_and_keeps_the_connection() -> None:
    options: dict[str, Any] = {"elicitation": lambda *_: {"colour": HALF}, "sampling": lambda *_: HALF}
    async with imported([sys.executable, str(RAW)], **options) as kit:
        first = await kit.acall("pid", {})
        assert (await kit.acall("elicit", {}))["result"]["content"] == {"colour": "cut \ufffd"}
        assert (await kit.acall("sample", {}))["result"]["content"]["text"] == "cut \ufffd"
        assert await kit.acall("pid", {}) == first


async def test_lone_surrogate_in_a_result_costs_the_character_over_stdio() -> None:
    async with imported([sys.executable, str(RAW)]) as kit:
        assert await kit.acall("halves", {}) == {"result": {"cut \ufffd": ["\ufffd 😀", "\ufffd\ufffd"]}}
        assert await kit.acall("not_utf8", {}) == "a\ufffdb"


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_lone_surrogate_in_a_result_costs_the_character_over_http(kind: str) -> None:
    def answer(request: Any, message: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": text("\ud83d😀\udc00 \\ud83d é")}).encode()
        request.write(200, b"data: " + body + b"\n\n" if kind == "text/event-stream" else body, kind)

    with serving(RawService(halves=answer)) as service:
        async with imported(service.url) as kit:
            assert await kit.acall("halves", {}) == "\ufffd😀\ufffd \\ud83d é"


@given(st.text(st.sampled_from('\ud83d\ude00😀a\\"\nud83é'), max_size=12), st.booleans(), st.data())
def test_only_lone_surrogates_are_replaced_however_the_bytes_arrive(value: str, is_ascii: bool, data: Any) -> None:
    message = json.dumps([value], ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    surrogates, parts, rest = LoneSurrogates(), [], message
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        parts.append(surrogates.replace(rest[:size]))
        rest = rest[size:]
    (got,) = json.loads(b"".join([*parts, surrogates.finish()]).decode())
    if message.isascii():
        assert got == replace_surrogates(json.loads(message)[0])
    elif value == replace_surrogates(value):
        assert got == value
