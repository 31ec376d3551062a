"""The results as tables."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator
from typing import Any

from tests.benchmarks.code_mode.packages import NOTES, PACKAGES
from tests.benchmarks.code_mode.results import Results
from tests.benchmarks.code_mode.rows import ROWS
from tests.benchmarks.peers.packages import OURS
from tests.benchmarks.peers.results import Costs
from tests.benchmarks.peers.rows import Row
from tests.benchmarks.peers.table import NOTHING, Sheet, amount, markdown

READ = ["round trips", "tool list", "the model reads", "the model writes"]


def sheets(results: Results) -> Iterator[Sheet]:
    """Yield the tables of what was measured."""
    if results.twenty:
        yield _twenty(results)
    if results.github:
        yield _github(results.github)
        yield _answers(results.github)
    measured = [row for row in ROWS if row.name in results.rows]
    for group, rows in itertools.groupby(measured, key=lambda row: row.group):
        yield _costs(group, list(rows), results)
    if results.approval:
        yield _approval(results.approval)


def text(results: Results) -> str:
    """Return the results as Markdown."""
    about = ", ".join(f"{name} {value}" for name, value in {**results.machine, **results.versions}.items())
    lines = not_first(results)
    first = ["### Where ours is not first\n", *(f"- {line}" for line in lines)] if lines else []
    return "\n".join([f"Measured with {about}.\n", *map(markdown, sheets(results)), *first]).rstrip()


def not_first(results: Results) -> list[str]:
    """Return a sentence for each row in which another package takes less time, or reads less."""
    lines = []
    for row in (row for row in ROWS if row.name in results.rows):
        costs = results.rows[row.name]
        ahead = [name for name in costs.by_package if name != OURS and costs.cost(name) < costs.cost(OURS)]
        if ahead:
            others = "; ".join(f"{name} {amount(costs.cost(name), row.unit)}" for name in sorted(ahead, key=costs.cost))
            lines.append(f"{row.group}, {row.title}: ours {amount(costs.cost(OURS), row.unit)}; {others}.")
    return [*lines, *_who_reads_less(results.github)]


def _who_reads_less(conversations: list[dict[str, Any]]) -> list[str]:
    counts = {facts["title"]: facts["read_tokens"] for facts in conversations}
    return [
        f"The task with 117 tools: the model reads {_tokens(counts[OURS])} with ours and {_tokens(count)} with {name}."
        for name, count in counts.items()
        if count < counts[OURS] and not name.startswith(OURS)
    ]


def _twenty(results: Results) -> Sheet:
    lines = [[facts["title"], *_read(facts), f"{_spread(facts['seconds'])}"] for facts in results.twenty]
    return Sheet(title="20 calls, with and without a program", heading=["", *READ, "our side"], lines=lines)


def _github(conversations: list[dict[str, Any]]) -> Sheet:
    lines = [[facts["title"], *_read(facts), _size(**facts["anthropic"])] for facts in conversations]
    heading = ["", *READ, "tool list for Anthropic"]
    return Sheet(title="A task with 117 tools", heading=heading, lines=lines)


def _answers(conversations: list[dict[str, Any]]) -> Sheet:
    lines = [
        [facts["title"], *(_size(**size) for size in facts["answers"])]
        for facts in conversations
        if len(facts["answers"]) == 3  # a search, a description and a program
    ]
    heading = ["", "search, 10 results", "description of 3 tools", "result of the program"]
    return Sheet(title="What the tools of code mode answer", heading=heading, lines=lines)


def _costs(group: str, rows: list[Row], results: Results) -> Sheet:
    names = [
        package.name for package in PACKAGES if any(package.name in results.rows[row.name].by_package for row in rows)
    ]
    lines = [[name, *(_cell(row, results.rows[row.name], name) for row in rows)] for name in names]
    notes = [f"{name}: {NOTES[name]}." for name in names if name in NOTES]
    return Sheet(title=group, heading=["", *(row.title for row in rows)], lines=lines, notes=notes)


def _cell(row: Row, costs: Costs, name: str) -> str:
    if name not in costs.by_package:
        return "failed" if name in costs.failed else NOTHING
    spread = f"{amount(costs.cost(name), row.unit)} ({_range(costs.by_package[name])})"
    return spread if name == OURS else f"{spread}, {costs.ratio(name).median:.2f}×"


def _approval(approval: dict[str, Any]) -> Sheet:
    line = ["a program with 20 calls before it", _spread(approval["stops"]), f"{approval['bytes']:,} B"]
    heading = ["", "stop and save", "saved run", "read, approve and finish"]
    return Sheet(
        title="A call that waits for an approval", heading=heading, lines=[[*line, _spread(approval["resumes"])]]
    )


def _read(facts: dict[str, Any]) -> list[str]:
    return [
        str(facts["requests"]),
        _size(facts["list_bytes"], facts["list_tokens"]),
        _size(facts["read_bytes"], facts["read_tokens"]),
        _size(facts["written_bytes"], facts["written_tokens"]),
    ]


def _size(bytes: int, tokens: int) -> str:  # the names in the results
    return f"{bytes:,} B, {_tokens(tokens)}"


def _tokens(count: int) -> str:
    return f"{count:,} tokens"


def _spread(seconds: list[float]) -> str:
    return f"{amount(statistics.median(seconds), 'seconds')} ({_range(seconds)})"


def _range(seconds: list[float]) -> str:
    """Return the least and the most."""
    return f"{amount(min(seconds), 'seconds')} – {amount(max(seconds), 'seconds')}"
