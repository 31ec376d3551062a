"""The cost of a call through a toolkit, of a session, and of a search."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from statistics import median
from typing import Any

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.middleware import watch
from tests.benchmarks.measure import plain, side_by_side
from tests.benchmarks.rows import Row, at_most, within
from tests.benchmarks.subjects import add, add_for

MANY = 10_000
SESSIONS = 10_000
TOOLS = 50
VERBS = ("read", "write", "find", "list", "move", "copy", "send", "open", "count", "sort")
NOUNS = ("file", "mail", "table", "image", "order", "event", "note", "user", "page", "log")


def large_toolkit() -> Toolkit:
    """Make a toolkit of ten thousand tools over one function."""
    kit, spec = Toolkit("large"), ToolSpec.from_function(add)
    for number in range(MANY):
        kit.add(spec, rename=f"add_{number}")
    return kit


def toolkit_call() -> Row:
    """A call through a toolkit of ten thousand tools, compared with a call of the spec."""
    timing = side_by_side(
        plain("run('add_5000', {'left': 1, 'right': 2})", run=large_toolkit().exec),
        plain("run(left=1, right=2)", run=ToolSpec.from_function(add).exec),
        number=5_000,
    )
    return at_most(2, f"exec through a toolkit of {MANY:,} tools", "the bare spec's exec", timing)


def watched_call() -> Row:
    """What `watch` adds to a call while nobody looks, in microseconds."""
    watched = Toolkit("watched", middleware=[watch("calls.sqlite")]).add(add)
    timing = side_by_side(
        plain("run('add', {'left': 1, 'right': 2})", run=watched.exec),
        plain("run('add', {'left': 1, 'right': 2})", run=Toolkit("plain").add(add).exec),
        number=5_000,
    )
    added = (timing.ours - timing.baseline) * 1e6
    return within(5, "what watch adds to a call that nobody looks at", added, "µs", 2, "exec without middleware")


def toolkit_of_fifty() -> Toolkit:
    """Make a toolkit of fifty tools with two parameters that sessions fill."""
    kit = Toolkit("fifty").bind("tenant", "session.tenant").bind("user", "session.user")
    spec = ToolSpec.from_function(add_for)
    for number in range(TOOLS):
        kit.add(spec, rename=f"add_{number}")
    return kit


def values(number: int) -> dict[str, Any]:
    """Make the state of one session."""
    return {"tenant": "north", "user": f"user {number}"}


def session_creation() -> Row:
    """The creation of a session over fifty tools, in seconds."""
    return _creation(toolkit_of_fifty(), TOOLS)


def session_over_many() -> Row:
    """The same over ten thousand tools."""
    return _creation(large_toolkit(), MANY)


def _creation(kit: Toolkit, tools: int) -> Row:
    each = median(_seconds_of_a_session(kit) for _ in range(5))
    return within(20, f"one of {SESSIONS:,} sessions over {tools:,} tools", each * 1e6, "µs", 2)


def _seconds_of_a_session(kit: Toolkit) -> float:
    states = [values(number) for number in range(SESSIONS)]
    start = time.perf_counter()
    sessions = [kit.session(session=state) for state in states]
    return (time.perf_counter() - start) / len(sessions)


def session_memory() -> Row:
    """The memory of ten thousand sessions after each has called a tool, listed all tools, and made its id."""
    kit = toolkit_of_fifty()
    sessions: list[Toolkit] = []
    kit.definitions()
    gc.collect()
    tracemalloc.start()
    for number in range(SESSIONS):
        session = kit.session(session=values(number))
        session.exec(f"add_{number % TOOLS}", {"left": 1, "right": 2})
        session.activate("basic")
        sessions.append(session if session.session_id and len(session) == TOOLS else kit)
    held = tracemalloc.get_traced_memory()[0] / 1e6
    tracemalloc.stop()
    what = f"{len(sessions):,} sessions over {TOOLS} tools, memory"
    return within(200, what, held, "MB", against="the limit")


def toolkit_of_names() -> Toolkit:
    """Make a toolkit of ten thousand tools with names of two words, one in a hundred of them tagged."""
    kit, spec = Toolkit("names"), ToolSpec.from_function(add)
    for number in range(MANY):
        verb, noun = VERBS[number % len(VERBS)], NOUNS[number // len(VERBS) % len(NOUNS)]
        kit.add(spec, rename=f"{verb}_{noun}_{number}", tags=["rare"] if number % 100 == 0 else [])
    return kit


def toolkit_search() -> Row:
    """A query over ten thousand indexed tools, in milliseconds."""
    kit = toolkit_of_names()
    kit.search("anything")
    return _repeated(20, f"search of {MANY:,} tools", lambda: kit.search("read a file from the table"))


def first_search() -> Row:
    """The first query over ten thousand different functions, which builds the index, in milliseconds."""
    kit = toolkit_of_functions()
    start = time.perf_counter()
    kit.search("read a file from the table")
    measured = (time.perf_counter() - start) * 1000
    return within(1_000, f"first search of {MANY:,} functions, none of them exported yet", measured, "ms", 0)


def toolkit_of_functions() -> Toolkit:
    """Make a toolkit of ten thousand functions with a docstring each."""
    kit = Toolkit("functions")
    for number in range(MANY):
        kit.add(documented_function(number), rename=f"{VERBS[number % len(VERBS)]}_{number}")
    return kit


def documented_function(number: int) -> Callable[..., Any]:
    """Make a function with annotated parameters and a docstring of its own."""

    def function(query: str, limit: int = 10, tags: list[str] | None = None) -> dict[str, Any]:
        return {"query": query, "limit": limit, "tags": tags}

    function.__doc__ = f"""Search the table {number} for records.

    Records are sorted by day {number}.

    Args:
        query: What to look for in table {number}.
        limit: How many records to return.
        tags: Only records with one of these tags.
    """
    return function


def view_search() -> Row:
    """A query that matches ten thousand tools, in a view with one in a hundred of them, in milliseconds."""
    view = toolkit_of_names().select(tags=["rare"])
    view.search("anything")
    return _repeated(
        20, f"search in a view of {MANY:,} tools", lambda: view.search("add the left and the right number")
    )


def toolkit_select() -> Row:
    """A selection from ten thousand tools by tag, made and listed, in milliseconds."""
    kit = toolkit_of_names()
    return _repeated(60, f"select from {MANY:,} tools, listed", lambda: list(kit.select(tags=["rare"])))


def _repeated(limit: float, what: str, run: Callable[[], Any]) -> Row:
    """Return a row for a run that may take `limit` milliseconds."""
    took = []
    for _ in range(15):
        start = time.perf_counter()
        run()
        took.append((time.perf_counter() - start) * 1e3)
    return within(limit, what, median(took), "ms")
