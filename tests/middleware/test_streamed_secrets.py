"""Secrets that a tool yields in pieces are in no log, span or recording, and a replay has the other pieces."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import TextContent
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ahvn_tools import Toolkit
from ahvn_tools.middleware import log, record, replay
from ahvn_tools.middleware.trace import trace

SECRET = "canary-4242"
TEXT = f"The key is {SECRET}, or {SECRET}{SECRET}. Ask postgres://ann:swordfish@db/x for more."
MASKED = "The key is <key>, or <key><key>. Ask postgres://***@db/x for more."


def texts(parts: list[str], key: str):
    """Yield the parts."""
    yield from parts


async def deltas(parts: list[str], key: str):
    """Yield the parts as members of objects."""
    for part in parts:
        yield {"type": "delta", "content": [{"text": part}]}


def blocks(parts: list[str], key: str):
    """Yield the parts as content."""
    for part in parts:
        yield TextContent(type="text", text=part)


def echo(parts: list[str], key: str) -> list[str]:
    """Return the parts."""
    return parts


def kit_of(*middleware: Any) -> Toolkit:
    """Return a toolkit with a bound secret; its arguments are in no log."""
    kit = Toolkit("kit", middleware=middleware, secret_key="0123456789abcdef")
    for tool in (texts, deltas, blocks, echo):
        kit.add(tool)
    kit.bind("key", default=SECRET)
    return kit


def split(text: str, cuts: list[int]) -> list[str]:
    """Return the parts of a text between these positions."""
    ends = sorted({cut for cut in cuts if cut < len(text)})
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


def joined(value: Any) -> str:
    """Return all texts in JSON but those of the name `type`, as one."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else [part for name, part in value.items() if name != "type"]
    return "".join(map(joined, parts))


PIECES = st.lists(st.integers(1, len(TEXT)), max_size=len(TEXT)).map(lambda cuts: split(TEXT, cuts))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording, which the examples of a property write anew."""
    return tmp_path_factory.mktemp("records") / "calls.jsonl"


@settings(max_examples=40, deadline=None)
@given(parts=PIECES, name=st.sampled_from(["texts", "deltas", "blocks"]))
def test_a_recorded_stream_has_no_part_of_a_secret_and_is_replayed_in_as_many_pieces(
    file: Path, parts: list[str], name: str
) -> None:
    file.unlink(missing_ok=True)
    streamed = list(kit_of(record(file)).stream(name, {"parts": parts}))
    assert len(streamed) == len(parts) + 1
    line = json.loads(file.read_text())
    chunks = [chunk.get("value") or [block["text"] for block in chunk.get("blocks", [])] for chunk in line["chunks"]]
    assert joined(chunks) == MASKED
    replayed = list(kit_of(replay(file)).stream(name, {"parts": parts}))
    assert len(replayed) == len(streamed)
    assert "".join(chunk.text for chunk in replayed[:-1] if name != "deltas") == (MASKED if name != "deltas" else "")
    if name != "blocks":
        assert [chunk.value for chunk in replayed[:-1]] == replayed[-1].value


@settings(max_examples=40, deadline=None)
@given(parts=PIECES, is_streamed=st.booleans(), uses_function=st.booleans())
def test_a_log_has_no_part_of_a_secret(parts: list[str], is_streamed: bool, uses_function: bool) -> None:
    lines: list[str] = []
    redact: Any = (lambda text: re.sub("(?i)THE KEY is <key>", "hush", text)) if uses_function else ["The key is <key>"]
    kit = kit_of(log(lines.append, max_chars=100_000, redact=redact))
    if is_streamed:
        list(kit.stream("texts", {"parts": parts}))
    else:
        kit.exec("texts", {"parts": parts})
    (line,) = lines
    logged = joined(json.loads(line.partition(" s: ")[2]))
    assert logged == MASKED.replace("The key is <key>", "hush" if uses_function else "***")


def test_a_span_has_no_part_of_a_secret() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    kit = kit_of(trace(provider.get_tracer("tests"), content=True))
    list(kit.stream("texts", {"parts": list(TEXT)}))
    (span,) = exporter.get_finished_spans()
    assert joined(json.loads(span.attributes["gen_ai.tool.call.result"])) == MASKED


def test_what_a_reader_left_early_got_is_logged_without_the_secret() -> None:
    lines: list[str] = []
    stream = kit_of(log(lines.append)).stream("texts", {"parts": ["x", "cana", "ry-4242", "y"]})
    assert [next(stream).value for _ in range(3)] == ["x", "cana", "ry-4242"]
    stream.close()
    assert '["x<key>", "", ""]' in lines[0]


def test_the_reader_gets_each_piece_at_once_and_unchanged(file: Path) -> None:
    lines: list[str] = []
    stream = kit_of(log(lines.append), record(file)).stream("texts", {"parts": ["cana", "ry-4242"]})
    assert next(stream).value == "cana"
    assert [chunk.value for chunk in stream] == ["ry-4242", ["cana", "ry-4242"]]


def test_items_of_a_list_that_is_no_stream_are_not_read_as_one_url() -> None:
    lines: list[str] = []
    kit_of(log(lines.append)).exec("echo", {"parts": ["https://acme.example", "mailto:bob@acme.example"]})
    assert lines[0].endswith('["https://acme.example", "mailto:bob@acme.example"]')
