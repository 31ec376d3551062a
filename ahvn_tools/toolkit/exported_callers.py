"""What an export takes of a toolkit whose tools say who may call them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from ahvn_tools import formats
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.results import DIRECT
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
    programs may call.
    """
    entries = list(view.listed_entries())
    own = {entry.name: sorted(entry.allowed_callers) for entry in entries if entry.allowed_callers is not None}
    if own and not takes_callers(format):
        entries, own = [entry for entry in entries if entry.allows(DIRECT)], {}
    definitions = [view.definition(entry) for entry in entries]
    if not own:
        return definitions, options
    given = options.get(_OPTION)
    if given is not None and not isinstance(given, Mapping):
        given = dict.fromkeys((tool.name for tool in definitions), given)
    return definitions, {**options, _OPTION: {**(given or {}), **own}}
