"""HTTPRequest: a request with places for arguments and credentials, as a frozen value that contains none of them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Literal, TypeAlias

from ahvn_tools.json_types import JsonObject

ApiKeyLocation = Literal["header", "query", "cookie"]

_AUTHORIZATION: Final = ("header", "authorization")


@dataclass(frozen=True, kw_only=True)
class ApiKey:
    """A key or a token in a header, in the query or in a cookie."""

    location: ApiKeyLocation = "header"
    name: str = "Authorization"
    """The name of the header, the query parameter or the cookie."""
    prefix: str = ""
    """What precedes the key, such as `Bearer `."""
    parameter: str = "api_key"
    """The hidden parameter of the tool with the key."""

    @property
    def place(self) -> tuple[str, str]:
        """The location and the name, of a header in lower case, of what carries the credential."""
        return self.location, self.name.lower() if self.location == "header" else self.name

    @property
    def parameters(self) -> tuple[str, ...]:
        """The hidden parameters with credentials."""
        return (self.parameter,)

    @property
    def sent_as(self) -> str:
        """Where and how the credentials are sent, for people."""
        return f"{self.location} {self.name}" + (f": {self.prefix.strip()} …" if self.prefix else "")


@dataclass(frozen=True, kw_only=True)
class Basic:
    """A user name and a password: RFC 7617."""

    username: str = "username"
    """The hidden parameter with the name of the user."""
    password: str = "password"  # noqa: S105  # the name of a parameter
    """The hidden parameter with the password."""
    place: ClassVar[tuple[str, str]] = _AUTHORIZATION

    @property
    def parameters(self) -> tuple[str, ...]:
        """The hidden parameters with credentials."""
        return (self.username, self.password)

    @property
    def sent_as(self) -> str:
        """Where and how the credentials are sent, for people."""
        return "header Authorization: Basic …"


ClientAuthentication = Literal["client_secret_basic", "client_secret_post"]


@dataclass(frozen=True, kw_only=True)
class ClientCredentials:
    """OAuth's client credentials grant: a bearer token from a token endpoint. RFC 6749, section 4.4."""

    token_url: str
    scope: str = ""
    """Separated by spaces."""
    audience: str = ""
    """A parameter of the token request that some providers require; empty: not sent."""
    authentication: ClientAuthentication = "client_secret_basic"
    """Where the token request has the client's id and secret: in a header, or in its body."""
    client_id: str = "client_id"
    """The hidden parameter with the id of the client."""
    client_secret: str = "client_secret"  # noqa: S105  # the name of a parameter
    """The hidden parameter with the secret of the client."""
    place: ClassVar[tuple[str, str]] = _AUTHORIZATION

    @property
    def parameters(self) -> tuple[str, ...]:
        """The hidden parameters with credentials."""
        return (self.client_id, self.client_secret)

    @property
    def sent_as(self) -> str:
        """Where and how the credentials are sent, for people."""
        return f"header Authorization: Bearer …, with a token from {self.token_url.partition('?')[0]}"


Security: TypeAlias = ApiKey | Basic | ClientCredentials


Location = Literal["path", "query", "header", "cookie", "body", "whole-body"]
"""Where an argument is sent: `body` is a member of the body, `whole-body` the body itself."""

Style = Literal["simple", "label", "matrix", "form", "spaceDelimited", "pipeDelimited", "deepObject"]
"""How a list or an object is written: OpenAPI's `style`."""

BodyType = Literal["json", "form", "multipart", "text", "binary"]
"""How the body is encoded. A binary body, and a file in a multipart one, is base64 in the argument."""

IDEMPOTENT_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
READ_ONLY_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
METHODS = READ_ONLY_METHODS | METHODS_WITH_BODY | {"DELETE"}


@dataclass(frozen=True, kw_only=True)
class HTTPArgument:
    """Where an argument of the tool is sent."""

    location: Location
    name: str
    """Its name on the wire: of the query parameter, the header, the member of the body, or in the path template."""
    style: Style | None = None
    """None: OpenAPI's default of the location: `form` in the query and in cookies, else `simple`."""
    explode: bool | None = None
    """None: OpenAPI's default of the style: True for `form`, else False."""
    is_file: bool = False
    """Whether a member of a multipart body is a file. The argument is its content as base64, or an object with
    `content` and `filename`."""
    content_type: str | None = None
    """The media type of a member of a multipart body; of a file, perhaps several, of which the name of the file selects
    one. Elsewhere, `application/json`: the value is sent as JSON text."""
    allow_reserved: bool = False
    """Whether reserved characters that mean nothing in a query, such as `/` and `:`, are sent as they are."""
    is_declared: bool = False
    """Whether a model may set this header or cookie, because an OpenAPI document declares it."""

    @property
    def is_hidden(self) -> bool:
        """Whether a model never sets it: it is bound."""
        return self.location in {"header", "cookie"} and not self.is_declared


@dataclass(frozen=True, kw_only=True)
class HTTPRequest:
    """A request with places for arguments. It contains no credential and no value of an argument.

    An argument without a place goes to `other_arguments`.
    """

    method: str
    base_url: str
    """Scheme, host, port and the beginning of the path, as in `https://api.example/v1`; no argument changes it. Empty:
    it is not known, and calls fail."""
    path: str = ""
    """The rest of the path, which begins with `/`, with templates for the arguments: `/users/{user_id}/notes`."""
    arguments: Mapping[str, HTTPArgument] = field(default_factory=dict)
    """Arguments by the names of the tool's parameters."""
    other_arguments: Literal["query", "body"] | None = None
    """Where arguments go that `arguments` does not have, by their own names; None: there are none."""
    body_type: BodyType = "json"
    body_content_type: str | None = None
    """The media type of the body, such as `application/vnd.api+json`; None: that of `body_type`."""
    list_content_type: str | None = None
    """The media type of a body that is a list, such as `application/json-patch+json`; None: the same."""
    body_members: Mapping[str, HTTPArgument] = field(default_factory=dict)
    """How members are written of a form that is one argument, by their names."""
    query: tuple[tuple[str, str], ...] = ()
    """Query parameters of every request."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of every request. They are not secret: a credential belongs to `security`."""
    described_statuses: tuple[str, ...] = ()
    """The statuses whose responses the output schema describes, such as `200` and `2XX`; empty: all."""
    other_content: JsonObject | None = None
    """The structured content of a response without a body, and of one with another status; None: they must fit the
    output schema, too."""
    security: tuple[Security, ...] = ()
    """All of these are sent."""
    alternatives: tuple[tuple[Security, ...], ...] = ()
    """One of these is sent as well: the first that has all its credentials. Of the members of one that use the same
    header, query parameter or cookie, the first with credentials is sent."""

    @property
    def all_security(self) -> tuple[Security, ...]:
        """What may be sent."""
        return tuple(dict.fromkeys([*self.security, *(item for items in self.alternatives for item in items)]))

    @property
    def credential_parameters(self) -> tuple[str, ...]:
        """The hidden parameters with credentials."""
        return tuple(dict.fromkeys(name for item in self.all_security for name in item.parameters))

    def choose_security(self, given: Container[str]) -> tuple[Security, ...] | None:
        """Return what is sent if these parameters have values; None if no alternative has all its credentials."""
        found = [sent for items in self.alternatives if (sent := choose_for_each_place(items, given)) is not None]
        if self.alternatives and not found:
            return None
        return (*self.security, *next((sent for sent in found if sent), ()))

    @property
    def secret_query_names(self) -> tuple[str, ...]:
        """The query parameters with credentials."""
        return tuple(item.name for item in self.all_security if isinstance(item, ApiKey) and item.location == "query")

    def describes(self, status: int) -> bool:
        """Whether the output schema describes the responses with a status."""
        return not self.described_statuses or not {str(status), "2XX"}.isdisjoint(self.described_statuses)

    def find_argument(self, name: str) -> HTTPArgument | None:
        """Return where an argument is sent; None: nowhere."""
        if name in self.arguments:
            return self.arguments[name]
        return None if self.other_arguments is None else HTTPArgument(location=self.other_arguments, name=name)

    def with_places(self, names: Iterable[str]) -> HTTPRequest:
        """Return the request with the places of these arguments in `arguments`."""
        places = {name: place for name in names if (place := self.find_argument(name)) is not None}
        return replace(self, arguments={**self.arguments, **places})

    def hidden_parameters(self, visible: Iterable[str]) -> tuple[str, ...]:
        """Return the parameters that no model sets: those in headers and cookies, credentials, and those not visible.

        `visible` are the properties of the tool's input schema.
        """
        known = frozenset(visible)
        hidden = [name for name, item in self.arguments.items() if item.is_hidden or name not in known]
        return (*hidden, *self.credential_parameters)


def choose_for_each_place(items: Iterable[Security], given: Container[str]) -> tuple[Security, ...] | None:
    """Return the first with credentials of those that use the same place; None if none of them has its credentials."""
    chosen: dict[tuple[str, str], Security | None] = {}
    for item in items:
        if chosen.get(item.place) is None:
            chosen[item.place] = item if all(name in given for name in item.parameters) else None
    found = [item for item in chosen.values() if item is not None]
    return tuple(found) if len(found) == len(chosen) else None


@dataclass(frozen=True, kw_only=True)
class HTTPOptions:
    """How a request is sent, and what is accepted as its response."""

    timeout: float | None = 30.0
    """Seconds that all attempts and the waits between them may take."""
    connect_timeout: float = 10.0
    """Seconds to connect, for each attempt."""
    retry_count: int = 3
    """How often a failed request is sent again."""
    retry_delay: float = 1.0
    """Seconds before the first repetition; then twice as long each time."""
    is_repeatable: bool = False
    """Whether the request may be sent again although the server may have processed it."""
    max_response_bytes: int = 10_000_000
    """The size of a response, uncompressed."""
    follow_redirects: bool | Literal["same-origin"] = "same-origin"
    """Whether redirects are followed; to another origin only with True, and then without credentials and headers."""
    allow_private: bool | tuple[str, ...] = False
    """Whether private, loopback and link-local addresses may be used: any, or those of these hosts and networks."""
    ca_file: str | None = None
    """A file with the certificates that are trusted, in PEM form; None: the system's."""
    proxy: str | None = None
    """The URL of a proxy; `"environment"`: what the environment says, such as HTTPS_PROXY; None: no proxy."""
