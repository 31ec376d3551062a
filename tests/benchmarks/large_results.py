"""What `keep_large` costs: memory for a result of 50 MB, parts and searches of it, and the calls of small results."""

from __future__ import annotations

import gc
import json
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ahvn_tools import Toolkit
from ahvn_tools.execution.call import Call, Next
from ahvn_tools.middleware import keep_large
from ahvn_tools.results import ToolResult
from tests.benchmarks.measure import plain, side_by_side
from tests.benchmarks.rows import Row, at_most, within

SIZE = 50_000_000
REPEATS = 5
LINE = "the quick brown fox jumps over the lazy dog\n"
RECORD = {"id": 1, "name": "tea", "tags": ["a", "b"], "text": "the quick brown fox"}


def kept_text() -> Row:
    """Keep a text in memory: the text itself, once."""
    with _kept(LINE * (SIZE // len(LINE))) as (_, _, memory):
        return within(1.05, "memory that a kept text takes, for each byte", memory, "×", 2, against="its bytes")


def kept_json() -> Row:
    """Keep JSON in memory: its text, once, and the index."""
    with _kept(_json()) as (_, _, memory):
        return within(1.05, "memory that kept JSON takes, for each byte", memory, "×", 2, against="its bytes")


def text_in_folder() -> Row:
    """Keep a text in a folder: nothing in memory."""
    with _kept(LINE * (SIZE // len(LINE)), in_folder=True) as (_, _, memory):
        return within(0.05, "memory that a text in a folder takes, for each byte", memory, "×", 2, against="its bytes")


def page_of_text() -> Row:
    """Read 20,000 characters in the middle of 50 MB, in a file."""
    with _kept(LINE * (SIZE // len(LINE)), in_folder=True) as (kit, handle, _):
        taken = _best(lambda: kit.exec("read_result", {"handle": handle, "start": SIZE // 2}))
        return within(5, "read a part of a text of 50 MB in a folder", taken * 1e3, "ms")


def part_of_json() -> Row:
    """Read a record in the middle of 50 MB of JSON, in a file."""
    with _kept(_json(), in_folder=True) as (kit, handle, _):
        taken = _best(lambda: kit.exec("read_result", {"handle": handle, "path": "/300000"}))
        return within(10, "read a part of JSON of 50 MB in a folder", taken * 1e3, "ms")


def search_of_text() -> Row:
    """Search 50 MB for a text that is not there."""
    with _kept(LINE * (SIZE // len(LINE))) as (kit, handle, _):
        taken = _best(lambda: kit.exec("search_result", {"handle": handle, "text": "a lazy cat"}))
        return within(200, "search a text of 50 MB to its end", taken * 1e3, "ms")


def small_result() -> Row:
    """Call a tool whose result is not kept, beside a middleware that does nothing."""

    async def passing(call: Call, next: Next) -> ToolResult:
        return await next(call)

    kits = [Toolkit("kit", middleware=[layer]) for layer in (keep_large(), passing)]
    for kit in kits:
        kit.add(lambda: RECORD, name="small")
    ours, baseline = (plain('kit.exec("small")', kit=kit) for kit in kits)
    timing = side_by_side(ours, baseline, number=100)
    return at_most(1.2, "a small result with keep_large", "a middleware that does nothing", timing)


ROWS = (kept_text, kept_json, text_in_folder, page_of_text, part_of_json, search_of_text, small_result)


def _json() -> str:
    record = json.dumps(RECORD)
    return f"[{', '.join([record] * (SIZE // (len(record) + 2)))}]"


@contextmanager
def _kept(text: str, *, in_folder: bool = False) -> Iterator[tuple[Toolkit, str, float]]:
    """Keep a copy of a text. Give the toolkit, the handle, and how much memory each byte of it takes then."""
    texts = [text]
    del text
    with tempfile.TemporaryDirectory() as folder:
        kit = Toolkit("kit", middleware=[keep_large(folder=Path(folder, "kept") if in_folder else None)])
        kit.add(lambda: "".join([texts[0][:1], texts[0][1:]]), name="give")
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        handle = kit.exec("give").meta["kept"]["handle"]
        gc.collect()
        memory = (tracemalloc.get_traced_memory()[0] - before) / len(texts[0])
        tracemalloc.stop()
        yield kit, handle, memory


def _best(function: Callable[[], Any]) -> float:
    """Return how many seconds a function takes, the best of some times."""
    taken = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        function()
        taken.append(time.perf_counter() - started)
    return min(taken)
