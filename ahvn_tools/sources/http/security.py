"""How a request proves who sends it: frozen values that name the parameters with the credentials, and contain none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

ApiKeyLocation = Literal["header", "query", "cookie"]


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

    @property
    def parameters(self) -> tuple[str, ...]:
        """The hidden parameters with credentials."""
        return (self.client_id, self.client_secret)

    @property
    def sent_as(self) -> str:
        """Where and how the credentials are sent, for people."""
        return f"header Authorization: Bearer …, with a token from {self.token_url.partition('?')[0]}"


Security: TypeAlias = ApiKey | Basic | ClientCredentials
