"""Makes a tool from its data. Nothing is imported or run that is not trusted."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from ahvn_tools.errors import SourceError
from ahvn_tools.spec_data.tool_data import ToolData
from ahvn_tools.state import StateKey
from ahvn_tools.template import ToolTemplate
from ahvn_tools.trust import Trust


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
    tool = ToolData.read(data)
    if tool.spec_class is not None and tool.spec_class not in spec_classes:
        raise SourceError(
            f"The tool {tool.definition.name!r} is a {tool.spec_class}: load it with from_dict of that class."
        )
    tool.require_trust(Trust(trust))
    template, body = tool.load()
    return LoadedTool(template=template, body=body, secret_keys=tool.secret_keys)
