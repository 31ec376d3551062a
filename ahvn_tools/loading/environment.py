"""`${NAME}` and `${NAME:default}` in the texts of a definition, from the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ahvn_tools.errors import SourceError

VARIABLE: Final = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::(?P<default>[^{}]*))?\}|\$\{")
"""A variable, a literal `${`, or, without a name, a `${` that is neither."""


def expand(value: Any, env: Mapping[str, str]) -> Any:
    """Return a value with the variables in its texts replaced, also in lists and dicts; `$${` is a literal `${`.

    Raises SourceError, which names the variable, for one that is not set and has no default.
    """
    if isinstance(value, str):
        return VARIABLE.sub(lambda match: _replace(match, env), value)
    if isinstance(value, Mapping):
        return {key: expand(item, env) for key, item in value.items()}
    return [expand(item, env) for item in value] if isinstance(value, list) else value


def _replace(match: re.Match[str], env: Mapping[str, str]) -> str:
    name, default = match["name"], match["default"]
    if name is None:
        if match[0] == "$${":
            return "${"
        raise SourceError("A variable is ${NAME} or ${NAME:default}, and a literal ${ is $${.")
    if name in env:
        return env[name]
    if default is None:
        raise SourceError(f"The environment variable {name!r} is not set: set it, or write ${{{name}:default}}.")
    return default
