"""A plot of the calls and of the start, as PNG and SVG: bars on a logarithmic scale, ours marked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from tests.benchmarks.peers.packages import OURS
from tests.benchmarks.peers.results import Results
from tests.benchmarks.peers.rows import ROWS, Row
from tests.benchmarks.peers.table import BASELINES, amount

PLOTTED = ("sync_call", "async_call", "context_call", "dispatch", "batch", "start")
COLUMNS = 2
TEXT, OURS_COLOUR, PEER_COLOUR, BASELINE_COLOUR = "#7a7f87", "#e8590c", "#5c8fd6", "#a8adb5"
"""Colours that can be read on white and on black."""
UNCHECKED = "////"
"""The hatching of packages that do not validate arguments."""
LEGEND = "Time on a logarithmic scale: less is better. Hatched: does not validate arguments. Grey: pydantic alone."


def write(path: Path, results: Results) -> None:
    """Write the plot to two files: the path with the endings `.png` and `.svg`."""
    rows = [row for row in ROWS if row.name in PLOTTED and row.name in results.rows]
    with mpl.rc_context({"svg.hashsalt": OURS, "svg.fonttype": "none", "hatch.linewidth": 0.6, "hatch.color": "white"}):
        figure = _figure(rows, results)
        for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            figure.savefig(path.with_suffix(f".{kind}"), transparent=True, dpi=110, metadata=metadata)


def _figure(rows: list[Row], results: Results) -> Figure:
    lines = -(-len(rows) // COLUMNS)
    figure = Figure(figsize=(11, 3.1 * lines), layout="constrained")
    for place, row in enumerate(rows, 1):
        _draw(figure.add_subplot(lines, COLUMNS, place), row, results)
    figure.supxlabel(LEGEND, color=TEXT, fontsize=9)
    return figure


def _draw(axes: Any, row: Row, results: Results) -> None:
    costs = results.rows[row.name]
    names = sorted(costs.by_package, key=costs.cost, reverse=True)
    values = [costs.cost(name) for name in names]
    bars = axes.barh(names, values, color=[_colour(name) for name in names], height=0.72)
    for bar, name, value in zip(bars, names, values, strict=True):
        if name not in results.validating():
            bar.set_hatch(UNCHECKED)
        weight = "bold" if name == OURS else "normal"
        axes.text(
            value,
            bar.get_y() + bar.get_height() / 2,
            f" {amount(value, row.unit)}",
            va="center",
            color=TEXT,
            weight=weight,
        )
    axes.set_xscale("log")
    axes.set_xlim(min(values) / 2, max(values) * 6)
    axes.set_title(row.title, color=TEXT, fontsize=11)
    axes.tick_params(colors=TEXT, which="both", labelsize=9, labelbottom=False)
    for label in axes.get_yticklabels():
        if label.get_text() == OURS:
            label.set(color=OURS_COLOUR, weight="bold")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(TEXT)


def _colour(name: str) -> str:
    return OURS_COLOUR if name == OURS else BASELINE_COLOUR if name in BASELINES else PEER_COLOUR
