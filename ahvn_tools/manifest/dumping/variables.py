"""Variables in dumped texts: a literal `${` is escaped, and a credential is the name of its environment variable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ahvn_tools.manifest.dumping.problems import UndumpableError

_BEARER: Final = "Bearer "

_MIN_CHARS: Final = 8
"""A shorter value could be that of a variable by chance."""


def escape(data: Any) -> Any:
    """Return data of a manifest in which `${` means itself. Raises UndumpableError for a key that contains it."""
    if isinstance(data, str):
        return data.replace("${", "$${")
    if isinstance(data, Mapping):
        if any("${" in key for key in data):
            raise UndumpableError("a key contains `${`, which a manifest cannot hold: choose another name")
        return {key: escape(value) for key, value in data.items()}
    return [escape(item) for item in data] if isinstance(data, list | tuple) else data


def reference(name: str, value: str, env: Mapping[str, str]) -> str | None:
    """Return `${VARIABLE}` for the variable with this value: that of this name, or the only one; else None."""
    if value.startswith(_BEARER):
        found = reference(name, value.removeprefix(_BEARER), env)
        return None if found is None else _BEARER + found
    if value and env.get(name) == value:
        return f"${{{name}}}"
    names = [variable for variable, text in env.items() if text == value and variable.isidentifier()]
    return f"${{{names[0]}}}" if len(names) == 1 and len(value) >= _MIN_CHARS else None
