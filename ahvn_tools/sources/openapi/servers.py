"""The URL that the requests of a document begin with, and the origin that may receive credentials."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, cast
from urllib.parse import urljoin, urlsplit, urlunsplit

from ahvn_tools.errors import DefinitionError, SourceError, near_misses
from ahvn_tools.redaction.credentials import mask_credentials
from ahvn_tools.sources.http.checks import check_base_url as check_url
from ahvn_tools.sources.http.checks import is_address
from ahvn_tools.sources.http.request import HTTPOptions
from ahvn_tools.sources.openapi.document import DocumentError, Node
from ahvn_tools.sources.openapi.operations import Operation
from ahvn_tools.sources.openapi.options import OpenAPIOptions
from ahvn_tools.sources.openapi.security import Scheme

_logger = logging.getLogger(__name__)

_VARIABLE: Final = re.compile(r"\{([^{}]+)\}")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def origin_of(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port of a URL."""
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or _DEFAULT_PORTS.get(parts.scheme)


def _without_credentials(url: str) -> str:
    """Return a URL without user, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def check_base_url(url: str) -> str:
    """Return the URL without a slash at its end. Raises SourceError for anything but an absolute HTTP URL."""
    parts = urlsplit(url)
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or parts.query or parts.fragment:
        raise SourceError(f"base_url is an address such as 'https://api.example/v1', not {mask_credentials(url)!r}.")
    return url.rstrip("/")


class _ElsewhereError(SourceError):
    """Credentials of the host would be sent to a server that it has not chosen."""


class _VariableError(SourceError):
    """The host's value of a variable is not one that the server allows."""


def _own_servers(operation: Operation) -> Node | None:
    """Return the servers of an operation, or of its path, if it does not use those of the document."""
    return operation.node.get("servers") or operation.path_item.get("servers")


class Servers:
    """The servers of a document. Credentials are sent only to origins that the host has chosen.

    The host chooses with `base_url`, by passing a document of its own, or by the URL of the document.
    """

    def __init__(self, root: Node, options: OpenAPIOptions) -> None:
        """Raise SourceError for a `base_url` that is none."""
        self._root = root
        document_url = options.get("document_url")
        self._document_url = None if document_url is None else _without_credentials(document_url)
        self._variables = options.get("variables") or {}
        self._http = cast("HTTPOptions", options["http"])
        base_url = options.get("base_url")
        self._known_variables: set[str] = set()
        self._urls: dict[str, str] = {}
        """By the place of the servers: most operations have those of the document."""
        self._base_url = None if base_url is None else check_base_url(base_url)

    def url_of(self, operation: Operation) -> str:
        """Return the URL that the requests of an operation begin with; empty if it is not known."""
        return self._base_url or self._find_url(operation)

    def keep_trusted(self, operation: Operation, schemes: Iterable[Scheme]) -> list[Scheme]:
        """Return the schemes whose credentials may be sent to the server of an operation.

        Raises SourceError for credentials of the host that a document from a URL would have sent to another origin;
        DocumentError if it is the server of this operation alone.
        """
        url = self.url_of(operation)
        try:
            return [scheme for scheme in schemes if self._is_trusted(url, scheme)]
        except _ElsewhereError:
            if self._base_url is None and (own := _own_servers(operation)) is not None:
                raise own.error(
                    f"credentials would be sent to {url}, which is not the server of the document. To use this "
                    "operation, load it alone with `operations` and this `base_url`."
                ) from None
            raise

    def refuse_unknown_variables(self) -> None:
        """Raise SourceError for a variable that no server of the tools has."""
        for name in self._variables if self._base_url is None else ():
            if name not in self._known_variables:
                near = near_misses(name, self._known_variables)
                raise SourceError(f"variables: no server's URL has the variable {name!r}. {near}")

    def http_options(self, url: str) -> HTTPOptions:
        """Return how requests to a URL are sent. A private address is allowed if the host itself has named it."""
        http = self._http
        host = urlsplit(url).hostname or ""
        named = [urlsplit(own).hostname for own in (self._base_url, self._document_url) if own is not None]
        if http.allow_private is True or host not in named or not is_address(host):
            return http
        return replace(http, allow_private=(*(http.allow_private or ()), host))

    def _is_trusted(self, url: str, scheme: Scheme) -> bool:
        if urlsplit(url).scheme == "http" and not scheme.credentials and not self.http_options(url).allow_private:
            return False
        if self._document_url is None:
            return True
        trusted = [origin_of(own) for own in (self._base_url, self._document_url) if own is not None]
        for receiver, fix in ((url, "base_url"), (scheme.token_url, f"auth[{scheme.name!r}]['token_url']")):
            if receiver is None or origin_of(receiver) in trusted:
                continue
            if scheme.credentials:
                raise (_ElsewhereError if receiver is url else SourceError)(
                    f"The document from {self._document_url} would have credentials sent to {receiver}, which is "
                    f"elsewhere. If that is right, say so: {fix} = {receiver!r}."
                )
            return False
        return True

    def _find_url(self, operation: Operation) -> str:
        own = _own_servers(operation)
        nodes = own or self._root.get("servers")
        if nodes is None or not nodes.value:
            nodes = Node(document=self._root.document, value=[{"url": "/"}], pointer="#/servers")
        if nodes.pointer not in self._urls:
            try:
                self._urls[nodes.pointer] = self._choose_url(nodes)
            except _VariableError as error:  # the variables of the host are those of the document's servers
                raise SourceError(str(error)) if own is None else own.error(str(error)) from None
        return self._urls[nodes.pointer]

    def _choose_url(self, nodes: Node) -> str:
        """Return the URL of the first server that can be called; empty, with a warning, if there is none."""
        errors = []
        try:
            for server in nodes.items():
                with contextlib.suppress(DocumentError):
                    variables = server.get("variables")
                    self._known_variables.update(() if variables is None else variables.require(dict))
                try:
                    return server_url(server, self._document_url, self._variables)
                except DocumentError as error:
                    errors.append(error)
        except DocumentError as error:
            errors.append(error)
        _logger.warning("Calls fail without base_url='https://…': %s", errors[0])
        return ""


def server_url(server: Node, document_url: str | None, variables: Mapping[str, str]) -> str:
    """Return the URL of a server; empty if it is relative to the URL of the document, which is not known.

    Raises DocumentError for one that cannot be called.
    """
    server.require(dict)
    values = _read_variables(server, variables)
    template = server.read("url", str, "").strip()

    def replace(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise server.error(
                f"the variable {match[1]!r} of its url has no default: pass variables={{{match[1]!r}: …}}."
            )
        server.document.budget.spend(chars=len(values[match[1]]))
        return values[match[1]]

    url = _VARIABLE.sub(replace, template)
    try:
        if document_url is not None:
            url = urljoin(document_url, url)
        if url.startswith("//"):
            url = f"https:{url}"
        parts = urlsplit(url)
    except ValueError:
        raise server.error("its url cannot be read: pass base_url='https://…'.") from None
    if not parts.scheme and not parts.netloc:
        return ""
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise server.error(f"the url {url!r} is not one of HTTP: pass base_url='https://…'.")
    url = url.partition("#")[0].partition("?")[0].rstrip("/")
    try:
        check_url(url)
    except DefinitionError as error:
        raise server.error(str(error)) from None
    return url


def _read_variables(server: Node, given: Mapping[str, str]) -> dict[str, str]:
    declared = server.get("variables")
    values: dict[str, str] = {}
    for name, node in () if declared is None else declared.members():
        variable = node.resolve().require_node(dict)
        default = variable.get("default")
        if name in given:
            allowed = variable.read("enum", list, [])
            if allowed and given[name] not in allowed:
                raise _VariableError(f"variables: {name!r} is one of {allowed}, not {given[name]!r}.")
            values[name] = str(given[name])
        elif default is not None:
            values[name] = str(default.value)
    return values
