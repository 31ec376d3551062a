"""What is known of the calls of programs while they run and afterwards: progress, output, spans, logs, results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel

from ahvn_tools import ToolContext, Toolkit
from ahvn_tools.code_mode import CodeLimits
from ahvn_tools.execution.call import Call, Next
from ahvn_tools.middleware import cache, log, observe, record, replay, trace, truncate
from ahvn_tools.results import ToolResult

pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")

from ahvn_tools.code_mode import MontySandbox  # after the check that its package is there
from tests.toolkit.test_code_mode_rules import CATCH, answer


def index(pages: int, context: ToolContext) -> Iterator[int]:
    """Index pages."""
    for page in range(1, pages + 1):
        context.report_progress(page, pages, f"page {page}" if page > 1 else None)
        context.append_output(f"canary of page {page}")
        yield page


@pytest.fixture
def kit(sandbox: MontySandbox) -> Toolkit:
    return Toolkit("k").add(index).add_code_mode(sandbox=sandbox)


def chunks_of(results: Any) -> list[tuple[Any, Any]]:
    """Return the values of chunks, each with its progress or with whether it is output."""
    chunks = [result for result in results if isinstance(result, ToolResult) and not result.is_last]
    assert len({chunk.id for chunk in chunks}) <= 1
    return [(chunk.value, chunk.meta.get("progress") or chunk.meta.get("output")) for chunk in chunks]


CODE = "print('start')\npages = await index(2)\nprint('end')\npages"
CHUNKS = [
    ("start\n", True),
    ("index", {"progress": 1, "total": 2}),
    ("index: page 2", {"progress": 2, "total": 2}),
    ("end\n", True),
]


async def read(results: Any) -> list[Any]:
    return [result async for result in results]


STREAMS: dict[str, Any] = {
    "stream": lambda kit: kit.stream("run_code", {"code": CODE}),
    "astream": lambda kit: asyncio.run(read(kit.astream("run_code", {"code": CODE}))),
    "session": lambda kit: kit.session().stream("run_code", {"code": CODE}),
    "selection": lambda kit: kit.select(names=["index", "run_code"]).stream("run_code", {"code": CODE}),
    "stream_run": lambda kit: kit.stream_run(answer(CODE)),
    "astream_run": lambda kit: asyncio.run(read(kit.astream_run(answer(CODE)))),
}


@pytest.mark.parametrize("way", STREAMS)
@pytest.mark.default_cases(3)
def test_a_reader_sees_what_a_program_prints_and_the_progress_of_its_calls(kit: Toolkit, way: str) -> None:
    results = list(STREAMS[way](kit))
    assert chunks_of(results) == CHUNKS
    last = results[-1] if isinstance(results[-1], ToolResult) else results[-1].results[0][1]
    assert last.structured_content == {"result": [1, 2], "printed": "start\nend\n"}


def test_the_generator_of_a_call_is_a_list_in_the_program(kit: Toolkit) -> None:
    assert kit.call("run_code", {"code": "sum(await index(3))"}) == 6


def test_a_client_of_a_served_toolkit_receives_output_and_progress(kit: Toolkit) -> None:
    from fastmcp import Client

    received: list[tuple[float, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        received.append((progress, message))

    async def use() -> None:
        async with Client(kit.to_fastmcp_server()) as client:
            await client.call_tool("run_code", {"code": CODE}, progress_handler=on_progress)

    asyncio.run(use())
    assert [message for _, message in received] == ["start\n", "index", "index: page 2", "end\n"]
    assert [progress for progress, _ in received] == sorted({progress for progress, _ in received})


def test_a_background_program_has_the_progress_of_its_calls(kit: Toolkit) -> None:
    call_id = kit.start("run_code", {"code": CODE})
    status = kit.wait(call_id, timeout=30)
    assert status.state == "done"
    assert status.progress == {"progress": 2, "total": 2, "message": "index: page 2"}


def test_the_output_of_a_stream_is_what_the_program_prints(kit: Toolkit) -> None:
    *chunks, result = kit.stream("run_code", {"code": CODE})
    assert [chunk.value for chunk in chunks if chunk.meta.get("output")] == ["start\n", "end\n"]
    assert result.value == [1, 2]


def test_no_more_is_sent_than_a_program_may_print(sandbox: MontySandbox) -> None:
    kit = Toolkit("k").add(index).add_code_mode(sandbox=sandbox, limits=CodeLimits(output_chars=8))
    code = "print('12345')\nawait index(0)\nprint('67890')\nawait index(0)\nprint('more')"
    assert [value for value, _ in chunks_of(kit.stream("run_code", {"code": code}))] == ["12345\n", "67"]
    few = Toolkit("few").add(index).add_code_mode(sandbox=sandbox, max_items=1)
    results = list(few.stream("run_code", {"code": code}))
    assert [value for value, _ in chunks_of(results)] == ["12345\n"]
    assert results[-1].structured_content["printed"] == "12345\n67890\nmore\n"


def test_a_reader_that_leaves_ends_the_program(sandbox: MontySandbox) -> None:
    kit, ended = Toolkit("k"), []

    @kit.tool
    async def wait() -> None:
        """Wait."""
        try:
            await asyncio.sleep(30)
        finally:
            ended.append(True)

    kit.add_code_mode(sandbox=sandbox)
    results = kit.stream("run_code", {"code": "print('x')\nawait wait()"})
    assert next(results).value == "x\n"
    results.close()
    assert len(ended) <= 1
    assert kit.call("run_code", {"code": "1"}) == 1


def test_spans_of_calls_are_below_the_span_of_their_program(sandbox: MontySandbox) -> None:
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    tracer = provider.get_tracer("tests")
    kit = Toolkit("k", middleware=[trace(tracer)])

    @kit.tool
    async def outer(context: ToolContext) -> str:
        """Call another tool."""
        return str(await context.toolkit.acall("inner"))

    @kit.tool
    def inner() -> str:
        """Open a span."""
        with tracer.start_as_current_span("body"):
            return "done"

    kit.add_code_mode(sandbox=sandbox)
    code = f"import asyncio\nawait asyncio.gather(outer(), inner())\n{CATCH.format('await inner()')}"
    kit.run([*answer(code, "first"), *answer("inner()", "second")])
    finished = {span.context.span_id: span for span in spans.get_finished_spans()}
    names = {key: f"{span.name} {span.attributes.get('gen_ai.tool.call.id', '')}" for key, span in finished.items()}
    parents = {names[key]: span.parent and names.get(span.parent.span_id) for key, span in finished.items()}
    [made_by_tool] = [name for name, parent in parents.items() if parent == "execute_tool outer first.1"]
    assert made_by_tool.startswith("execute_tool inner call_")
    assert {name: parent for name, parent in parents.items() if "first" in name or "second" in name} == {
        "execute_tool run_code first": None,
        "execute_tool outer first.1": "execute_tool run_code first",
        "execute_tool inner first.2": "execute_tool run_code first",
        "execute_tool inner first.3": "execute_tool run_code first",
        "execute_tool run_code second": None,
        "execute_tool inner second.1": "execute_tool run_code second",
    }
    assert otel.get_current_span() is otel.INVALID_SPAN


def test_each_call_has_a_line_in_the_log_and_is_observed(sandbox: MontySandbox) -> None:
    lines: list[str] = []
    seen: list[tuple[str, str | None]] = []
    middleware = [log(lines.append), observe(lambda tool, _success, _duration, code: seen.append((tool, code)))]
    kit = Toolkit("k", middleware=middleware).add(index)

    @kit.tool
    def fail(text: str) -> None:
        """Fail."""
        raise ValueError(text)

    kit.add_code_mode(sandbox=sandbox)
    code = CATCH.format("await fail('why')")
    assert kit.call("run_code", {"code": f"await index(1)\n{code}"}) == "Error calling tool 'fail'"
    assert [line.split(" ")[0] for line in lines] == ["index", "fail", "run_code"]
    assert "ValueError: why" in lines[1]
    assert seen == [("index", None), ("fail", "tool_error"), ("run_code", None)]


def test_a_recorded_program_is_answered_without_calls(sandbox: MontySandbox, tmp_path: Path) -> None:
    file, made = tmp_path / "calls.jsonl", []

    def send(text: str) -> str:
        """Send."""
        made.append(text)
        return f"sent {text}"

    code = "[await send('a'), await send('b')]"
    live = Toolkit("k", middleware=[record(file)]).add(send).add_code_mode(sandbox=sandbox)
    assert live.call("run_code", {"code": code}) == ["sent a", "sent b"]
    assert [json.loads(line).get("tool") for line in file.read_text().splitlines()][-3:] == ["send", "send", "run_code"]
    offline = Toolkit("k", middleware=[replay(file)]).add(send).add_code_mode(sandbox=sandbox)
    assert offline.call("run_code", {"code": code}) == ["sent a", "sent b"]
    assert offline.exec("run_code", {"code": "await send('c')"}).error.code == "not_available"
    assert made == ["a", "b"]


def test_recorded_calls_answer_another_program(sandbox: MontySandbox, tmp_path: Path) -> None:
    file, made = tmp_path / "calls.jsonl", []

    def send(text: str) -> str:
        """Send."""
        made.append(text)
        return f"sent {text}"

    Toolkit("k", middleware=[record(file)]).add(send).call("send", {"text": "a"})
    kit = Toolkit("k").add(send, middleware=[replay(file)]).add_code_mode(sandbox=sandbox)
    code = f"{CATCH.format(chr(97) + 'wait send(' + repr('b') + ')')}\n[await send('a'), result]"
    first, second = kit.call("run_code", {"code": code})
    assert first == "sent a"
    assert second.startswith("'calls.jsonl' has no call of tool 'send'")
    assert made == ["a"]


@pytest.mark.parametrize("order", ["truncate", "truncate twice", "cache outside", "cache inside"])
def test_a_program_reads_whole_results_and_only_its_own_result_is_cut(sandbox: MontySandbox, order: str) -> None:
    from fastmcp.utilities.types import Image

    middleware = {
        "truncate": [truncate(30)],
        "truncate twice": [truncate(20), truncate(30)],
        "cache outside": [cache(), truncate(30)],
        "cache inside": [truncate(30), cache()],
    }
    kit = Toolkit("k", middleware=middleware[order])

    @kit.tool(annotations={"readOnlyHint": True})
    def long() -> str:
        """Return a long text."""
        return "x" * 1000

    @kit.tool(annotations={"readOnlyHint": True})
    def draw() -> Any:
        """Return a picture and a long text."""
        return [Image(data=b"red", format="png"), "y" * 1000]

    kit.add_code_mode(sandbox=sandbox)
    code = "pictures = await draw()\ntexts = [await long(), pictures[1]]\n[len(text) for text in texts]"
    for _ in range(2):
        assert len(kit.exec("draw").content[1].text) < 100
        assert kit.call("run_code", {"code": code}) == [1000, 1000]
    result = kit.exec("run_code", {"code": "await long()"})
    assert len(result.value) == 1000
    assert len(result.content[0].text) < 100
    assert "characters left out" in result.content[0].text


def test_the_result_of_a_call_is_what_its_middleware_returns(sandbox: MontySandbox) -> None:
    from dataclasses import replace

    async def shout(call: Call, next: Next) -> ToolResult:  # the word for it
        result = await next(call)
        return replace(result, value=f"{result.value}!") if call.name == "say" else result

    kit = Toolkit("k", middleware=[shout])

    @kit.tool(postprocess=lambda _call, result: replace(result, value=result.value.upper()))
    def say(text: str) -> str:
        """Say it."""
        return text

    kit.add_code_mode(sandbox=sandbox)
    assert kit.call("run_code", {"code": "await say('hi')"}) == "HI!"


class Verdict(BaseModel):
    good: bool
    because: list[str] = []


@pytest.mark.parametrize("where", ["toolkit", "session"])
def test_a_program_can_finish_with_a_structured_answer(sandbox: MontySandbox, where: str) -> None:
    kit = Toolkit("k", secret_key=b"k" * 16)

    @kit.tool
    def finish(note: str, context: ToolContext) -> str:
        """Finish."""
        context.end_session()
        return note

    @kit.tool(requires_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    kit.add_code_mode(sandbox=sandbox)
    view = kit.session() if where == "session" else kit
    view.finish_with("finish", Verdict)
    assert "good: bool" in view.call("describe_tools", {"names": ["finish"]})
    result = view.exec("run_code", {"code": "await finish('a', good=True)"})
    assert (result.value, result.meta["structured"]) == ("a", Verdict(good=True))
    assert "Expected `bool`" in view.exec("run_code", {"code": "await finish('a', good='x')"}).text
    failed = view.exec("run_code", {"code": CATCH.format("await finish(**{'note': 'a', 'good': 'hot'})")})
    assert "'good' should be a valid boolean" in failed.value
    assert "structured" not in failed.meta
    if where == "session":
        assert "good" not in kit.call("describe_tools", {"names": ["finish"]})
    waiting = view.run(answer("await finish('a', good=True, because=['b'])\nawait pay()"))
    [(_, done)] = view.resume(waiting, approved=True).results
    assert (done.value, done.meta["structured"]) == ("paid", Verdict(good=True, because=["b"]))
    assert done.meta["ends_session"] is True


def test_a_raw_result_is_what_models_read_of_it(sandbox: MontySandbox) -> None:
    class Frame:
        """A value of the host's own."""

    kit = Toolkit("k", output="raw")

    @kit.tool(render=lambda frame: f"a {type(frame).__name__}")
    def make_frame() -> Any:
        """Make a frame."""
        return Frame()

    @kit.tool
    def make_other() -> Any:
        """Make another frame."""
        return Frame()

    kit.add_code_mode(sandbox=sandbox)
    assert kit.call("run_code", {"code": "await make_frame()"}) == "a Frame"
    text = kit.call("run_code", {"code": CATCH.format("await make_other()")})
    assert text == "The tool returned a value that cannot be sent."
