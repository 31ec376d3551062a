"""Access tokens by OAuth's client credentials grant, kept until they expire."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.rfc6749.parameters import prepare_token_request
from authlib.oauth2.rfc6749.wrappers import OAuth2Token
from pydantic_core import from_json

from ahvn_tools.errors import ToolConnectionError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.sources.http.request import ClientCredentials

MAX_TOKENS = 1_000
"""Tokens that are kept; of more, the least recently used one is fetched again."""

EXPIRY_LEEWAY_SECONDS = 30
"""A token is fetched again this long before it expires."""

_OK = 200

SendTokenRequest = Callable[[str, dict[str, str], str], Awaitable[tuple[int, bytes]]]
"""Posts headers and a form to the URL of the token endpoint; returns the status and the body."""


@dataclass(frozen=True)
class TokenKey:
    """A client at a token endpoint."""

    grant: ClientCredentials
    client_id: str = field(repr=False)
    client_secret: str = field(repr=False)


_tokens: OrderedDict[TokenKey, Any] = OrderedDict()
_lock = threading.Lock()
_fetches: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[TokenKey, asyncio.Lock]] = WeakKeyDictionary()


async def find_token(key: TokenKey, send: SendTokenRequest) -> str:
    """Return a valid access token: the kept one, or a new one, which calls of one loop fetch once for all of them.

    Raises ToolConnectionError, whose text has no secret, if the endpoint gives none.
    """
    if (token := _kept_token(key)) is not None:
        return token
    locks = _fetches.setdefault(asyncio.get_running_loop(), {})
    async with locks.setdefault(key, asyncio.Lock()):
        if (token := _kept_token(key)) is not None:
            return token
        fetched = await _fetch_token(key, send)
        locks.pop(key, None)
        with _lock:
            _tokens[key] = fetched
            while len(_tokens) > MAX_TOKENS:
                _tokens.popitem(last=False)
        return str(fetched["access_token"])


def drop_token(key: TokenKey, token: str) -> None:
    """Forget a token that the service has refused."""
    with _lock:
        if key in _tokens and _tokens[key]["access_token"] == token:
            del _tokens[key]


def _kept_token(key: TokenKey) -> str | None:
    with _lock:
        token = _tokens.get(key)
        if token is None or token.is_expired(leeway=EXPIRY_LEEWAY_SECONDS):
            return None
        _tokens.move_to_end(key)
        return str(token["access_token"])


async def _fetch_token(key: TokenKey, send: SendTokenRequest) -> Any:
    grant = key.grant
    form = prepare_token_request("client_credentials", scope=grant.scope, audience=grant.audience)
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    client = ClientAuth(key.client_id, key.client_secret, grant.authentication)
    url, headers, form = client.prepare("POST", grant.token_url, headers, form)
    status, body = await send(url, headers, form)
    parsed = _parse(body)
    token = _find_token(parsed)
    if status == _OK and token is not None:
        return token
    code = next((code for code in _ERROR_CODES if code == parsed.get("error")), "")
    raise ToolConnectionError(
        "The tool cannot run: its host's credentials were not accepted.",
        explanation=f"The token endpoint answered HTTP {status}{code and f' ({code})'} and gave no token: check "
        "token_url, client_id, client_secret and scope.",
    )


def _parse(body: bytes) -> JsonObject:
    """Return the object of a response; an empty one for anything else."""
    try:
        parsed = from_json(body)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _find_token(parsed: JsonObject) -> Any:
    """Return the token of a response; None if it has none of the type Bearer."""
    if not isinstance(token := parsed.get("access_token"), str) or not token:
        return None
    if str(parsed.get("token_type", "bearer")).lower() != "bearer" or not (token.isascii() and token.isprintable()):
        return None
    try:
        return OAuth2Token({"access_token": token, "expires_in": int(parsed.get("expires_in") or 0) or None})
    except (TypeError, ValueError):
        return OAuth2Token({"access_token": token})


_ERROR_CODES = frozenset({
    "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type",
    "invalid_scope", "server_error", "temporarily_unavailable",
})  # fmt: skip
"""The codes of RFC 6749, section 5.2; any other text of the endpoint might contain what was sent to it."""
