"""The results as tables: one for each group of rows, a package a line, for a terminal and for Markdown."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rich.box import SIMPLE
from rich.table import Table

from tests.benchmarks.peers.packages import OURS, PACKAGES
from tests.benchmarks.peers.results import Costs, Results
from tests.benchmarks.peers.rows import FEATURES, ROWS, Row, Unit

NOTHING = "–"
BASELINES = {package.name for package in PACKAGES if package.is_baseline}


@dataclass(kw_only=True)
class Sheet:
    """One table of texts, and the notes that its numbers refer to."""

    title: str
    heading: list[str]
    lines: list[list[str]]
    notes: list[str] = field(default_factory=list)


def sheets(results: Results) -> list[Sheet]:
    """Return the tables of all rows that were measured, and that of the features."""
    measured = [row for row in ROWS if row.name in results.rows]
    groups = itertools.groupby(measured, key=lambda row: row.group)
    return [*(_sheet(group, list(rows), results) for group, rows in groups), _features(results)]


def ahead(results: Results) -> dict[str, list[str]]:
    """Return the packages that cost less than ours, by row, the cheapest first. Baselines do not count."""
    found = {}
    for name, costs in results.rows.items():
        others = sorted(costs.by_package.keys() - {OURS} - BASELINES, key=costs.cost)
        found[name] = [package for package in others if costs.ratio(package).median < 1]
    return {name: packages for name, packages in found.items() if packages}


def ahead_lines(results: Results) -> list[str]:
    """Return a sentence for each row in which ours is not first: who is ahead, and what they leave out."""
    found, lines = ahead(results), []
    for row in (row for row in ROWS if row.name in found):
        costs = results.rows[row.name]
        others = [
            f"{name} {amount(costs.cost(name), row.unit)}{_lacks(row, name, results)}" for name in found[row.name]
        ]
        lines.append(f"{row.group}, {row.title}: ours {amount(costs.cost(OURS), row.unit)}; {'; '.join(others)}.")
    return lines


def failures(rows: Mapping[str, Costs]) -> list[str]:
    """Return a line for each package that could not be measured although it should."""
    return [
        f"{row}: {package}: {error.strip().splitlines()[-1]}"
        for row, costs in rows.items()
        for package, error in costs.failed.items()
    ]


def amount(cost: float, unit: Unit) -> str:
    """Return a cost with three digits, in a suitable unit."""
    if unit == "rate":
        return f"{1 / cost:,.0f}/s"
    units: tuple[tuple[float, str], ...] = ((1, "s"), (1e-3, "ms"), (1e-6, "µs"))
    if unit == "bytes":
        units = ((2**20, "MiB"), (2**10, "KiB"), (1, "B"))
    scale, name = next((pair for pair in units if cost >= pair[0]), units[-1])
    return f"{_digits(cost / scale)} {name}"


def markdown(sheet: Sheet) -> str:
    """Return a table as Markdown, under its title, with its notes."""
    right = ["---", *("---:" for _ in sheet.heading[1:])]
    rows = [sheet.heading, right, *([_bold(cell, line) for cell in line] for line in sheet.lines)]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
    notes = "".join(f"\n{note}  " for note in sheet.notes).rstrip()
    return f"### {sheet.title}\n\n{table}\n" + (f"{notes}\n" if notes else "")


def terminal(sheet: Sheet) -> Table:
    """Return a table for a terminal."""
    table = Table(
        sheet.heading[0], title=sheet.title, box=SIMPLE, caption="\n".join(sheet.notes), caption_justify="left"
    )
    for heading in sheet.heading[1:]:
        table.add_column(heading, justify="right")
    for line in sheet.lines:
        table.add_row(*line, style="bold" if line[0].startswith(OURS) else None)
    return table


class _Notes:
    """Numbers the notes of a table in the order in which its numbers refer to them."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def marks(self, texts: Iterable[str]) -> str:
        numbers = []
        for text in texts:
            if text not in self._texts:
                self._texts.append(text)
            numbers.append(self._texts.index(text) + 1)
        return f" [{', '.join(map(str, sorted(numbers)))}]" if numbers else ""

    def lines(self) -> list[str]:
        return [f"[{number}] {text}." for number, text in enumerate(self._texts, 1)]


def _sheet(group: str, rows: list[Row], results: Results) -> Sheet:
    notes = _Notes()
    lines = [[name, *(_cell(row, name, results, notes) for row in rows)] for name in _names(rows, results)]
    return Sheet(title=group, heading=["", *(row.title for row in rows)], lines=lines, notes=notes.lines())


def _names(rows: list[Row], results: Results) -> list[str]:
    """Return the packages that have a number in one of the rows, in the order of the packages."""
    found = {name for row in rows for name in results.rows[row.name].by_package}
    return [package.name for package in PACKAGES if package.name in found]


def _cell(row: Row, name: str, results: Results, notes: _Notes) -> str:
    costs = results.rows[row.name]
    if name in costs.failed:
        return "failed"
    if name not in costs.by_package:
        return NOTHING + notes.marks([costs.missing[name]] if name in costs.missing else [])
    marks = "" if name in BASELINES else notes.marks(_lacking(row, name, results))
    text = amount(costs.cost(name), row.unit)
    if name == OURS:
        return f"{text}{marks}"
    ratio = costs.ratio(name)
    return f"{text}, {_digits(ratio.median)}× ({_digits(ratio.least)}–{_digits(ratio.most)}){marks}"


def _lacking(row: Row, name: str, results: Results) -> list[str]:
    """Return what a package leaves out in a row."""
    facts = results.packages[name]
    form = [f"exports {facts.export_form}"] if "form" in row.notes and facts.export_form != "OpenAI" else []
    return [FEATURES[note][1] for note in row.notes if note != "form" and not facts.features[note]] + form


def _lacks(row: Row, name: str, results: Results) -> str:
    lacking = _lacking(row, name, results)
    return f" ({', '.join(lacking)})" if lacking else ""


def _features(results: Results) -> Sheet:
    names = [package.name for package in PACKAGES if package.name in results.packages and package.name not in BASELINES]
    lines = [
        [f"{name} {results.packages[name].version}"]
        + ["yes" if results.packages[name].features[feature] else NOTHING for feature in FEATURES]
        for name in names
    ]
    return Sheet(
        title="What each package does", heading=["", *(heading for heading, _ in FEATURES.values())], lines=lines
    )


def _bold(cell: str, line: list[str]) -> str:
    return f"**{cell}**" if line[0].startswith(OURS) else cell


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
