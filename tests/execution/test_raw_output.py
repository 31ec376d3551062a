"""Raw results: the host gets the very object that a tool returned, and models read what `render` makes of it."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import pickle
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.utilities.types import Image
from mcp_types import CallToolResult, ImageContent, InputRequiredResult, TextContent
from pydantic import BaseModel

from ahvn_tools import Toolkit, ToolResult, ToolSpec, formats, register_encoder
from ahvn_tools.encoders import registry
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import INVALID_RESULT, DefinitionError, InvalidResultError
from ahvn_tools.execution.call import Call, Next
from ahvn_tools.middleware.cache import cache
from ahvn_tools.middleware.log import log
from ahvn_tools.middleware.record import record, replay
from ahvn_tools.middleware.truncate import truncate
from ahvn_tools.results import UNSENDABLE, ToolCall, text_block
from ahvn_tools.toolkit.run import Run
from tests.execution.entry_points import (
    ENTRY_POINTS,
    RESULT_ENTRY_POINTS,
    STREAM_ENTRY_POINTS,
    VALUE_ENTRY_POINTS,
    EntryPoint,
    combinations,
    run,
)

SECRET = "hunter2"


class Db:
    """An object without a JSON form, whose repr nobody else may see."""

    password = SECRET

    def __repr__(self) -> str:
        return f"Db(password={self.password!r})"


@dataclass
class Account:
    """An object with a JSON form that `render` hides."""

    name: str = "Ann"
    password: str = SECRET


class Row(BaseModel):
    x: int = 1


DB = Db()
CALL = ToolCall(id="c1", name="subject")
BLOCK = ImageContent(type="image", data="cG5n", mime_type="image/png")


def returning(value: Any) -> Any:
    def subject() -> Any:
        return value

    return subject


def areturning(value: Any) -> Any:
    async def subject() -> Any:
        return value

    return subject


def yielding(*values: Any) -> Any:
    def subject() -> Iterator[Any]:
        yield from values

    return subject


def ayielding(*values: Any) -> Any:
    async def subject() -> AsyncIterator[Any]:
        for value in values:
            yield value

    return subject


def raw(body: Any, **options: Any) -> ToolSpec:
    return ToolSpec.from_function(body, **{"output": "raw", "name": "subject", **options})


def describe(value: Any) -> str:
    return f"one {type(value).__name__}"


def fail(_: Any) -> str:
    raise RuntimeError(SECRET)


BODIES = {"sync": returning, "async": areturning}
GENERATORS = {"sync": yielding, "async": ayielding}
WAYS: dict[str, dict[str, Any]] = {"direct": {}, "in the loop": {"run_in_thread": False}, "timeout": {"timeout": 30.0}}


# the value


@combinations(body=BODIES, render={"none": None, "render": describe}, way=WAYS, entry_point=VALUE_ENTRY_POINTS)
def test_call_returns_the_very_object(body: Any, render: Any, way: dict[str, Any], entry_point: EntryPoint) -> None:
    assert entry_point(raw(body(DB), render=render, **way)) is DB


@combinations(body=BODIES, way=WAYS, entry_point=RESULT_ENTRY_POINTS)
def test_exec_has_the_very_object_and_models_read_its_rendering(
    body: Any, way: dict[str, Any], entry_point: EntryPoint
) -> None:
    result = entry_point(raw(body(DB), render=describe, **way))
    assert (result.value is DB, result.is_error, result.structured_content) == (True, False, None)
    assert (result.text, [block.text for block in result.content]) == ("one Db", ["one Db"])
    assert result.meta["duration"] >= 0


@pytest.mark.parametrize("value", [DB, [DB], {"db": DB}, object], ids=["object", "list", "dict", "class"])
@pytest.mark.parametrize("entry_point", RESULT_ENTRY_POINTS.values(), ids=RESULT_ENTRY_POINTS)
def test_without_a_json_form_the_host_has_the_value_and_models_an_error(
    entry_point: EntryPoint, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    result = entry_point(raw(returning(value)))
    assert (result.value is value, result.is_error, result.text) == (True, False, UNSENDABLE)
    assert [block.text for block in result.content] == [UNSENDABLE]
    assert (result.to_mcp().is_error, result.to_mcp().content[0].text) == (True, UNSENDABLE)
    for name in formats.BUILT_IN:
        assert UNSENDABLE in json.dumps(formats.get(name).results([(CALL, result)]))
    assert "has no JSON form" in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a text", "a text"),
        ({"a": 1}, '{"a": 1}'),
        ([Row()], '[{"x": 1}]'),
        (Path("a/b"), "a/b"),
        (b"bytes", "bytes"),
        (3.5, "3.5"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_without_render_models_read_the_json_form(value: Any, text: str) -> None:
    result = raw(returning(value)).exec()
    assert (result.value is value, result.text, result.structured_content) == (True, text, None)
    assert formats.openai.results([(CALL, result)])[0]["content"] == text
    assert result.to_mcp().content[0].text == text


def test_models_read_nothing_of_none() -> None:
    result = raw(returning(None)).exec()
    assert (result.value, result.content, result.is_error) == (None, [], False)


def test_content_stays_content_and_its_object_is_the_value() -> None:
    image = Image(data=b"png", format="png")
    for value, kinds in ((image, ["image"]), (["a", BLOCK], ["text", "image"]), (b"\x89PNG\r\n\x1a\n", ["image"])):
        result = raw(returning(value)).exec()
        assert (result.value is value, [block.type for block in result.content]) == (True, kinds)


def test_an_encoder_is_used_for_models_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})
    register_encoder(Db, lambda _: {"kind": "db"})
    result = raw(returning(DB)).exec()
    assert (result.value is DB, result.text) == (True, '{"kind": "db"}')


@combinations(body=BODIES, entry_point=VALUE_ENTRY_POINTS)
def test_call_converts_nothing_for_models_that_read_nothing(
    body: Any, entry_point: EntryPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[Any] = []
    monkeypatch.setattr(registry, "_registered", {Db: encoded.append})
    assert entry_point(raw(body(DB))) is DB
    assert encoded == []


# what render returns


@pytest.mark.parametrize(
    ("rendered", "types"),
    [
        ("text", ["text"]),
        (BLOCK, ["image"]),
        ([BLOCK, "text", TextContent(type="text", text="more")], ["image", "text", "text"]),
        (Image(data=b"png", format="png"), ["image"]),
        ((), []),
    ],
    ids=["text", "block", "list", "media", "nothing"],
)
def test_render_returns_a_text_or_content(rendered: Any, types: list[str]) -> None:
    result = raw(returning(DB), render=lambda _: rendered).exec()
    assert (result.value is DB, [block.type for block in result.content]) == (True, types)
    assert [block.type for block in result.to_mcp().content] == types
    assert not result.to_mcp().is_error


@combinations(body=BODIES, entry_point=ENTRY_POINTS)
def test_a_render_that_fails_is_an_invalid_result(
    body: Any, entry_point: EntryPoint, caplog: pytest.LogCaptureFixture
) -> None:
    try:
        error: Any = entry_point(raw(body(DB), render=fail)).exception
    except InvalidResultError as raised:
        error = raised
    assert (error.code, error.message) == ("invalid_result", INVALID_RESULT)
    assert str(error) == (
        "The `render` function of the tool raised RuntimeError: "
        "let it return a text, a content block or a list of these."
    )
    assert isinstance(error.__cause__, RuntimeError)
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("rendered", "problem"),
    [
        ({"a": 1}, "returned a dict"),
        (None, "returned a NoneType"),
        (DB, "returned a Db"),
        ([BLOCK, 3], "returned a int"),
    ],
    ids=["dict", "None", "object", "list"],
)
def test_a_render_that_returns_something_else_is_an_invalid_result(rendered: Any, problem: str) -> None:
    result = raw(returning(DB), render=lambda _: rendered).exec()
    assert (result.error, result.value) == (ErrorDetail(code="invalid_result", message=INVALID_RESULT), None)
    assert problem in str(result.exception)


def test_an_async_render_is_refused_when_the_tool_is_made() -> None:
    async def render(value: Any) -> str:
        return str(value)

    with pytest.raises(DefinitionError, match="`render` is a sync function"):
        raw(returning(DB), render=render)


def test_ctrl_c_in_render_reaches_the_caller() -> None:
    def render(_: Any) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        raw(returning(DB), render=render).exec()


def test_an_image_that_render_cannot_read_is_an_invalid_result() -> None:
    result = raw(returning(DB), render=lambda _: Image(path="/nowhere/at/all.png")).exec()
    assert (result.error.code, "nowhere" in result.text) == ("invalid_result", False)


# generators


@combinations(generator=GENERATORS, entry_point=STREAM_ENTRY_POINTS)
def test_each_item_is_raw_and_rendered(generator: Any, entry_point: EntryPoint) -> None:
    *chunks, last = entry_point(raw(generator(DB, Row()), render=describe))
    assert [chunk.value is item for chunk, item in zip(chunks, (DB, chunks[1].value), strict=True)] == [True, True]
    assert [chunk.text for chunk in chunks] == ["one Db", "one Row"]
    assert (last.value[0] is DB, [block.text for block in last.content]) == (True, ["one Db", "one Row"])
    assert last.text == "one Db\none Row"
    assert not any(chunk.is_last for chunk in chunks)


@combinations(generator=GENERATORS, entry_point=VALUE_ENTRY_POINTS)
def test_call_returns_the_list_of_the_very_items(generator: Any, entry_point: EntryPoint) -> None:
    assert [item is DB for item in entry_point(raw(generator(DB, DB)))] == [True, True]


@combinations(generator=GENERATORS, entry_point=STREAM_ENTRY_POINTS)
def test_an_item_without_a_json_form_is_unreadable_for_models(generator: Any, entry_point: EntryPoint) -> None:
    first, second, last = entry_point(raw(generator(DB, Row())))
    assert (first.value is DB, first.is_error, first.text) == (True, False, UNSENDABLE)
    assert (second.text, last.text) == ('{"x": 1}', UNSENDABLE)


@combinations(generator=GENERATORS, entry_point=STREAM_ENTRY_POINTS)
def test_an_item_that_cannot_be_rendered_is_an_error_chunk(generator: Any, entry_point: EntryPoint) -> None:
    results = entry_point(raw(generator(DB), render=fail))
    assert [result.error.code for result in results] == ["invalid_result", "invalid_result"]


def test_no_item_is_an_empty_list_without_content() -> None:
    result = raw(yielding(), render=describe).exec()
    assert (result.value, result.content, result.is_error) == ([], [], False)


# results that a tool makes itself


@combinations(body=BODIES, entry_point=RESULT_ENTRY_POINTS)
def test_the_value_of_a_result_is_rendered(body: Any, entry_point: EntryPoint) -> None:
    result = entry_point(raw(body(ToolResult(DB, meta={"cost": 1})), render=describe))
    assert (result.value is DB, result.text, result.meta["cost"]) == (True, "one Db", 1)


@pytest.mark.parametrize("render", [None, describe])
def test_a_result_that_says_what_models_read_is_used_unchanged(render: Any) -> None:
    text = TextContent(type="text", text="own")
    for made in (ToolResult(DB, blocks=(text,)), CallToolResult(content=[text])):
        assert raw(returning(made), render=render).exec().content == [text]
    failed = ToolResult(error=ErrorDetail(code="tool_error", message="it failed"))
    assert raw(returning(failed), render=render).exec().text == "it failed"


@pytest.mark.parametrize("render", [None, describe], ids=["no render", "render"])
def test_a_request_for_input_is_no_value(render: Any) -> None:
    request = InputRequiredResult(request_state="asked")
    assert raw(returning(request), render=render).exec().error.code == "input_required"


@pytest.mark.parametrize("render", [None, describe], ids=["unreadable", "rendered"])
def test_a_raw_result_passes_through_another_tool(render: Any) -> None:
    inner = raw(returning(DB), render=render)
    result = ToolSpec.from_function(inner.exec, name="outer").exec()
    assert (result.value is DB, result.text, result.is_error) == (
        True,
        UNSENDABLE if render is None else "one Db",
        False,
    )


# middleware


def kit_of(*middleware: Any, value: Any = DB, render: Any = describe) -> Toolkit:
    return Toolkit("kit", middleware=middleware).add(raw(returning(value), render=render))


def test_a_raw_result_passes_through_middleware() -> None:
    async def unchanged(call: Call, next: Next) -> ToolResult:
        return await next(call)

    kit = kit_of(unchanged)
    assert (kit.call("subject") is DB, run(kit.acall, "subject") is DB) == (True, True)
    for result in (kit.exec("subject"), run(kit.aexec, "subject"), *kit.stream("subject")):
        assert (result.value is DB, result.text) == (True, "one Db")


def test_models_read_the_value_that_a_middleware_puts_in() -> None:
    async def masked(call: Call, next: Next) -> ToolResult:
        return replace(await next(call), value="masked")

    for render in (describe, lambda _: ["one", text_block("two")], lambda _: [text_block(SECRET)]):
        result = kit_of(masked, render=render).exec("subject")
        assert (result.value, result.text, result.is_raw) == ("masked", "masked", False)
        assert [block.text for block in result.content] == ["masked"]


def test_models_read_the_blocks_that_a_middleware_puts_in() -> None:
    async def shown(call: Call, next: Next) -> ToolResult:
        return replace(await next(call), value="value", blocks=(text_block("shown"),))

    result = kit_of(shown, render=lambda _: [text_block(SECRET)]).exec("subject")
    assert [block.text for block in result.content] == ["shown"]


def test_truncate_cuts_what_models_read() -> None:
    result = kit_of(truncate(10), render=lambda _: "x" * 50).exec("subject")
    assert (result.value is DB, result.text, result.meta["omitted_chars"]) == (True, "x" * 50, 40)
    assert result.content[0].text.startswith("xxxxxxx\n[")
    assert SECRET not in result.to_mcp().model_dump_json()


def test_a_cached_result_is_rendered_once_and_keeps_its_rendering() -> None:
    values = []

    def render(value: Account) -> str:
        values.append(value)
        return value.name

    kit = kit_of(cache(all_tools=True), value=Account(), render=render)
    first, second = kit.exec("subject"), kit.exec("subject")
    assert (second.meta.get("cached"), len(values)) == (True, 1)
    assert (second.value, second.text) == (Account(), "Ann")
    assert (first.value is second.value, second.is_raw) == (False, True)


@pytest.mark.parametrize("value", [DB, Account()], ids=["without a JSON form", "with one"])
@pytest.mark.parametrize("render", [None, describe], ids=["no render", "render"])
def test_a_log_shows_what_models_read(value: Any, render: Any) -> None:
    lines: list[str] = []
    kit_of(log(lines.append), value=value, render=render).exec("subject")
    shown = {"Db": "<Db>", "Account": '"name": "Ann"'}[type(value).__name__]
    assert (f"one {type(value).__name__}" if render else shown) in lines[0]
    assert "Db(" not in lines[0]
    assert SECRET not in lines[0] or (render is None and value is not DB)


@pytest.mark.parametrize("value", [DB, Account()], ids=["without a JSON form", "with one"])
def test_a_recording_has_what_models_read(value: Any, tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    kit_of(record(file), value=value).exec("subject")
    assert SECRET not in file.read_text()
    result = kit_of(replay(file), value=value).exec("subject")
    assert (result.value, result.text) == (f"one {type(value).__name__}",) * 2


def test_a_recorded_result_that_models_cannot_read_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    kit_of(record(file), render=None).exec("subject")
    assert SECRET not in file.read_text()
    result = kit_of(replay(file), render=None).exec("subject")
    assert (result.error.code, result.text) == ("invalid_result", UNSENDABLE)


def test_recorded_content_is_content_again(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    kit_of(record(file), render=lambda _: [BLOCK]).exec("subject")
    assert kit_of(replay(file)).exec("subject").content == [BLOCK]


def test_the_items_of_an_interrupted_call_are_for_the_host() -> None:
    lines: list[str] = []
    kit = Toolkit("kit", middleware=[log(lines.append)])

    @kit.tool(output="raw", render=lambda account: account.name)
    def subject() -> Iterator[Any]:
        yield Account()
        kit.cancel("c1")
        yield Account()

    made = kit.run(ANSWER, format="openai")
    result = made.results[0][1]
    assert (result.is_interrupted, result.value[0]) == (True, Account())
    assert lines[0].count("<list>") == 1
    assert SECRET not in json.dumps([lines, made.messages, made.to_json()])


# toolkits, runs, servers


ANSWER = {"tool_calls": [{"id": "c1", "function": {"name": "subject", "arguments": "{}"}}]}


@pytest.mark.parametrize(
    ("render", "content"),
    [
        (describe, "one Account"),
        (lambda _: [BLOCK, "and text"], None),
        (fail, f"Error: {INVALID_RESULT}"),
    ],
    ids=["text", "blocks", "failing"],
)
def test_the_messages_of_a_run_have_what_models_read(render: Any, content: str | None) -> None:
    kit = kit_of(value=Account(), render=render)
    made = kit.run(ANSWER, format="openai")
    assert content is None or made.messages[0]["content"] == content
    saved = made.to_json()
    assert SECRET not in json.dumps([made.messages, saved])
    assert Run.from_json(json.loads(json.dumps(saved))).messages == made.messages
    assert run(kit.arun, ANSWER, format="openai").messages == made.messages


def test_a_saved_run_of_a_value_that_models_cannot_read_has_the_error() -> None:
    made = kit_of(render=None).run(ANSWER, format="openai")
    assert (made.results[0][1].value is DB, made.messages[0]["content"]) == (True, f"Error: {UNSENDABLE}")
    assert Run.from_json(made.to_json()).messages == made.messages


def test_a_tool_that_a_search_finds_gives_its_very_object() -> None:
    kit = kit_of().add_search()
    result = kit.exec("call_tool", {"name": "subject"})
    assert (result.value is DB, result.text) == (True, "one Db")


@pytest.mark.parametrize(
    ("value", "render", "text", "is_error"),
    [
        (Account(), describe, "one Account", False),
        (Row(), None, '{"x": 1}', False),
        (DB, None, UNSENDABLE, True),
        (DB, fail, INVALID_RESULT, True),
    ],
    ids=["render", "JSON", "unreadable", "failing"],
)
def test_a_client_gets_what_models_read(value: Any, render: Any, text: str, is_error: bool) -> None:
    async def main() -> Any:
        kit = kit_of(value=value, render=render)
        async with Client(kit.to_fastmcp_server()) as client:
            (listed,) = await client.list_tools()
            return listed.output_schema, await client.call_tool_mcp("subject", {})

    schema, answer = asyncio.run(main())
    assert (schema, answer.structured_content, answer.is_error) == (None, None, is_error)
    assert [block.text for block in answer.content] == [text]


def test_the_toolkit_decides_for_functions_that_do_not() -> None:
    spec = ToolSpec.from_function(returning(DB), name="spec")
    with_schema = ToolSpec.from_function(
        lambda: {"a": 1}, name="with_schema", output_schema={"type": "object", "properties": {"a": {}, "b": {}}}
    )
    kit = Toolkit("kit", output="raw").add(spec, with_schema).add(returning(DB), name="function")
    kit.add(returning(Row()), name="json", output="json").add(returning(DB), name="rendered", render=describe)
    assert (kit.call("spec") is DB, kit.call("function") is DB) == (True, True)
    assert (kit.exec("rendered").text, kit.call("json"), kit.call("with_schema")) == ("one Db", {"x": 1}, {"a": 1})
    assert spec.exec().is_error
    assert [tool.output_schema is None for tool in kit] == [True, False, True, True, True]


def test_a_tool_stays_raw_in_another_toolkit() -> None:
    inner = Toolkit("inner", output="raw").add(returning(DB), name="subject")
    assert Toolkit("outer").add(inner).call("subject") is DB
    assert Toolkit("outer").add(inner, render=describe).exec("subject").text == "one Db"


def test_tools_that_are_no_functions_of_the_host_are_not_raw() -> None:
    kit = Toolkit("kit", output="raw")
    kit.add(kit.groups_tool(), name="switch").add(raw(lambda: 1, output="json").to_fastmcp(), name="remote")
    kit.add_search()
    assert [kit[name].output_schema is None for name in ("switch", "search_tools")] == [False, False]
    assert kit.call("remote") == "1"


# copies and other processes


def test_a_pickled_tool_still_renders() -> None:
    spec = pickle.loads(pickle.dumps(raw(returning(Row()), render=lambda row: f"x is {row.x}")))
    assert (spec.exec().value, spec.exec().text) == (Row(), "x is 1")


@pytest.mark.parametrize("value", [Row(), 12345, 1.5, "text", [1], None], ids=repr)
def test_a_copy_of_a_result_keeps_its_rendering(value: Any) -> None:
    result = raw(returning(value), render=describe).exec()
    for twin in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result), copy.copy(result)):
        assert (twin, twin.is_raw, twin.text) == (result, True, f"one {type(value).__name__}")


def test_an_unreadable_value_is_reported_once_it_is_read(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        result = raw(returning(DB)).exec()
        assert not caplog.records
        result.to_mcp()
    assert len(caplog.records) == 1
