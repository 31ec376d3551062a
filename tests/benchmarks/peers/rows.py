"""The rows of the comparison: what is measured, in which unit, and which features its numbers depend on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Unit = Literal["seconds", "bytes", "rate"]
CALLED = ("validates", "gives_json")
MADE = ("validates", "describes")
SHOWN = ("form", "copies")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measurement of every package."""

    name: str
    title: str
    group: str
    unit: Unit = "seconds"
    """What is shown. The cost that is kept is always one of seconds or bytes: `rate` shows calls per second."""
    number: int | None = None
    """Runs for one cost; None: as many as fill a chunk."""
    rounds: int | None = None
    """The most rounds that the row takes, because a round is slow."""
    notes: tuple[str, ...] = ()
    """The features whose lack is written beside the number."""


CALLS, AT_ONCE, TOOLS, PROCESS, SERVED, CONVERSATION = (
    "One call",
    "Many calls, many tools",
    "Making and exporting a tool",
    "A fresh process",
    "Served over MCP, 4 calls at once",
    "Turns per second of a conversation with an instant model",
)
ROWS = (
    Row(name="sync_call", title="sync call", group=CALLS, notes=CALLED),
    Row(name="async_call", title="async call", group=CALLS, notes=CALLED),
    Row(name="context_call", title="async call with an injected value", group=CALLS, notes=CALLED),
    Row(name="batch", title="1,000 async calls at once", group=AT_ONCE, notes=CALLED),
    Row(
        name="sleeping",
        title="100 sync calls at once that sleep 10 ms",
        group=AT_ONCE,
        rounds=9,
        notes=("leaves_loop",),
    ),
    Row(name="dispatch", title="call by name out of 10,000 tools", group=AT_ONCE, notes=CALLED),
    Row(name="create", title="create from a function", group=TOOLS, notes=MADE),
    Row(name="first_export", title="create and export", group=TOOLS, notes=(*MADE, "form")),
    Row(name="export", title="export again", group=TOOLS, notes=SHOWN),
    Row(name="shared_export", title="export again, shared or read-only", group=TOOLS, notes=SHOWN),
    Row(name="start", title="import to first call", group=PROCESS, number=1, rounds=9, notes=("validates",)),
    Row(name="memory_process", title="resident after it", group=PROCESS, unit="bytes", number=1, rounds=3),
    Row(name="memory_tool", title="resident for a tool", group=PROCESS, unit="bytes", number=1, rounds=2, notes=MADE),
    Row(name="memory_context", title="resident for a user", group=PROCESS, unit="bytes", number=1, rounds=2),
    Row(name="served_stdio", title="stdio", group=SERVED, unit="rate", number=1_000, rounds=9),
    Row(name="served_http", title="HTTP", group=SERVED, unit="rate", number=600, rounds=9),
    *(
        Row(
            name=f"turns_{count}",
            title=f"{count} {'turn' if count == 1 else 'turns'} with a call",
            group=CONVERSATION,
            unit="rate",
            number=30,
        )
        for count in (1, 5, 20)
    ),
)
FEATURES = {
    "validates": ("refuses wrong types", "does not validate arguments"),
    "converts": ('takes "5" for 5', "takes no number from a text"),
    "refuses_unknown": ("refuses unknown names", "accepts or drops unknown arguments"),
    "gives_json": ("results are JSON", "returns the function's object instead of JSON"),
    "gives_errors": ("exceptions as results", "raises a function's exception"),
    "is_async": ("async", "has no async calls"),
    "leaves_loop": ("sync functions off the loop", "runs a sync function in the event loop's thread"),
    "describes": ("docstring of parameters", "does not read parameters from the docstring"),
    "copies": (
        "an export of its own each time",
        "returns the same objects each time: a change reaches the next export",
    ),
}
"""What is probed: the heading of its column, and the note for a package that does not do it."""
