"""The options of an HTTP tool in code, and its URL with places for arguments.

The checks stand in the annotations and are read from there: this module has no `from __future__ import annotations`.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields
from typing import Annotated, Any, Final, Literal, get_args
from urllib.parse import parse_qsl, urlsplit

from ahvn_tools.errors import DefinitionError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.settings import ToolOptions, check_options, one_of
from ahvn_tools.sources.http.body import HTTPBody, build_template
from ahvn_tools.sources.http.credentials import Credential, must_fit, read_headers
from ahvn_tools.sources.http.request import (
    METHODS_WITH_BODY,
    ApiKey,
    Basic,
    BodyType,
    ClientAuthentication,
    ClientCredentials,
    HTTPArgument,
    HTTPOptions,
    HTTPRequest,
    Location,
    Security,
)
from ahvn_tools.template import ToolTemplate

_PLACE = re.compile(r"\{([^{}]*)\}")


AuthMethod = Literal["none", "api_key", "api_key_header", "api_key_query", "basic", "oauth"]

Places = Mapping[str, str] | Iterable[str]
"""Arguments: with their names on the wire, or under their own names."""


def _are_texts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(part, str) for pair in value.items() for part in pair)


def _are_places(value: Any) -> bool:
    if isinstance(value, str | Mapping):
        return isinstance(value, Mapping) and _are_texts(value)
    return isinstance(value, Iterable) and all(isinstance(name, str) for name in value)


_TEXT: Final = must_fit("a text", lambda value: isinstance(value, str))
_TEXTS: Final = must_fit("a dict of texts; a credential belongs to auth_method, or is bound", _are_texts)
_PLACES: Final = must_fit("a list of arguments, or a dict with their names on the wire", _are_places)
_BODY: Final = must_fit(
    "the argument that is the whole body, a list of arguments, or a dict with their names on the wire",
    lambda value: isinstance(value, str) or _are_places(value),
)
_ALLOWED: Final = must_fit(
    "True, or a list of hosts and networks",
    lambda value: isinstance(value, bool) or (isinstance(value, Iterable) and not isinstance(value, str)),
)


class HTTPToolOptions(ToolOptions, total=False):
    """The options of an HTTP tool in addition to those of any tool. All are optional."""

    method: Annotated[str, _TEXT]
    """`GET` by default."""
    query: Annotated[Places, _PLACES]
    """Arguments that are sent in the query; those of GET, HEAD, OPTIONS and DELETE are by default."""
    body: Annotated[Places | str, _BODY]
    """Arguments that are sent as members of the body, as all others are by default; a text names the argument that is
    the whole body."""
    header: Annotated[Mapping[str, str], _TEXTS]
    """Arguments that are sent in headers, with the names of the headers. No model sees them: bind them."""
    body_type: Annotated[BodyType, one_of(*get_args(BodyType))]
    """`"json"` by default."""
    headers: Mapping[str, Credential]
    """Headers of every request. A secret one is `"${NAME}"` or `"Prefix ${NAME}"`, a SecretStr or a function."""
    auth_method: Annotated[AuthMethod, one_of(*get_args(AuthMethod))]
    """How the host authenticates: `"none"` by default."""
    api_key: Credential
    """For `api_key` (`Authorization: Bearer …`), `api_key_header` and `api_key_query`: the name of an environment
    variable as `"${NAME}"`, a SecretStr, or a function that returns the key. So are the other credentials."""
    api_key_name: Annotated[str, _TEXT]
    """The name of the header, `X-API-Key` by default, or of the query parameter, `api_key` by default."""
    username: Credential
    """For `basic`. It may be a plain text."""
    password: Credential
    """For `basic`."""
    client_id: Credential
    """For `oauth`, the client credentials grant. It may be a plain text."""
    client_secret: Credential
    """For `oauth`."""
    token_url: Annotated[str, _TEXT]
    """The token endpoint."""
    scope: Annotated[str, _TEXT]
    """Scopes of the token, separated by spaces."""
    token_audience: Annotated[str, _TEXT]
    """The parameter `audience` of the token request, which some providers require."""
    client_authentication: Annotated[ClientAuthentication, one_of(*get_args(ClientAuthentication))]
    """Where the token request has the client's id and secret: `"client_secret_basic"` by default."""
    connect_timeout: float
    retry_count: int
    retry_delay: float
    max_response_bytes: int
    follow_redirects: bool | Literal["same-origin"]
    allow_private: Annotated[bool | Iterable[str], _ALLOWED]
    ca_file: str | None
    proxy: str | None


REQUEST_KEYS: Final = frozenset(HTTPToolOptions.__annotations__) - frozenset(ToolOptions.__annotations__)
"""The options that only HTTP tools have."""

_SENDING_KEYS: Final = frozenset(item.name for item in fields(HTTPOptions)) & REQUEST_KEYS

_AUTH_KEYS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "none": ((), ()),
    "api_key": (("api_key",), ()),
    "api_key_header": (("api_key",), ("api_key_name",)),
    "api_key_query": (("api_key",), ("api_key_name",)),
    "basic": (("username", "password"), ()),
    "oauth": (("client_id", "client_secret"), ("token_url", "scope", "token_audience", "client_authentication")),
}
"""The credentials of each method, and its other options."""


def build_from_url(
    name: str,
    api_url: str,
    options: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
    origin: str | None = None,
) -> tuple[ToolTemplate, HTTPBody]:
    """Return the template of the tool that a URL and `HTTPToolOptions` describe, and its body.

    `environment` has the variables of credentials, `origin` is as of `build_template`. Raises DefinitionError.
    """
    check_options(options, HTTPToolOptions)
    if options.get("external"):
        raise DefinitionError("An external tool sends no request: make it with ToolSpec.from_schema(…, external=True).")
    own = {key: value for key, value in options.items() if key in REQUEST_KEYS and value is not None}
    tool_options = {key: value for key, value in options.items() if key not in {*REQUEST_KEYS, "input_schema"}}
    base_url, path, query, in_url = _parse_url(api_url)
    arguments = _find_places(in_url, own)
    headers, keys = read_headers(own.get("headers", {}))
    security = (*_read_security(own, tool_options.get("binds") or {}), *keys)
    request = HTTPRequest(
        method=own.get("method", "GET").upper(),
        base_url=base_url,
        path=path,
        arguments=arguments,
        other_arguments="body" if _has_body(own) else "query",
        body_type=own.get("body_type", "json"),
        query=query,
        headers=headers,
        security=security,
    )
    schema = options.get("input_schema")
    return build_template(
        name,
        _derive_schema(in_url, arguments) if schema is None else schema,
        request,
        tool_options,
        http_options=_read_sending(own),
        credentials={
            **{key: own[key] for item in security for key in item.parameters if key in own},
            **{item.parameter: value for item, value in keys.items()},
        },
        environment=environment,
        origin=origin,
    )


def _has_body(own: Mapping[str, Any]) -> bool:
    is_whole = isinstance(own.get("body"), str)
    return not is_whole and own.get("method", "GET").upper() in METHODS_WITH_BODY


def _parse_url(url: Any) -> tuple[str, str, tuple[tuple[str, str], ...], dict[str, HTTPArgument]]:
    """Return the parts of a URL such as `https://api.example/users/{user_id}/notes?q={text}&format=json`.

    They are scheme, host and port; the path; the query of every request; and the arguments in the path and the query.
    Raises DefinitionError for what is no URL, and for a template anywhere else.
    """
    if not isinstance(url, str) or "://" not in url:
        raise DefinitionError("api_url must be a URL such as 'https://api.example/users/{user_id}'.")
    if "${" in url:
        raise DefinitionError("A template of api_url is written without a dollar sign: {user_id}.")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise DefinitionError(f"api_url cannot be read: {error}.") from None
    if parts.fragment:
        raise DefinitionError("api_url has a fragment, which no server gets: remove what follows '#'.")
    places = {name: HTTPArgument(location="path", name=name) for name in _PLACE.findall(parts.path)}
    if "" in places:
        raise DefinitionError("A template of api_url has the name of an argument: {user_id}.")
    fixed: list[tuple[str, str]] = []
    for key, value in parse_qsl(parts.query, keep_blank_values=True):
        place = _PLACE.fullmatch(value)
        if place is not None and place[1]:
            _add_place(places, place[1], "query", key)
        elif "{" in key + value:
            raise DefinitionError("A template in the query of api_url is a whole value: '?q={text}'.")
        else:
            fixed.append((key, value))
    return f"{parts.scheme}://{parts.netloc}", parts.path, tuple(fixed), places


def _add_place(places: dict[str, HTTPArgument], name: str, location: Location, key: str) -> None:
    if name in places:
        raise DefinitionError(f"The argument {name!r} has two places: keep one of them.")
    places[name] = HTTPArgument(location=location, name=key)


def _find_places(in_url: Mapping[str, HTTPArgument], own: Mapping[str, Any]) -> dict[str, HTTPArgument]:
    """Return where the arguments are sent that the URL and the options name."""
    places = dict(in_url)
    for name, key in _to_names(own.get("query", ())).items():
        _add_place(places, name, "query", key)
    if isinstance(body := own.get("body", ()), str):
        _add_place(places, body, "whole-body", body)
    else:
        for name, key in _to_names(body).items():
            _add_place(places, name, "body", key)
    for name, key in own.get("header", {}).items():
        _add_place(places, name, "header", key)
    return places


def _derive_schema(in_url: Collection[str], arguments: Collection[str]) -> JsonObject:
    """Return the schema of the arguments that are named: texts in the URL, and any values elsewhere."""
    properties = {name: {"type": "string"} if name in in_url else {} for name in arguments}
    return {"type": "object", "properties": properties, "required": list(in_url)}


def _read_security(own: Mapping[str, Any], binds: Mapping[str, str]) -> tuple[Security, ...]:
    """Return how the host authenticates. Raises DefinitionError for options that another method has, or that lack."""
    method = own.get("auth_method", "none")
    credentials, others = _AUTH_KEYS[method]
    for key in {name for pair in _AUTH_KEYS.values() for names in pair for name in names} & own.keys():
        if key not in (*credentials, *others):
            fitting = [name for name, pair in _AUTH_KEYS.items() if key in (*pair[0], *pair[1])]
            raise DefinitionError(f"{key!r} is for auth_method={' or '.join(map(repr, fitting))}, not {method!r}.")
    for key in credentials:
        if key not in own and key not in binds:
            raise DefinitionError(
                f"auth_method={method!r} needs {key!r}: name an environment variable as '${{NAME}}', pass a SecretStr "
                f"or a function, or bind it: binds={{{key!r}: 'state.key'}}."
            )
    if method == "oauth" and "token_url" not in own:
        raise DefinitionError("auth_method='oauth' needs 'token_url', the URL of the token endpoint.")
    return _MAKE_SECURITY[method](own)


_MAKE_SECURITY: Final[Mapping[str, Callable[[Mapping[str, Any]], tuple[Security, ...]]]] = {
    "none": lambda _: (),
    "api_key": lambda _: (ApiKey(prefix="Bearer "),),
    "api_key_header": lambda own: (ApiKey(name=own.get("api_key_name", "X-API-Key")),),
    "api_key_query": lambda own: (ApiKey(location="query", name=own.get("api_key_name", "api_key")),),
    "basic": lambda _: (Basic(),),
    "oauth": lambda own: (
        ClientCredentials(
            token_url=own["token_url"],
            scope=own.get("scope", ""),
            audience=own.get("token_audience", ""),
            authentication=own.get("client_authentication", "client_secret_basic"),
        ),
    ),
}


def _read_sending(own: Mapping[str, Any]) -> HTTPOptions:
    options = {key: own[key] for key in _SENDING_KEYS & own.keys()}
    if not isinstance(options.get("allow_private", False), bool):
        options["allow_private"] = tuple(options["allow_private"])
    return HTTPOptions(**options)


def _to_names(places: Places) -> Mapping[str, str]:
    """Return arguments with their names on the wire."""
    return places if isinstance(places, Mapping) else {name: name for name in places}
