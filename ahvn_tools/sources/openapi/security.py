"""How the requests of a document prove who sends them, and the host's credentials for it."""

from __future__ import annotations

import contextlib
import functools
import keyword
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from ahvn_tools.errors import BindError, DefinitionError, SourceError, clip, near_misses
from ahvn_tools.invisible import escape_line
from ahvn_tools.schema.refs import unused_name
from ahvn_tools.sources.budget import BudgetError
from ahvn_tools.sources.http.checks import check_headers
from ahvn_tools.sources.http.credentials import Credential, credential_binding, parse_credential, read_headers
from ahvn_tools.sources.http.request import (
    ApiKey,
    ApiKeyLocation,
    Basic,
    ClientCredentials,
    Security,
    choose_for_each_place,
)
from ahvn_tools.sources.openapi.document import DocumentError, Node
from ahvn_tools.sources.openapi.options import SchemeCredential
from ahvn_tools.sources.openapi.parameters import argument_name

MAX_SHOWN_CHARS: Final = 200
"""An error shows at most this much of a scheme."""

_HOW: Final = "a security scheme is apiKey, http, oauth2 or openIdConnect. For another one, pass None in `auth`"


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """A security scheme, and the host's credential for it."""

    name: str
    security: Security
    credentials: Mapping[str, Credential] = field(default_factory=dict, repr=False)
    """By the hidden parameters of `security`."""
    is_unused: bool = False
    """Whether the host decided to send nothing."""
    token_url: str | None = None
    """Where the document says that the id and the secret of a client are sent; None: it does not say."""


class SecuritySchemes:
    """The security schemes of a document. One that cannot be used fails the operations that need it."""

    def __init__(self, document: Node, auth: Mapping[str, SchemeCredential], headers: Mapping[str, Credential]) -> None:
        """Raise SourceError for credentials of a scheme that the document does not have, or that do not fit it.

        `headers` are the host's own, sent with each request instead of what a scheme would send there.
        """
        components = document.get("components")
        schemes = None if components is None else components.get("securitySchemes")
        self._nodes: dict[str, Node] = {}
        for name, node in () if schemes is None else schemes.members():
            with contextlib.suppress(DocumentError):  # one that leads nowhere is as one that is missing
                self._nodes[name] = node.resolve()
        self._parameters = _name_parameters(self._nodes)
        self._auth = auth
        self.headers, self.own = _read_own_headers(headers)
        """The host's own headers that are no secrets, and the secret ones."""
        self._own_places = {("header", name.lower()) for name in headers}
        self._read: dict[str, list[list[Scheme]]] = {}
        """What was read, by the place of the alternatives: most operations have those of the document."""
        for name in auth:
            if not self._nodes:
                raise SourceError(
                    f"auth: the document has no security schemes, so there is no {name!r}. Say where the credential is "
                    f"sent: security_schemes={{{name!r}: {{'type': 'http', 'scheme': 'bearer'}}}}, or for all users "
                    "headers={'Authorization': 'Bearer ${NAME}'}."
                )
            if name not in self._nodes:
                raise SourceError(
                    f"The document has no security scheme {name!r}. {near_misses(name, self._nodes)} A scheme that the "
                    "document does not declare is declared in `security_schemes`."
                )
            _check_credentials(f"auth[{name!r}]", self.get(name))

    def get(self, name: str, scopes: Iterable[str] = ()) -> Scheme:
        """Return a scheme; `scopes` are those that an operation needs. Raises DocumentError for an unusable scheme."""
        node = self._nodes[name].require_node(dict)
        credential = self._auth.get(name)
        if self._is_left_out(name, node):
            return Scheme(name=name, security=ApiKey(parameter=self._parameters[name]), is_unused=True)
        security = _read_security(node, self._parameters[name], credential, scopes)
        is_told_by_host = isinstance(credential, Mapping) and "token_url" in credential
        return Scheme(
            name=name,
            security=security,
            credentials={} if credential is None else _to_credentials(name, security, credential),
            token_url=None if is_told_by_host else getattr(security, "token_url", None),
        )

    def _is_left_out(self, name: str, node: Node) -> bool:
        """Return whether the host sends nothing for a scheme of any kind, or its own Authorization instead."""
        if name in self._auth:
            return self._auth[name] is None
        return node.value.get("type") == "http" and ("header", "authorization") in self._own_places

    @functools.cached_property
    def places(self) -> set[tuple[str, str]]:
        """Where credentials are sent: no argument is sent there."""
        places = {("header", "authorization"), *self._own_places}
        for node in self._nodes.values():
            if isinstance(node.value, dict) and node.value.get("type") == "apiKey":
                places.add((str(node.value.get("in")), str(node.value.get("name")).lower()))
        return places

    def refuse_unused(self, requirements: Iterable[Node]) -> None:
        """Raise SourceError for a credential of a scheme that no operation of the document needs.

        `requirements` are the alternatives of all operations.
        """
        needed: set[str] = set()
        for node in requirements:
            with contextlib.suppress(DocumentError):  # its own error says so where the operation is read
                needed |= {name for one in node.items() for name, _ in one.members()}
        for name, credential in self._auth.items():
            if credential is None or name in needed:
                continue
            declared = repr(self._nodes[name].value)
            raise SourceError(
                f"auth: no operation of the document needs the security scheme {name!r}, so its credential is never "
                f"sent. If the document says nothing of security, pass security_schemes={{{name!r}: "
                f"{escape_line(clip(declared, MAX_SHOWN_CHARS))}}}; or pass `headers`, which all requests have."
            )

    def alternatives(self, requirements: Node | None) -> list[list[Scheme]]:
        """Return the alternatives of an operation, each with its schemes; one without schemes is the last.

        What follows an alternative for which the host has given all credentials is left out: no call uses it. Raises
        DocumentError if the document has none of the alternatives, or if none can be used.
        """
        if requirements is None:
            return []
        if requirements.pointer not in self._read:
            self._read[requirements.pointer] = self._read_alternatives(requirements)
        return self._read[requirements.pointer]

    def _read_alternatives(self, requirements: Node) -> list[list[Scheme]]:
        alternatives: list[list[Scheme]] = []
        errors = []
        for node in requirements.items():
            try:
                known = [(name, scopes) for name, scopes in node.members() if name in self._nodes]
                if known or not node.value:  # what the document does not declare, nobody has a credential for
                    required = [self._require(name, scopes) for name, scopes in known]
                    alternatives.append(self._without_unused(required))
            except BudgetError:
                raise
            except SourceError as error:
                errors.append(error)
        if errors and not alternatives:
            raise errors[0]
        alternatives.sort(key=lambda schemes: not schemes)  # one without credentials is used when no other can be
        complete = [bool(schemes) and _is_complete(schemes) for schemes in alternatives]
        return alternatives[: complete.index(True) + 1] if True in complete else alternatives

    def _without_unused(self, schemes: Iterable[Scheme]) -> list[Scheme]:
        """Return the schemes of an alternative without those that the host's headers replace, or that it left out."""
        return [one for one in schemes if not one.is_unused and one.security.place not in self._own_places]

    def _require(self, name: str, scopes: Node) -> Scheme:
        return self.get(name, [item.require(str) for item in scopes.items()])


def _name_parameters(names: Iterable[str]) -> dict[str, str]:
    """Return the hidden parameters of schemes: their own names if they are Python's, else with `_` for what is not."""
    taken = {"arguments"}  # of all arguments, in the body of a tool
    parameters: dict[str, str] = {}
    for name in sorted(names, key=lambda name: not _is_parameter_name(name)):
        own = re.sub(r"\W", "_", argument_name(name, "", ()), flags=re.ASCII)
        parameters[name] = unused_name(f"{own}_" if keyword.iskeyword(own) else own, taken)
        taken.add(parameters[name])
    return parameters


def _is_parameter_name(name: str) -> bool:
    return name.isidentifier() and name.isascii() and not keyword.iskeyword(name)


def _check_credentials(name: str, scheme: Scheme) -> None:
    """Raise SourceError for a credential that is a plain text, and for a function with wrong parameters."""
    parameters = scheme.security.parameters
    for parameter, value in scheme.credentials.items():
        may_be_plain = len(parameters) > 1 and parameter == parameters[0]  # the name of a user or client
        try:
            credential_binding(parameter, parse_credential(parameter, value, may_be_plain=may_be_plain))
        except (DefinitionError, BindError) as error:
            raise SourceError(f"{name}: {error}") from None


def _is_complete(schemes: Iterable[Scheme]) -> bool:
    """Return whether the host has given the credentials of an alternative."""
    schemes = list(schemes)
    given = {name for one in schemes for name in one.credentials}
    return choose_for_each_place([one.security for one in schemes], given) is not None


def _read_own_headers(headers: Mapping[str, Credential]) -> tuple[dict[str, str], list[Scheme]]:
    """Return the host's headers that are no secrets, and the secret ones. Raises SourceError for unusable ones."""
    try:
        plain, secret = read_headers(headers)
        check_headers("the document", plain, [key.name for key in secret])
    except DefinitionError as error:
        raise SourceError(f"headers: {error}") from None
    own = [Scheme(name=key.name, security=key, credentials={key.parameter: value}) for key, value in secret.items()]
    for scheme in own:
        _check_credentials(f"headers[{scheme.name!r}]", scheme)
    return plain, own


def _read_security(node: Node, parameter: str, credential: SchemeCredential, scopes: Iterable[str]) -> Security:
    kind = node.read("type", str, "")
    if kind == "apiKey":
        location, name = node.read("in", str, ""), node.read("name", str, "")
        if location not in {"header", "query", "cookie"} or not name:
            raise node.error("an API key needs a `name`, and is `in` header, query or cookie.")
        return ApiKey(location=cast("ApiKeyLocation", location), name=name, parameter=parameter)
    if kind == "http":
        return _read_http(node, parameter)
    if kind in {"oauth2", "openIdConnect"}:
        flows = node.get("flows")
        flow = None if flows is None else flows.get("clientCredentials")
        if flow is not None and (credential is None or isinstance(credential, Mapping)):
            return _read_client_credentials(flow, parameter, credential or {}, " ".join(scopes))
        return ApiKey(prefix="Bearer ", parameter=parameter)
    raise (node.get("type") or node).error(f"{kind!r} is not supported; {_HOW}.")


def _read_http(node: Node, parameter: str) -> Security:
    name = node.read("scheme", str, "").lower()
    if name == "bearer":
        return ApiKey(prefix="Bearer ", parameter=parameter)
    if name == "basic":
        return Basic(username=f"{parameter}_username", password=f"{parameter}_password")
    raise (node.get("scheme") or node).error(
        f"the HTTP scheme {name!r} is not supported; use bearer or basic. "
        "Or pass the header: headers={'Authorization': '${NAME}'}."
    )


def _read_client_credentials(flow: Node, parameter: str, given: Any, scope: str) -> ClientCredentials:
    token_url = given.get("token_url") or flow.read("tokenUrl", str, "")
    if not token_url:
        raise flow.error("a flow with client credentials needs a `tokenUrl`.")
    return ClientCredentials(
        token_url=token_url,
        scope=given.get("scope", scope),
        audience=given.get("audience", ""),
        client_id=f"{parameter}_client_id",
        client_secret=f"{parameter}_client_secret",
    )


def _to_credentials(name: str, security: Security, credential: Any) -> dict[str, Credential]:
    """Return the credentials by the hidden parameters. Raises SourceError for those that do not fit the scheme."""
    if isinstance(security, ApiKey):
        if isinstance(credential, Mapping):
            raise SourceError(f"auth[{name!r}] is one key or token, such as '${{API_KEY}}', not a dict.")
        return {security.parameter: credential}
    keys = ("username", "password") if isinstance(security, Basic) else ("client_id", "client_secret")
    allowed = {*keys} if isinstance(security, Basic) else {*keys, "token_url", "scope", "audience"}
    if not isinstance(credential, Mapping) or not {*keys} <= credential.keys() or not credential.keys() <= allowed:
        raise SourceError(f"auth[{name!r}] is a dict with {keys[0]!r} and {keys[1]!r}.")
    return dict(zip(security.parameters, (credential[key] for key in keys), strict=True))
