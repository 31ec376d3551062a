"""The request of one call: the arguments in their places and nowhere else, in OpenAPI's styles, and the credentials."""

from __future__ import annotations

import base64
import binascii
import fnmatch
import json
import mimetypes
import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, unquote

import httpx2

from ahvn_tools.errors import ToolConnectionError, ToolError
from ahvn_tools.redaction.texts import SecretTexts
from ahvn_tools.redaction.values import reveal_secrets
from ahvn_tools.sources.http.checks import is_header_text
from ahvn_tools.sources.http.request import (
    METHODS_WITH_BODY,
    ApiKey,
    Basic,
    ClientCredentials,
    HTTPArgument,
    HTTPRequest,
    Location,
    Security,
)

_RESERVED_SAFE = "!$'()*,/:;?@"
"""The reserved characters that mean nothing in the value of a query."""

Pair = tuple[str, str]
"""A name and a value of the query or of a form, both percent-encoded."""

_DELIMITERS = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}

_COOKIE_SAFE = "!#$%&'()*+-./:<=>?@[]^_`{|}~"
"""What a value of a cookie may contain beside letters and digits: RFC 6265, section 4.1.1, without the comma."""


Placed = tuple[str, HTTPArgument, Any]
"""The name of an argument, its place and its value."""

_PLACE = re.compile(r"\{([^{}]+)\}")
_DEFAULT_HEADERS = {
    "Accept": "application/json, */*;q=0.5",
    "Accept-Encoding": "gzip, deflate",
    "User-Agent": "ahvn-tools",
}
_FORM_TYPE = "application/x-www-form-urlencoded"
_MAX_DECODINGS = 4
"""How often a value of the path is decoded to find out what servers may make of it."""

_NO_VALUE = (
    "has no value; bind it to a key of the state, or pass it when you make the tool (`auth` of an OpenAPI document). "
    "On the command line: --bind {0}={0} --set {0}=VALUE"
)

_NO_SECRETS = (
    ". Secret bindings of a toolkit do not reach a document from a URL: pass `auth`, name the scheme in "
    "`security_schemes`, or bind on the tool"
)

NO_CREDENTIALS = "The tool cannot run: its host has not provided credentials."


def to_text(value: Any) -> str:
    """Return a JSON value as text: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else to_json(value)


def to_json(value: Any) -> str:
    """Return a value as JSON, a text in quotes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def percent_encode(text: str) -> str:
    """Return a text in which everything but letters, digits and `-._~` is percent-encoded."""
    return quote(text, safe="")


def path_text(argument: HTTPArgument, value: Any) -> str:
    """Return a value for a path, percent-encoded."""
    if argument.content_type is not None:
        return percent_encode(to_json(value))
    return _labelled_text(argument, value, percent_encode)


def header_text(argument: HTTPArgument, value: Any) -> str:
    """Return a value for a header."""
    if argument.content_type is not None:
        return json.dumps(value)
    return _labelled_text(argument, value, str)


def cookie_text(value: Any) -> str:
    """Return a value for a cookie; what a cookie cannot contain is percent-encoded."""
    parts = [item for pair in value.items() for item in pair] if isinstance(value, dict) else value
    text = ",".join(map(to_text, parts)) if isinstance(parts, list) else to_text(value)
    return quote(text, safe=_COOKIE_SAFE)


def query_pairs(argument: HTTPArgument, value: Any) -> list[Pair]:
    """Return the names and values of a query or of a form; none for null."""
    name, encode = percent_encode(argument.name), _encode_reserved if argument.allow_reserved else _encode_value
    style = argument.style or "form"
    explodes = style == "form" if argument.explode is None else argument.explode
    if value is None:
        return []
    if argument.content_type is not None:
        return [(name, percent_encode(to_json(value)))]
    if not isinstance(value, dict | list):
        return [(name, encode(value))]
    if style == "deepObject":
        return list(_bracketed_pairs(name, value, encode))
    value = _without_nulls(value)
    if explodes and isinstance(value, dict):
        return [(percent_encode(key), encode(item)) for key, item in value.items()]
    if explodes:
        return [(name, encode(item)) for item in value]
    return [(name, _DELIMITERS.get(style, ",").join(_flatten(value, encode)))]


def _bracketed_pairs(name: str, value: Any, encode: Callable[[Any], str]) -> Iterator[Pair]:
    """Yield the values in an object or a list at any depth, as `a[b][0]=…`."""
    if not isinstance(value, dict | list):
        yield name, encode(value)
        return
    value = _without_nulls(value)
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _bracketed_pairs(f"{name}%5B{percent_encode(str(key))}%5D", item, encode)


def _without_nulls(value: Any) -> Any:
    """Return an object or a list without its nulls, which are not sent: RFC 6570, section 2.3."""
    if isinstance(value, dict):
        return {key: item for key, item in value.items() if item is not None}
    return [item for item in value if item is not None]


def _encode_value(value: Any) -> str:
    return percent_encode(to_text(value))


def _encode_reserved(value: Any) -> str:
    return quote(to_text(value), safe=_RESERVED_SAFE)


def _flatten(value: Any, encode: Callable[[Any], str]) -> Iterable[str]:
    items = value.items() if isinstance(value, dict) else ((item,) for item in value)
    return (encode(part) for item in items for part in item)


def _labelled_text(argument: HTTPArgument, value: Any, encode: Callable[[str], str]) -> str:
    """Return a value in one of the styles of a path: `simple`, `label`, `matrix`."""
    style, explodes = argument.style or "simple", bool(argument.explode)
    name = encode(argument.name)
    prefix = {"label": ".", "matrix": f";{name}="}.get(style, "")
    if not isinstance(value, dict | list):
        return prefix + encode(to_text(value))
    value = _without_nulls(value)
    separator = {"label": ".", "matrix": f";{name}="}.get(style, ",") if explodes else ","
    if not (explodes and isinstance(value, dict)):
        return prefix + separator.join(_flatten(value, lambda part: encode(to_text(part))))
    pairs = [f"{encode(key)}={encode(to_text(item))}" for key, item in value.items()]
    prefix, separator = {"label": (".", "."), "matrix": (";", ";")}.get(style, ("", ","))
    return prefix + separator.join(pairs)


@dataclass(frozen=True, kw_only=True, repr=False)
class BuiltRequest:
    """A request that can be sent, without credentials."""

    method: str
    url: str
    """Without the query."""
    query: tuple[Pair, ...] = ()
    """Percent-encoded."""
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: tuple[str, ...] = ()
    """Each as `name=value`."""
    content: Mapping[str, Any] = field(default_factory=dict)
    """The body as a keyword argument of `httpx2.Request`."""

    def with_header(self, name: str, value: str) -> BuiltRequest:
        """Return the request with one more header."""
        return replace(self, headers={**self.headers, name.title(): value})

    def to_httpx(self) -> httpx2.Request:
        """Return the request for httpx2. Raises ToolConnectionError for a host that is no name and no address."""
        query = "&".join(f"{name}={value}" for name, value in self.query)
        texts = {**self.headers, "Cookie": "; ".join(self.cookies)} if self.cookies else self.headers
        headers = {name.encode(): text.encode("latin-1") for name, text in texts.items()}  # RFC 9110, section 5.5
        try:
            url = httpx2.URL(f"{self.url}?{query}" if query else self.url)
        except httpx2.InvalidURL:
            raise ToolConnectionError("The address of the service cannot be used.") from None
        request = httpx2.Request(self.method, url, headers=headers, **self.content)
        request.read()
        return request


def build_request(request: HTTPRequest, arguments: Mapping[str, Any]) -> BuiltRequest:
    """Return the request of a call. Raises ToolError, for the model, for a value that has no place in a request."""
    places = {name: request.find_argument(name) for name in arguments}
    placed = [(name, place, arguments[name]) for name, place in places.items() if place is not None]
    _refuse_second_values(request, placed)
    headers, cookies = {**_DEFAULT_HEADERS, **{name.title(): text for name, text in request.headers.items()}}, []
    for name, place, value in placed:
        if place.location == "header" and value is not None:
            headers[place.name.title()] = _checked_header(name, header_text(place, value))
        elif place.location == "cookie" and value is not None:
            cookies.append(f"{place.name}={cookie_text(value)}")
    content = _build_body(request, [item for item in placed if item[1].location in {"body", "whole-body"}])
    if content and "files" not in content:
        is_list = any(place.location == "whole-body" and isinstance(value, list) for _, place, value in placed)
        headers["Content-Type"] = (is_list and request.list_content_type) or _content_type(request)
    return BuiltRequest(
        method=request.method,
        url=request.base_url + _build_path(request, placed),
        query=_build_query(request, placed),
        headers=headers,
        cookies=tuple(cookies),
        content=content,
    )


def _refuse_second_values(request: HTTPRequest, placed: Iterable[Placed]) -> None:
    """Refuse an argument of an open schema that would be sent in the place of another one."""
    taken = {(item.location, item.name) for item in request.arguments.values()}
    taken |= {("query", name) for name, _ in request.query}
    taken |= {("query", name) for name in request.secret_query_names}
    for name, place, _ in placed:
        if name not in request.arguments and (place.location, place.name) in taken:
            raise ToolError(f"Invalid arguments: {name!r} is not accepted.")


def _build_path(request: HTTPRequest, placed: Iterable[Placed]) -> str:
    texts = {place.name: _path_value(name, place, value) for name, place, value in placed if place.location == "path"}

    def fill(match: re.Match[str]) -> str:
        if match[1] not in texts:
            raise ToolError(f"Invalid arguments: {match[1]!r} is missing.")
        return texts[match[1]]

    path = _PLACE.sub(fill, request.path)
    for segment in path.split("/"):
        if unquote(segment) in {".", ".."}:
            raise ToolError("Invalid arguments: a part of the path would be '.' or '..'.")
    return path


def _path_value(name: str, place: HTTPArgument, value: Any) -> str:
    for text in _texts_in(value):
        decoded = text
        for _ in range(_MAX_DECODINGS):
            decoded = unquote(decoded)
        if any(ord(char) < ord(" ") for char in decoded):
            raise ToolError(f"Invalid arguments: {name!r} must not contain control characters.")
        if not {".", ".."}.isdisjoint(re.split(r"[/\\;]", decoded)):
            raise ToolError(f"Invalid arguments: {name!r} must not contain the path segments '.' and '..'.")
    encoded = path_text(place, value)
    if value is None or not encoded:
        raise ToolError(f"Invalid arguments: {name!r} must not be empty.")
    return encoded


def _texts_in(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        value = [part for item in value.items() for part in item]
    return (to_text(item) for item in value) if isinstance(value, list) else (to_text(value),)


def _build_query(request: HTTPRequest, placed: Iterable[Placed]) -> tuple[Pair, ...]:
    fixed = [(percent_encode(name), percent_encode(value)) for name, value in request.query]
    taken = {name for name, _ in fixed} | {percent_encode(name) for name in request.secret_query_names}
    own = [item for item in placed if item[1].location == "query"]
    return (*fixed, *_own_pairs(own, taken | _encoded_names(request, "query")))


def _encoded_names(request: HTTPRequest, location: Location) -> set[str]:
    return {percent_encode(item.name) for item in request.arguments.values() if item.location == location}


def _own_pairs(placed: Iterable[Placed], taken: Container[str]) -> Iterable[Pair]:
    """Yield the names and values of arguments. Raises ToolError for an object with the name of another parameter."""
    for name, place, value in placed:
        for key, text in query_pairs(place, value):
            if key in taken and key != percent_encode(place.name):
                raise ToolError(f"Invalid arguments: {name!r} contains the name of another parameter.")
            yield key, text


def _checked_header(name: str, text: str) -> str:
    text = text.strip()
    if not is_header_text(text):
        raise ToolError(f"The value of {name!r} cannot be sent in a header: it has control or unusual characters.")
    return text


def _content_type(request: HTTPRequest) -> str:
    defaults = {"json": "application/json", "form": _FORM_TYPE, "text": "text/plain; charset=utf-8"}
    return request.body_content_type or defaults.get(request.body_type, "application/octet-stream")


def _build_body(request: HTTPRequest, placed: list[Placed]) -> Mapping[str, Any]:
    """Return the body as a keyword argument of `httpx2.Request`; empty for none."""
    whole = [item for item in placed if item[1].location == "whole-body"]
    if whole:
        return _encode_whole(request, *whole[0])
    has_members = request.other_arguments == "body" or any(
        item.location == "body" for item in request.arguments.values()
    )
    if not placed and not (has_members and request.method in METHODS_WITH_BODY):
        return {}
    return _encode_members(request, placed)


def _encode_whole(request: HTTPRequest, name: str, place: HTTPArgument, value: Any) -> Mapping[str, Any]:
    if request.body_type == "json":
        return {"content": to_json(value).encode()}
    if request.body_type == "binary":
        return {"content": _decode_base64(name, value)}
    if isinstance(value, dict) and request.body_type in {"form", "multipart"}:
        known = request.body_members
        return _encode_members(
            request,
            [(key, known.get(key) or replace(place, location="body", name=key), item) for key, item in value.items()],
        )
    return {"content": to_text(value).encode()}


def _encode_members(request: HTTPRequest, placed: Collection[Placed]) -> Mapping[str, Any]:
    if request.body_type == "json":
        return {"content": to_json({place.name: value for _, place, value in placed}).encode()}
    taken = _encoded_names(request, "body") | {percent_encode(place.name) for _, place, _ in placed}
    if request.body_type == "multipart":
        return {"files": [part for item in placed for part in _encode_part(*item, taken)]}
    placed = [(name, _form_place(place, value), value) for name, place, value in placed]
    pairs = _own_pairs(placed, taken)
    return {"content": "&".join(f"{name}={value}" for name, value in pairs).encode()}


def _form_place(place: HTTPArgument, value: Any) -> HTTPArgument:
    """Return how a member of a form is written: an object is JSON unless a style is named."""
    is_json = isinstance(value, dict) and place.style is None
    return replace(place, content_type="application/json") if is_json else place


def _encode_part(
    name: str, place: HTTPArgument, value: Any, taken: Container[str]
) -> list[tuple[str, tuple[Any, ...]]]:
    """Return the parts of a multipart body for one argument: several for a list."""
    if value is None:
        return []
    if place.style is not None:
        pairs = _own_pairs([(name, replace(place, content_type=None), value)], taken)
        return [(unquote(key), (None, unquote(text).encode())) for key, text in pairs]
    is_json_list = place.content_type is not None and "json" in place.content_type and not place.is_file
    if isinstance(value, list) and not is_json_list:
        return [part for item in value for part in _encode_part(name, place, item, taken)]
    if place.is_file:
        return [(place.name, _encode_file(name, place, value))]
    content_type = place.content_type or ("application/json" if isinstance(value, dict) else None)
    text = to_text(value).encode()
    return [(place.name, (None, text) if content_type is None else (None, text, content_type))]


def _encode_file(name: str, place: HTTPArgument, value: Any) -> tuple[str, bytes, str]:
    """Return the name, the content and the media type of a file."""
    given = value if isinstance(value, dict) else {"content": value}
    filename = given.get("filename") or place.name
    if not isinstance(filename, str) or not filename.isprintable():
        raise ToolError(f"Invalid arguments: the filename of {name!r} must be a text of printable characters.")
    return filename, _decode_base64(name, given.get("content")), _file_type(place.content_type or "*/*", filename)


def _file_type(accepted: str, filename: str) -> str:
    """Return the media type that the name of a file has if it is accepted, else the first accepted one."""
    patterns = [item.partition(";")[0].strip() for item in accepted.split(",")]
    guessed = mimetypes.guess_type(filename)[0]
    if guessed is not None and any(fnmatch.fnmatchcase(guessed, pattern) for pattern in patterns):
        return guessed
    return next((item.strip() for item in accepted.split(",") if "*" not in item), "application/octet-stream")


def _decode_base64(name: str, value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise ToolError(f"Invalid arguments: {name!r} must be base64.") from None


def choose_security(
    request: HTTPRequest, arguments: Mapping[str, Any], tool: str, *, is_remote: bool = False
) -> tuple[Security, ...]:
    """Return what is sent with a request. Raises ToolConnectionError if no alternative has all its credentials.

    `is_remote`: secret bindings of a toolkit do not reach the tool, which the error says.
    """
    given = {name for name in request.credential_parameters if reveal_secrets(arguments.get(name)) is not None}
    chosen = request.choose_security(given)
    if chosen is not None:
        return chosen
    names = [[name for item in items for name in item.parameters] for items in request.alternatives]
    if len(names) == 1:
        missing = next(name for name in names[0] if name not in given)
        raise _credential_error(tool, missing, _NO_VALUE + (_NO_SECRETS if is_remote else ""))
    listed = ", or ".join(" and ".join(map(repr, alternative)) for alternative in names)
    raise ToolConnectionError(
        NO_CREDENTIALS,
        tool=tool,
        explanation=f"The tool {tool!r} needs a value for {listed}. Bind one of these alternatives to keys of the "
        "state, or pass its credentials when you make the tool (`auth` of an OpenAPI document)"
        + (_NO_SECRETS if is_remote else "")
        + ".",
        is_temporary=False,
    )


def read_credentials(security: Iterable[Security], arguments: Mapping[str, Any], tool: str) -> dict[str, str]:
    """Return the credentials by parameter. Raises ToolConnectionError for one that is missing or cannot be sent."""
    security, credentials = list(security), {}
    for parameter in dict.fromkeys(name for item in security for name in item.parameters):
        value = reveal_secrets(arguments.get(parameter))
        if value is None:
            raise _credential_error(tool, parameter, _NO_VALUE)
        if isinstance(value, str) and value != value.strip():
            raise _credential_error(tool, parameter, "begins or ends with a space or a line break: remove it")
        if not isinstance(value, str) or not value or not value.isprintable():
            raise _credential_error(tool, parameter, "is not a text of printable characters")
        credentials[parameter] = value
    _refuse_second_prefix(security, credentials, tool)
    return credentials


def _credential_error(tool: str, parameter: str, problem: str) -> ToolConnectionError:
    explanation = f"The credential {parameter!r} of tool {tool!r} {problem.format(parameter)}."
    return ToolConnectionError(NO_CREDENTIALS, tool=tool, explanation=explanation, is_temporary=False)


def _refuse_second_prefix(security: Iterable[Security], credentials: Mapping[str, str], tool: str) -> None:
    """Raise ToolConnectionError for a credential that begins with what is sent before it, such as `Bearer `."""
    for item in security:
        prefix = item.prefix.lower() if isinstance(item, ApiKey) else ""
        if prefix and credentials[item.parameters[0]].lower().startswith(prefix):
            problem = f"begins with {prefix.strip()!r}, which is sent before it: remove that"
            raise _credential_error(tool, item.parameters[0], problem)


def sign(built: BuiltRequest, item: Security, credentials: Mapping[str, str], secrets: SecretTexts) -> BuiltRequest:
    """Return the request with the credentials of one kind; not with the token of a client, which must be fetched."""
    secrets.add(credentials[item.parameters[-1]])  # what precedes it is the name of a user or client
    if isinstance(item, ClientCredentials):
        return built
    if isinstance(item, Basic):
        pair = base64.b64encode(f"{credentials[item.username]}:{credentials[item.password]}".encode()).decode()
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
            NO_CREDENTIALS,
            explanation=f"{item.parameter!r} has characters that no header takes.",
            is_temporary=False,
        )
    return built.with_header(item.name, item.prefix + key)
