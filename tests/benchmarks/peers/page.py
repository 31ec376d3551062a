"""The part of a page that the command writes, between two marks."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.peers.results import Results
from tests.benchmarks.peers.table import ahead_lines, markdown, sheets

BEGIN = "<!-- results: written by `python -m tests.benchmarks.peers --write` -->"
END = "<!-- end of results -->"


def text(results: Results) -> str:
    """Return the results as Markdown."""
    machine = ", ".join(f"{name} {value}" for name, value in results.machine.items())
    lines = ahead_lines(results)
    first = "\n".join(["### Where ours is not first", "", *(f"- {line}" for line in lines)]) if lines else ""
    return "\n".join([f"Measured with {machine}.\n", *(markdown(sheet) for sheet in sheets(results)), first]).rstrip()


def write(page: Path, results: Results) -> None:
    """Replace what stands between the marks of a page."""
    page.write_text(replaced(page.read_text(encoding="utf-8"), text(results)), encoding="utf-8")


def replaced(page: str, block: str, begin: str = BEGIN, end: str = END) -> str:
    """Return a page with another block between its marks."""
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(end) < page.index(begin):
        raise ValueError(f"The page must have one line {begin!r} and, after it, one line {end!r}.")
    before, rest = page.split(begin)
    return f"{before}{begin}\n\n{block}\n\n{end}{rest.split(end)[1]}"
