"""Print the table, or the rows named as arguments (`sync_call`); exit with 1 when a limit is exceeded."""

from __future__ import annotations

import platform
import sys

from rich.box import SIMPLE
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.benchmarks import calls, creation, files, formats, large_results, process, refusals, served, toolkits
from tests.benchmarks.rows import Row

MEASUREMENTS = (
    calls.sync_call,
    calls.bound_call,
    calls.async_call,
    calls.full_result,
    creation.from_function,
    calls.changed_state,
    creation.second_instance,
    toolkits.toolkit_call,
    toolkits.watched_call,
    toolkits.session_creation,
    toolkits.session_over_many,
    toolkits.session_memory,
    toolkits.toolkit_search,
    toolkits.view_search,
    toolkits.first_search,
    toolkits.toolkit_select,
    formats.export_again,
    formats.read_only_export,
    formats.first_export,
    formats.first_export_of_a_function,
    *large_results.ROWS,
    refusals.refused_numbers,
    refusals.refused_models,
    refusals.refused_nulls,
    refusals.refused_unions,
    process.fresh_process,
    process.list_command,
    process.foreign_modules,
    served.served_over_stdio,
    served.served_over_http,
    served.many_served_over_stdio,
    served.many_served_over_http,
    *(files.FILE_ROWS if files.is_installed() else ()),
)


def table_of(rows: list[Row]) -> Table:
    """Return the rows as a table; the second line of a row is its baseline."""
    table = Table("what", title=f"Python {platform.python_version()}, medians, measured side by side", box=SIMPLE)
    for heading in ("ours", "baseline", "measured", "to hold", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        verdict = "[green]ok[/]" if row.is_held else "[bold red]over[/]"
        bound = f"{'≥' if row.is_floor else '≤'} {row.limit:g}"
        measured = f"{row.measured:.{0 if isinstance(row.measured, int) else 2}f} {row.unit}".rstrip()
        table.add_row(f"{row.what}\n[dim]{row.against}[/]", row.ours, row.baseline, measured, bound, verdict)
    return table


def main(names: list[str]) -> int:
    """Measure the rows of these names, or all of them, and print the table."""
    console = Console()
    chosen = [measure for measure in MEASUREMENTS if not names or measure.__name__ in names]
    rows = [measure() for measure in track(chosen, "measuring", console=console, transient=True)]
    console.print(table_of(rows))
    if not files.is_installed():
        console.print("Not measured: files, because the official MCP server for files is not installed (see files.py).")
    return 0 if all(row.is_held for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
