"""What an export takes of a toolkit whose tools say who may call them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from ahvn_tools import formats
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.formats.rendering.names import to_list
from ahvn_tools.results import DIRECT
from ahvn_tools.toolkit import check
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.visibility import StoreView

_OPTION: Final = "allowed_callers"


def takes_callers(format: str) -> bool:  # noqa: A002  # the word for it
    """Return whether the provider of a format is told who may call a tool."""
    return _has_option(formats.get(format).export)


@functools.lru_cache(maxsize=64)
def _has_option(export: Callable[..., Any]) -> bool:
    return _OPTION in inspect.signature(export).parameters


def export_arguments(
    view: StoreView,
    format: str,  # noqa: A002  # the word for it
    options: dict[str, Any],
) -> tuple[list[ToolDefinition], dict[str, Any]]:
    """Return the definitions and the options for an export of the tools of a view.

    What a tool says has priority over the option for all tools. A format without programs lacks the tools that only
    programs may call. A tool of an MCP server for which the export would raise is reported and left out: a server must
    not break the export of the other tools.
    """
    entries = list(view.listed_entries())
    own = {entry.name: sorted(entry.allowed_callers) for entry in entries if entry.allowed_callers is not None}
    if own and not takes_callers(format):
        entries, own = [entry for entry in entries if entry.allows(DIRECT)], {}
    given: Any = options.get(_OPTION)
    is_for_all = given is not None and not isinstance(given, Mapping)
    for_all = dict.fromkeys((entry.name for entry in entries), to_list(given)) if is_for_all else {}
    servers = [entry for entry in entries if entry.server_name is not None]
    refused = _find_refused(view, format, servers, {**for_all, **own}, options) if servers else ()
    definitions = [view.definition(entry) for entry in entries if entry.name not in refused]
    if not own and not refused:
        return definitions, options
    callers = {**(for_all if is_for_all else given or {}), **own}
    return definitions, {**options, _OPTION: {name: callers[name] for name in callers if name not in refused}}


def _find_refused(
    view: StoreView,
    format: str,  # noqa: A002  # the word for it
    entries: Iterable[Entry],
    callers: Mapping[str, Sequence[str]],
    options: Mapping[str, Any],
) -> Collection[str]:
    """Report the tools among these for which an export with these options raises. Return their names."""
    find = getattr(formats.get(format), "refusal", None)
    if find is None or not (callers or options):
        return ()
    others = {name: value for name, value in options.items() if name != _OPTION}
    reasons = {entry: find(view.definition(entry), callers.get(entry.name, ()), **others) for entry in entries}
    refused = {entry: reason for entry, reason in reasons.items() if reason is not None}
    view.store.finding_log.report(check.not_exported(entry, format, reason) for entry, reason in refused.items())
    return {entry.name for entry in refused}
