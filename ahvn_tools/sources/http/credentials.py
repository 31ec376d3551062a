"""Credentials: bindings of hidden parameters, so that they are read at each call, masked and never pickled."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from pydantic import SecretStr

from ahvn_tools.binding import Binding, EnvironmentVariable
from ahvn_tools.errors import DefinitionError
from ahvn_tools.settings import Check
from ahvn_tools.sources.http.request import ApiKey
from ahvn_tools.state import UNSET

Credential: TypeAlias = str | SecretStr | Callable[..., Any]
"""The name of an environment variable as `${NAME}`, a secret value, or a resolver as of `ToolSpec.bind`."""

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def parse_credential(
    parameter: str,
    credential: object,
    environment: Mapping[str, str] | None = None,
    *,
    may_be_plain: bool = False,
) -> str | SecretStr | Callable[..., Any]:
    """Return a secret value or a resolver; `environment` is where variables are read, `os.environ` by default.

    Raises DefinitionError for a plain text, which could be the secret itself in the code or in a file, unless it
    `may_be_plain`: the name of a user.
    """
    if isinstance(credential, SecretStr) or callable(credential):
        return credential
    variable = _VARIABLE.fullmatch(credential) if isinstance(credential, str) else None
    if may_be_plain and isinstance(credential, str) and "${" not in credential:
        return credential
    if variable is None:
        raise DefinitionError(
            f"{parameter!r} must not be a plain text: name an environment variable as '${{NAME}}', or pass a "
            "pydantic SecretStr, or a function that returns the secret."
        )
    return EnvironmentVariable(variable[1]) if environment is None else EnvironmentVariable(variable[1], environment)


def credential_binding(parameter: str, credential: str | SecretStr | Callable[..., Any]) -> Binding:
    """Return the binding of a parsed credential; a text is not secret.

    It is fixed, so that a toolkit's binding of the same name never sends another credential to this service. Raises
    BindError for a resolver that takes more than the state.
    """
    if isinstance(credential, str):
        return Binding.constant(parameter, credential)
    if isinstance(credential, SecretStr):
        return Binding.constant(parameter, credential, is_secret=True)
    return replace(Binding.create(parameter, None, UNSET, credential, is_secret=True), key=None)


def read_headers(headers: Any) -> tuple[dict[str, str], dict[ApiKey, Credential]]:
    """Return the headers that are no secrets, and the secret ones with their values.

    A secret one is `${NAME}`, `Prefix ${NAME}`, a SecretStr or a function. Raises DefinitionError for no headers.
    """
    if not isinstance(headers, Mapping) or not all(isinstance(name, str) for name in headers):
        raise DefinitionError("headers is a dict of the names of headers and their values.")
    plain: dict[str, str] = {}
    secret: dict[ApiKey, Credential] = {}
    for name, value in headers.items():
        if isinstance(value, str) and "${" not in value:
            plain[name] = value
            continue
        prefix, mark, variable = value.partition("${") if isinstance(value, str) else ("", "", "")
        parameter = f"{re.sub(r'[^a-z0-9]', '_', name.lower())}_header"
        secret[ApiKey(name=name, prefix=prefix, parameter=parameter)] = mark + variable or value
    return plain, secret


def must_fit(words: str, is_valid: Callable[[Any], bool]) -> Check:
    """Return the check of an option; its error does not show the value, which may be a secret."""

    def check(name: str, value: Any) -> None:
        if not is_valid(value):
            raise DefinitionError(f"{name} must be {words}, not a {type(value).__name__}.")

    return check
