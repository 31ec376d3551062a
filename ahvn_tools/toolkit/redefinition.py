"""New definitions of tools that are there: what happens when a cell of a notebook runs again."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from ahvn_tools.toolkit.entry import Entry


def is_redefinition(entry: Entry, known: Entry) -> bool:
    """Return whether an interactive session has defined the function of a tool again, in the same place.

    That is in a notebook or at a prompt. In a program, two functions of one name are a mistake.
    """
    place = _place(entry)
    return hasattr(sys, "ps1") and place is not None and place == _place(known)


def keep_bindings(added: Mapping[str, Entry], entries: Mapping[str, Entry]) -> None:
    """Bind in new definitions what was bound for the earlier ones in this toolkit: a model must not see it now."""
    for name, entry in added.items():
        if (known := entries.get(name)) is not None and is_redefinition(entry, known):
            for binding in known.own_bindings.values():
                if binding.parameter in entry.spec.compiled.template.inputs.parameters:
                    entry.bind(binding)


def _place(entry: Entry) -> tuple[str, str] | None:
    """Return where a function is defined: its module and its qualified name; None if others may have the same."""
    function = entry.spec.function
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    return None if module is None or name is None or "<locals>" in name else (module, name)
