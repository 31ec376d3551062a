"""Credentials in a request."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ahvn_tools.errors import ToolConnectionError
from ahvn_tools.redaction import reveal_secrets
from ahvn_tools.secret_texts import SecretTexts
from ahvn_tools.sources.http.building import BuiltRequest
from ahvn_tools.sources.http.checks import is_header_text
from ahvn_tools.sources.http.security import ApiKey, Basic, ClientCredentials, Security
from ahvn_tools.sources.http.styles import cookie_text, percent_encode

if TYPE_CHECKING:
    from ahvn_tools.sources.http.oauth import TokenKey

_NO_VALUE = (
    "has no value; bind it to a key of the state, or pass it when you make the tool (`auth` of an OpenAPI document). "
    "On the command line: --bind {0}={0} --set {0}=VALUE"
)

NO_CREDENTIALS = "The tool cannot run: its host has not provided credentials."


def read_credentials(security: Iterable[Security], arguments: Mapping[str, Any], tool: str) -> dict[str, str]:
    """Return the credentials by parameter. Raises ToolConnectionError for one that is missing or cannot be sent."""
    credentials = {}
    for parameter in dict.fromkeys(name for item in security for name in item.parameters):
        value = reveal_secrets(arguments.get(parameter))
        if value is None:
            raise _credential_error(tool, parameter, _NO_VALUE)
        if not isinstance(value, str) or not value or not value.isprintable():
            raise _credential_error(tool, parameter, "is not a text of printable characters")
        credentials[parameter] = value
    return credentials


def _credential_error(tool: str, parameter: str, problem: str) -> ToolConnectionError:
    explanation = f"The credential {parameter!r} of tool {tool!r} {problem.format(parameter)}."
    return ToolConnectionError(NO_CREDENTIALS, tool=tool, explanation=explanation)


def sign(built: BuiltRequest, item: Security, credentials: Mapping[str, str], secrets: SecretTexts) -> BuiltRequest:
    """Return the request with the credentials of one kind; not with the token of a client, which must be fetched."""
    secrets.add(credentials[item.parameters[-1]])  # what precedes it is the name of a user or client
    if isinstance(item, ClientCredentials):
        return built
    if isinstance(item, Basic):
        pair = _base64(f"{credentials[item.username]}:{credentials[item.password]}")
        secrets.add(pair)
        return built.with_header("Authorization", f"Basic {pair}")
    return _sign_with_key(built, item, credentials[item.parameter])


def _sign_with_key(built: BuiltRequest, item: ApiKey, key: str) -> BuiltRequest:
    if item.location == "query":
        return replace(built, query=(*built.query, (percent_encode(item.name), percent_encode(item.prefix + key))))
    if item.location == "cookie":
        return replace(built, cookies=(*built.cookies, f"{item.name}={cookie_text(item.prefix + key)}"))
    if not is_header_text(key):
        raise ToolConnectionError(
            NO_CREDENTIALS, explanation=f"{item.parameter!r} has characters that no header takes."
        )
    return built.with_header(item.name, item.prefix + key)


def token_key(item: ClientCredentials, credentials: Mapping[str, str]) -> TokenKey:
    """Return which token a request needs."""
    from ahvn_tools.sources.http.oauth import TokenKey  # only tools with OAuth need its library

    return TokenKey(item, credentials[item.client_id], credentials[item.client_secret])


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
