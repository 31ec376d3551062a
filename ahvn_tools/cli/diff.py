"""`ahvn-tools diff`: what has changed between two lists of tools, and what of it may break a caller."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter

from ahvn_tools.cli.output import escape_line, print_json, print_text, print_words
from ahvn_tools.cli.sources import Flag, SourceParameters, open_toolkit, require_complete

if TYPE_CHECKING:
    from ahvn_tools.cli.sources import SourceOptions
    from ahvn_tools.definition import ToolDefinition
    from ahvn_tools.mcp.trust.changes import Changes

_STYLES: Final = {"removed": "bold red", "breaking": "bold red", "compatible": "cyan", "added": "green"}

SHORT_FINGERPRINT = 12
"""How many digits of a fingerprint the text shows."""


def diff(
    old: Annotated[str | Path, Parameter(name="OLD")],
    new: Annotated[str | Path, Parameter(name="NEW")],
    /,
    *,
    fail_on: Literal["breaking", "any", "never"] = "breaking",
    json: Flag = False,
    options: SourceParameters = None,
) -> int:
    """Compare two sources, or a lock file and a source: tools that were added, removed or changed.

    A change is breaking if a call that was valid may be refused, or a result may not fit the output schema of before.
    The exit status is 1 if a tool was removed or has a breaking change.

    Parameters
    ----------
    old
        The tools of before: a source, or a file that `ahvn-tools pin` wrote.
    new
        The tools of now: a source or such a file.
    fail_on
        Which changes make the exit status 1: breaking ones, any, or none.
    json
        Print the changes as JSON.
    """
    from ahvn_tools import definition_lock

    before, after = (_read(source, options) for source in (old, new))
    changes = definition_lock.compare(before, after)
    rows = _to_rows(changes, _get_fingerprints(before), _get_fingerprints(after))
    if json:
        print_json({"changes": rows, "summary": _count(changes)})
    else:
        _print_rows(rows, changes)
    is_breaking = bool(changes.removed or changes.breaking)
    return int(is_breaking if fail_on == "breaking" else bool(changes) and fail_on == "any")


def _read(source: str | Path, options: SourceOptions | None) -> list[ToolDefinition]:
    from ahvn_tools import definition_lock

    if definition_lock.is_lock_file(source):
        from ahvn_tools.cli.locked_tools import read_lock

        return read_lock(source, options)
    with open_toolkit([source], options) as kit:
        require_complete(kit, options)
        return [spec.definition for spec in kit]


def _get_fingerprints(definitions: list[ToolDefinition]) -> dict[str, str]:
    return {definition.name: definition.fingerprint for definition in definitions}


def _to_rows(changes: Changes, before: dict[str, str], after: dict[str, str]) -> list[dict[str, Any]]:
    """Return one object for each changed tool, the breaking ones first."""
    return [
        {"tool": name, "change": word, "reasons": list(reasons), "old": before.get(name), "new": after.get(name)}
        for word, tools in _group(changes).items()
        for name, reasons in tools.items()
    ]


def _group(changes: Changes) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the reasons by kind of change and tool."""
    return {
        "removed": dict.fromkeys(changes.removed, ()),
        "breaking": changes.breaking,
        "compatible": changes.compatible,
        "added": dict.fromkeys(changes.added, ()),
    }


def _count(changes: Changes) -> dict[str, int]:
    return {word: len(tools) for word, tools in _group(changes).items()}


def _print_rows(rows: list[dict[str, Any]], changes: Changes) -> None:
    for row in rows:
        old, new = ((row[key] or "none")[:SHORT_FINGERPRINT] for key in ("old", "new"))
        print_words(row["change"], f": {row['tool']} ({old} -> {new})", styles=_STYLES)
        for reason in row["reasons"]:
            print_text(f"    {escape_line(reason)}")
    if not rows:
        print_text("No differences.")
        return
    print_text("\n" + ", ".join(f"{count} {word}" for word, count in _count(changes).items() if count) + ".")
