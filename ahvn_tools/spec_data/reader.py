"""Makes a tool from its data. Nothing is imported or run that is not trusted."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from ahvn_tools.errors import SourceError, quote_name
from ahvn_tools.spec_data.tool_data import ToolData
from ahvn_tools.state import StateKey
from ahvn_tools.template import ToolTemplate
from ahvn_tools.trust import Trust

MAX_ERROR_CHARS: Final = 1000
"""The middle of a longer error is left out: it may repeat a name or a type that data has."""


@dataclass(frozen=True, kw_only=True, repr=False)
class LoadedTool:
    """What a spec is made of."""

    template: ToolTemplate
    body: Callable[..., Any]
    secret_keys: frozenset[StateKey]
    """Keys that were ever bound as secret."""


def load(data: Any, trust: Iterable[str | os.PathLike[str]], spec_classes: Collection[str]) -> LoadedTool:
    """Return the parts of a tool; `spec_classes` are the full names of the class to make and of its bases.

    Raises SourceError.
    """
    if trust is None:
        raise SourceError("trust is a list, because None would not say what may be run: [] trusts nothing.")
    try:
        return _load(data, Trust(trust), spec_classes)
    except SourceError as error:
        if _is_plain(str(error)):
            raise
        raise SourceError(_to_plain(str(error))) from error.__cause__


def _load(data: Any, trust: Trust, spec_classes: Collection[str]) -> LoadedTool:
    tool = ToolData.read(data)
    if tool.spec_class is not None and tool.spec_class not in spec_classes:
        raise SourceError(
            f"The tool {tool.definition.name!r} is a {quote_name(tool.spec_class)}: load it with from_dict of that "
            "class."
        )
    tool.require_trust(trust)
    template, body = tool.load()
    return LoadedTool(template=template, body=body, secret_keys=tool.secret_keys)


def _is_plain(text: str) -> bool:
    return len(text) <= MAX_ERROR_CHARS and text.replace("\n", "").isprintable()


def _to_plain(text: str) -> str:
    """Return the text of an error without control characters that data may have brought into it, and cut."""
    half = MAX_ERROR_CHARS // 2
    shown = text if len(text) <= MAX_ERROR_CHARS else f"{text[:half]} … {text[-half:]}"
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in shown)
