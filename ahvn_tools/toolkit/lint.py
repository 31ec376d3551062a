"""All findings about a toolkit: about its tools, and about its bindings, groups and servers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from ahvn_tools.lint import lint
from ahvn_tools.lint.rules import require_rules
from ahvn_tools.schema.dialects.finding import Finding
from ahvn_tools.toolkit import check
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.visibility import StoreView

_FOUND_IN_DEFINITIONS: Final = ("missing-description", "name-clash")
"""Rules of `check` that the linter has, too."""


def find_all(view: StoreView, *, formats: Iterable[str] | None = None, ignore: Iterable[str] = ()) -> list[Finding]:
    """Return the findings about the tools of a view, then those about the whole toolkit."""
    ignored = require_rules(ignore)
    names = {entry.name for entry in view.contained_entries()}
    definitions = [view.definition(entry) for entry in view.contained_entries() if _has_definition(view, entry)]
    found = [
        replace(finding, rule=finding.rule or "toolkit")
        for finding in (*check.find_all(view), *_find_duplicates(view))
        if finding.rule not in _FOUND_IN_DEFINITIONS and (finding.tool is None or finding.tool in names)
    ]
    kept = [finding for finding in dict.fromkeys(found) if finding.rule not in ignored]
    in_definitions = [
        check.as_strict(view.store, [finding])[0] if finding.rule in _FOUND_IN_DEFINITIONS else finding
        for finding in lint(definitions, formats=formats, ignore=ignored)
    ]
    return [*in_definitions, *kept]


def _has_definition(view: StoreView, entry: Entry) -> bool:
    """Return whether a tool can be shown to a model; `check` finds one with a parameter that must be bound first."""
    return view.compiled_tool(entry).is_usable


def _find_duplicates(view: StoreView) -> Iterator[Finding]:
    for duplicate in view.store.duplicates:
        if duplicate.action == "keep":
            yield Finding(
                rule="duplicate-tool",
                severity="warning",
                place=f"the tool {duplicate.name!r}",
                problem=f"that from {duplicate.other} is not used: {duplicate.reason}",
                fix="Rename one of them, or add one with a prefix.",
            )
