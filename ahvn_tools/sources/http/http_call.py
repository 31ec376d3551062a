"""One call of an HTTP tool, from its arguments to its value."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from ahvn_tools.errors import MISSING_VALUE, InvalidResultError, ToolConnectionError, ToolError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.redaction.logs import hidden_logged_data
from ahvn_tools.redaction.texts import SecretTexts
from ahvn_tools.redaction.values import find_secrets
from ahvn_tools.results import ToolResult, has_content, text_block
from ahvn_tools.sources.http.building import (
    NO_CREDENTIALS,
    BuiltRequest,
    build_request,
    choose_security,
    read_credentials,
    sign,
    to_text,
)
from ahvn_tools.sources.http.request import ClientCredentials, HTTPOptions, HTTPRequest, Security
from ahvn_tools.sources.http.responses import UNAUTHORIZED, HTTPResponse, status_error, to_value
from ahvn_tools.sources.http.sending import Sender

MAX_TOKEN_RESPONSE_BYTES = 100_000


class HTTPTool(Protocol):
    """What is read of an HTTPBody."""

    name: str
    request: HTTPRequest
    options: HTTPOptions
    hidden: tuple[str, ...]
    wants_json: bool
    is_remote: bool


async def send(body: HTTPTool, arguments: Mapping[str, Any], private_names: Collection[str] = ()) -> Any:
    """Send the request of a tool and return its value. Raises ToolError, ToolConnectionError, InvalidResultError.

    `private_names` are the arguments that are bound or secret.
    """
    request = body.request
    arguments = {name: item for name, item in arguments.items() if not (item is None and name in body.hidden)}
    _require_places(body, arguments)
    security = choose_security(request, arguments, body.name, is_remote=body.is_remote)
    credentials = read_credentials(security, arguments, body.name)
    secrets = SecretTexts()
    sent = {name: item for name, item in arguments.items() if name not in request.credential_parameters}
    built = _build(request, sent)
    for item in security:
        built = sign(built, item, credentials, secrets)
    with hidden_logged_data(functools.partial(secrets.mask, is_error=True)):
        is_private = _has_private_body(request, sent, private_names)
        sender = Sender(tool=body.name, options=body.options, has_private_body=is_private)
        response = await _send_built(sender, security, built, credentials, secrets)
    for name, place in request.arguments.items():
        if place.is_hidden and name in arguments:
            secrets.add(to_text(arguments[name]), only_in_errors=True)
    response = response.masked(secrets)
    if response.is_error:
        raise status_error(response, has_credentials=bool(security))
    is_described = request.describes(response.status)
    value = to_value(response, wants_json=body.wants_json and (is_described or request.other_content is None))
    if request.other_content is None or (response.body and is_described):
        return value
    return _other_result(value, request.other_content)


def _other_result(value: Any, content: JsonObject) -> ToolResult:
    """Return the result of a response that the output schema does not describe."""
    if value is None:
        return ToolResult(None, dict(content))
    return ToolResult(value, dict(content), blocks=(value if has_content(value) else text_block(to_text(value)),))


def _require_places(body: HTTPTool, arguments: Mapping[str, Any]) -> None:
    """Refuse a call that cannot be sent because the host has not said where to, or has not bound a value."""
    if not body.request.base_url:
        raise ToolConnectionError(
            "The tool cannot run: it is not known where its service is.",
            tool=body.name,
            explanation=f"The document of {body.name!r} does not say where its server is, or its URL is relative: "
            "pass base_url='https://…'.",
            is_temporary=False,
        )
    for name in body.request.arguments:
        if name in body.hidden and name not in arguments:
            raise ToolConnectionError(
                MISSING_VALUE,
                tool=body.name,
                explanation=f"{name!r} of {body.name!r} is not in its input schema and has no value: bind it.",
                is_temporary=False,
            )


def _has_private_body(request: HTTPRequest, arguments: Mapping[str, Any], private_names: Collection[str]) -> bool:
    """Return whether the body has an argument that is bound, or one that is secret, at any depth."""
    in_body = {
        name: value
        for name, value in arguments.items()
        if (place := request.find_argument(name)) is not None and place.location in {"body", "whole-body"}
    }
    return not in_body.keys().isdisjoint(private_names) or bool(find_secrets(in_body))


def _build(request: HTTPRequest, arguments: Mapping[str, Any]) -> BuiltRequest:
    try:
        return build_request(request, arguments)
    except UnicodeEncodeError:  # a lone surrogate
        raise ToolError("Invalid arguments: a text has characters that cannot be sent.") from None


async def _send_built(
    sender: Sender,
    security: Iterable[Security],
    built: BuiltRequest,
    credentials: Mapping[str, str],
    secrets: SecretTexts,
) -> HTTPResponse:
    """Send a request, with an access token if it needs one; again with a new one if a kept one is refused."""
    grant = next((item for item in security if isinstance(item, ClientCredentials)), None)
    if grant is None:
        return await sender.send(built.to_httpx())
    from ahvn_tools.sources.http import oauth  # only tools with OAuth need its library

    key = oauth.TokenKey(grant, credentials[grant.client_id], credentials[grant.client_secret])
    fetch = _TokenRequest(sender.tool, sender.options)
    token = await oauth.find_token(key, fetch)
    response = await _send_with_bearer(sender, built, token, secrets)
    if response.status == UNAUTHORIZED and not fetch.is_sent:
        oauth.drop_token(key, token)
        response = await _send_with_bearer(sender, built, await oauth.find_token(key, fetch), secrets)
    return response


async def _send_with_bearer(sender: Sender, built: BuiltRequest, token: str, secrets: SecretTexts) -> HTTPResponse:
    secrets.add(token)
    return await sender.send(built.with_header("Authorization", f"Bearer {token}").to_httpx())


class _TokenRequest:
    """Sends the request for an access token, with the tool's own limits."""

    def __init__(self, tool: str, options: HTTPOptions) -> None:
        self._tool = tool
        self._options = replace(
            options, is_repeatable=True, follow_redirects=False, max_response_bytes=MAX_TOKEN_RESPONSE_BYTES
        )
        self.is_sent = False
        """Whether a token was fetched for this call."""

    async def __call__(self, url: str, headers: Mapping[str, str], form: str) -> tuple[int, bytes]:
        """Return the status and the body of the response. Raises ToolConnectionError."""
        self.is_sent = True
        built = BuiltRequest(method="POST", url=url, headers=headers, content={"content": form.encode()})
        try:
            response = await Sender(tool=self._tool, options=self._options).send(built.to_httpx())
        except (ToolError, InvalidResultError) as error:
            explanation = f"The token endpoint gave no usable answer: {error.message}"
            raise ToolConnectionError(NO_CREDENTIALS, tool=self._tool, explanation=explanation) from None
        return response.status, response.body
