"""SecretBindings: the secret values that the tools of a toolkit have bound, as they are in one session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ahvn_tools.binding import Binding, EnvironmentVariable, StateScopes
from ahvn_tools.execution.compiled_tool import CompiledTool
from ahvn_tools.redaction.names import is_secret_name
from ahvn_tools.state import MISSING
from ahvn_tools.toolkit.entry import Bindings, Entry

_Found = tuple[tuple[Entry, Binding], ...]


class SecretBindings:
    """The bindings of secret parameters in all tools of a toolkit, each state key once."""

    def __init__(self) -> None:
        self._found: tuple[object, list[CompiledTool], _Found] | None = None
        """What `_find` has returned, and of what."""

    def read(
        self,
        entries: Iterable[Entry],
        bindings: Bindings,
        timeout: float | None,
        revision: object,
        states: StateScopes,
    ) -> Iterator[tuple[str, Any]]:
        """Yield the secret values in these states, and those that the tools have themselves, by parameter.

        No resolver is called. `revision` is another one whenever tools or bindings of the toolkit have changed.
        """
        entries = list(entries)
        compiled, found = [entry.spec.compiled for entry in entries], self._found
        if found is None or found[0] != revision or found[1] != compiled:
            found = self._found = revision, compiled, tuple(_find(entries, bindings, timeout))
        for entry, binding in found[2]:
            value = _read(binding, (*states, *entry.spec.state_scopes))
            if value is not MISSING and value is not None:
                yield binding.parameter, value


def _find(entries: Iterable[Entry], bindings: Bindings, timeout: float | None) -> Iterator[tuple[Entry, Binding]]:
    known: set[object] = set()
    for entry in entries:
        compiled, own = entry.compiled_tool(bindings, timeout), entry.spec.compiled.bindings
        for name, binding in compiled.bindings.items():
            parameter = compiled.template.inputs.parameters[name]
            is_secret = binding.is_secret or parameter.is_secret or is_secret_name(parameter.property_name)
            is_readable = binding.resolver is None or isinstance(binding.resolver, EnvironmentVariable)
            is_own = binding.is_constant or name in own or binding.resolver is not None
            source = (entry, name) if is_own else (binding.key, name)
            if is_secret and is_readable and source not in known:
                known.add(source)
                yield entry, binding


def _read(binding: Binding, scopes: StateScopes) -> Any:
    """Return a value, or MISSING."""
    try:
        return binding.read(scopes)
    except Exception:  # noqa: BLE001  # a property of the host's state raises: the call that needs the value says so
        return MISSING
