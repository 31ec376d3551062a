"""One call of an HTTP tool, from its arguments to its value."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ahvn_tools.errors import MISSING_VALUE, InvalidResultError, ToolConnectionError, ToolError
from ahvn_tools.log_redaction import hidden_logged_data
from ahvn_tools.redaction import find_secrets
from ahvn_tools.secret_texts import SecretTexts
from ahvn_tools.sources.http.building import (
    NO_CREDENTIALS,
    BuiltRequest,
    build_request,
    read_credentials,
    sign,
    to_text,
    token_key,
)
from ahvn_tools.sources.http.request import ClientCredentials, HTTPOptions, HTTPRequest
from ahvn_tools.sources.http.responses import UNAUTHORIZED, HTTPResponse, status_error, to_value
from ahvn_tools.sources.http.sending import Sender

MAX_TOKEN_RESPONSE_BYTES = 100_000


@dataclass(frozen=True, kw_only=True)
class HTTPCall:
    """What all calls of one tool have in common."""

    tool: str
    request: HTTPRequest
    options: HTTPOptions
    hidden: Collection[str]
    """The parameters that no model sets."""
    wants_json: bool

    async def send(self, arguments: Mapping[str, Any], private_names: Collection[str] = ()) -> Any:
        """Send the request and return its value. Raises ToolError, ToolConnectionError, InvalidResultError.

        `private_names` are the arguments that are bound or secret.
        """
        request = self.request
        arguments = {name: item for name, item in arguments.items() if not (item is None and name in self.hidden)}
        self._require_places(arguments)
        credentials = read_credentials(request.security, arguments, self.tool)
        secrets = SecretTexts()
        sent = {name: item for name, item in arguments.items() if name not in credentials}
        built = self._build(sent)
        for item in request.security:
            built = sign(built, item, credentials, secrets)
        with hidden_logged_data(functools.partial(secrets.mask, is_error=True)):
            sender = Sender(
                tool=self.tool,
                options=self.options,
                has_private_body=self._has_private_body(sent, private_names),
            )
            response = await self._send_built(sender, built, credentials, secrets)
        for name, place in request.arguments.items():
            if place.is_hidden and name in arguments:
                secrets.add(to_text(arguments[name]), only_in_errors=True)
        response = response.masked(secrets)
        if response.is_error:
            raise status_error(response, has_credentials=bool(request.security))
        return to_value(response, wants_json=self.wants_json)

    def _require_places(self, arguments: Mapping[str, Any]) -> None:
        """Refuse a call that cannot be sent because the host has not said where to, or has not bound a value."""
        if not self.request.base_url:
            raise ToolConnectionError(
                "The tool cannot run: it is not known where its service is.",
                tool=self.tool,
                explanation=f"The document of {self.tool!r} does not say where its server is: pass base_url='https://…'.",
            )
        for name, place in self.request.arguments.items():
            if place.location == "path" and name in self.hidden and name not in arguments:
                raise ToolConnectionError(
                    MISSING_VALUE,
                    tool=self.tool,
                    explanation=f"{name!r} of {self.tool!r} is not in its input schema and has no value: bind it.",
                )

    def _has_private_body(self, arguments: Mapping[str, Any], private_names: Collection[str]) -> bool:
        """Return whether the body has an argument that is bound, or one that is secret, at any depth."""
        places = {name: self.request.find_argument(name) for name in arguments}
        in_body = {
            name: arguments[name]
            for name, place in places.items()
            if place is not None and place.location in {"body", "whole-body"}
        }
        return not in_body.keys().isdisjoint(private_names) or bool(find_secrets(in_body))

    def _build(self, arguments: Mapping[str, Any]) -> BuiltRequest:
        try:
            return build_request(self.request, arguments)
        except UnicodeEncodeError:  # a lone surrogate
            raise ToolError("Invalid arguments: a text has characters that cannot be sent.") from None

    async def _send_built(
        self, sender: Sender, built: BuiltRequest, credentials: Mapping[str, str], secrets: SecretTexts
    ) -> HTTPResponse:
        """Send a request, with an access token if it needs one; again with a new one if a kept one is refused."""
        grant = next((item for item in self.request.security if isinstance(item, ClientCredentials)), None)
        if grant is None:
            return await sender.send(built.to_httpx())
        from ahvn_tools.sources.http import oauth  # only tools with OAuth need its library

        key = token_key(grant, credentials)
        fetch = _TokenRequest(self.tool, self.options)
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
