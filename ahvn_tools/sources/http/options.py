"""The options of an HTTP tool in code, and its URL with places for arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, get_args
from urllib.parse import parse_qsl, urlsplit

from ahvn_tools.errors import DefinitionError, near_misses
from ahvn_tools.json_types import JsonObject
from ahvn_tools.settings import ToolOptions
from ahvn_tools.sources.http.body import HTTPBody, build_template
from ahvn_tools.sources.http.credentials import Credential, read_headers
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


@dataclass(frozen=True, kw_only=True)
class UrlTemplate:
    """The parts of a URL such as `https://api.example/users/{user_id}/notes?q={text}&format=json`."""

    base_url: str
    """Scheme, host and port."""
    path: str
    path_arguments: tuple[str, ...]
    query: tuple[tuple[str, str], ...]
    """What every request has."""
    query_arguments: tuple[tuple[str, str], ...]
    """The name of a query parameter and the name of the argument that is its value."""

    @classmethod
    def parse(cls, url: Any) -> UrlTemplate:
        """Raises DefinitionError for what is no URL, and for a template anywhere else."""
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
        path_arguments = tuple(dict.fromkeys(_PLACE.findall(parts.path)))
        if "" in path_arguments:
            raise DefinitionError("A template of api_url has the name of an argument: {user_id}.")
        fixed, places = [], []
        for key, value in parse_qsl(parts.query, keep_blank_values=True):
            place = _PLACE.fullmatch(value)
            if place is not None and place[1]:
                places.append((key, place[1]))
            elif "{" in key + value:
                raise DefinitionError("A template in the query of api_url is a whole value: '?q={text}'.")
            else:
                fixed.append((key, value))
        base_url = f"{parts.scheme}://{parts.netloc}"
        return cls(
            base_url=base_url,
            path=parts.path,
            path_arguments=path_arguments,
            query=tuple(fixed),
            query_arguments=tuple(places),
        )


AuthMethod = Literal["none", "api_key", "api_key_header", "api_key_query", "basic", "oauth"]

Places = Mapping[str, str] | Iterable[str]
"""Arguments: with their names on the wire, or under their own names."""


class HTTPToolOptions(ToolOptions, total=False):
    """The options of an HTTP tool in addition to those of any tool. All are optional."""

    method: str
    """`GET` by default."""
    query: Places
    """Arguments that are sent in the query; those of GET, HEAD, OPTIONS and DELETE are by default."""
    body: Places | str
    """Arguments that are sent as members of the body, as all others are by default; a text names the argument that is
    the whole body."""
    header: Mapping[str, str]
    """Arguments that are sent in headers, with the names of the headers. No model sees them: bind them."""
    body_type: BodyType
    """`"json"` by default."""
    headers: Mapping[str, Credential]
    """Headers of every request. A secret one is `"${NAME}"` or `"Prefix ${NAME}"`, a SecretStr or a function."""
    auth_method: AuthMethod
    """How the host authenticates: `"none"` by default."""
    api_key: Credential
    """For `api_key` (`Authorization: Bearer …`), `api_key_header` and `api_key_query`: the name of an environment
    variable as `"${NAME}"`, a SecretStr, or a function that returns the key. So are the other credentials."""
    api_key_name: str
    """The name of the header, `X-API-Key` by default, or of the query parameter, `api_key` by default."""
    username: Credential
    """For `basic`. It may be a plain text."""
    password: Credential
    client_id: Credential
    """For `oauth`, the client credentials grant. It may be a plain text."""
    client_secret: Credential
    token_url: str
    """The token endpoint."""
    scope: str
    """Scopes of the token, separated by spaces."""
    token_audience: str
    """The parameter `audience` of the token request, which some providers require."""
    client_authentication: ClientAuthentication
    """Where the token request has the client's id and secret: `"client_secret_basic"` by default."""
    connect_timeout: float
    retry_count: int
    retry_delay: float
    max_response_bytes: int
    follow_redirects: bool | Literal["same-origin"]
    allow_private: bool | Iterable[str]
    ca_file: str | None
    proxy: str | None


_REQUEST_KEYS: Final = frozenset(HTTPToolOptions.__annotations__) - frozenset(ToolOptions.__annotations__)

_SENDING_KEYS: Final = frozenset(item.name for item in fields(HTTPOptions)) & _REQUEST_KEYS

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
    known = {**ToolOptions.__annotations__, **HTTPToolOptions.__annotations__}
    for key in options:
        if key not in known:
            raise DefinitionError(f"Unknown option {key!r}. {near_misses(key, known)}")
    own = {key: value for key, value in options.items() if key in _REQUEST_KEYS}
    tool_options = {key: value for key, value in options.items() if key not in own and key != "input_schema"}
    url = UrlTemplate.parse(api_url)
    arguments = _find_places(url, own)
    headers, keys = read_headers(own.get("headers", {}))
    security = (*_read_security(own, tool_options.get("binds") or {}), *keys)
    request = HTTPRequest(
        method=_to_text("method", own.get("method", "GET")).upper(),
        base_url=url.base_url,
        path=url.path,
        arguments=arguments,
        other_arguments="body" if _has_body(own) else "query",
        body_type=_to_choice("body_type", own.get("body_type", "json"), get_args(BodyType)),
        query=url.query,
        headers=headers,
        security=security,
    )
    schema = options.get("input_schema")
    return build_template(
        name,
        _derive_schema(url, arguments) if schema is None else schema,
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
    return not is_whole and str(own.get("method", "GET")).upper() in METHODS_WITH_BODY


def _find_places(url: UrlTemplate, own: Mapping[str, Any]) -> dict[str, HTTPArgument]:
    """Return where the arguments are sent that the URL and the options name."""
    places = {name: HTTPArgument(location="path", name=name) for name in url.path_arguments}
    named: list[tuple[str, Location, str]] = [(name, "query", key) for key, name in url.query_arguments]
    named += [(name, "query", key) for name, key in _to_names("query", own.get("query", ())).items()]
    if isinstance(body := own.get("body", ()), str):
        named.append((body, "whole-body", body))
    else:
        named += [(name, "body", key) for name, key in _to_names("body", body).items()]
    named += [(name, "header", key) for name, key in _to_texts("header", own.get("header", {})).items()]
    for name, location, key in named:
        if name in places:
            raise DefinitionError(f"The argument {name!r} has two places: keep one of them.")
        places[name] = HTTPArgument(location=location, name=key)
    return places


def _derive_schema(url: UrlTemplate, arguments: Mapping[str, HTTPArgument]) -> JsonObject:
    """Return the schema of the arguments that are named: texts in the URL, and any values elsewhere."""
    required = [*url.path_arguments, *(name for _, name in url.query_arguments)]
    properties = {name: {"type": "string"} if name in required else {} for name in arguments}
    return {"type": "object", "properties": properties, "required": required}


def _read_security(own: Mapping[str, Any], binds: Mapping[str, str]) -> tuple[Security, ...]:
    """Return how the host authenticates. Raises DefinitionError for options that another method has, or that lack."""
    method = _to_choice("auth_method", own.get("auth_method", "none"), get_args(AuthMethod))
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
    if method == "oauth" and not isinstance(own.get("token_url"), str):
        raise DefinitionError("auth_method='oauth' needs 'token_url', the URL of the token endpoint.")
    return _MAKE_SECURITY[method](own)


_MAKE_SECURITY: Final[Mapping[str, Callable[[Mapping[str, Any]], tuple[Security, ...]]]] = {
    "none": lambda _: (),
    "api_key": lambda _: (ApiKey(prefix="Bearer "),),
    "api_key_header": lambda own: (ApiKey(name=_to_text("api_key_name", own.get("api_key_name", "X-API-Key"))),),
    "api_key_query": lambda own: (
        ApiKey(location="query", name=_to_text("api_key_name", own.get("api_key_name", "api_key"))),
    ),
    "basic": lambda _: (Basic(),),
    "oauth": lambda own: (
        ClientCredentials(
            token_url=own["token_url"],
            scope=_to_text("scope", own.get("scope", "")),
            audience=_to_text("token_audience", own.get("token_audience", "")),
            authentication=_to_choice(
                "client_authentication",
                own.get("client_authentication", "client_secret_basic"),
                get_args(ClientAuthentication),
            ),
        ),
    ),
}


def _read_sending(own: Mapping[str, Any]) -> HTTPOptions:
    options = {key: own[key] for key in _SENDING_KEYS & own.keys()}
    allowed = options.get("allow_private", False)
    if not isinstance(allowed, bool):
        if isinstance(allowed, str):
            raise DefinitionError("allow_private is True, or a list of hosts and networks.")
        options["allow_private"] = tuple(allowed)
    return HTTPOptions(**options)


def _to_names(option: str, places: Any) -> dict[str, str]:
    """Return arguments with their names on the wire."""
    if isinstance(places, Mapping):
        return _to_texts(option, places)
    if isinstance(places, str) or not isinstance(places, Iterable):
        raise DefinitionError(f"{option} is a list of arguments, or a dict with their names on the wire.")
    names = list(places)
    return _to_texts(option, dict(zip(names, names, strict=True)))


def _to_texts(option: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(part, str) for pair in value.items() for part in pair):
        raise DefinitionError(f"{option} is a dict of texts; a credential belongs to auth_method, or is bound.")
    return dict(value)


def _to_text(option: str, value: Any) -> str:
    if not isinstance(value, str):
        raise DefinitionError(f"{option} must be a text, not {type(value).__name__}.")
    return value


def _to_choice(option: str, value: Any, choices: tuple[str, ...]) -> Any:
    if value not in choices:
        raise DefinitionError(f"{option} must be {', '.join(map(repr, choices))}, not {value!r}.")
    return value
