"""What must hold for a request before it can be a tool, and which addresses it may be sent to."""

from __future__ import annotations

import fnmatch
import ipaddress
import keyword
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from ahvn_tools.errors import DefinitionError, near_misses
from ahvn_tools.redaction.names import is_secret_name
from ahvn_tools.settings import is_count, is_duration
from ahvn_tools.sources.http.request import METHODS, ApiKey, ClientCredentials, HTTPOptions, HTTPRequest

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_SPECIAL_NETWORKS: Final[tuple[Network, ...]] = tuple(
    map(
        ipaddress.ip_network,
        (
            "168.63.129.16/32",  # the metadata service of Azure
            "192.0.0.0/24",
            "192.88.99.0/24",
            "64:ff9b:1::/48",  # embeds private addresses
            "100::/64",
            "2001::/23",
            "5f00::/16",
            "fec0::/10",
        ),
    )
)
"""Networks that are not public although Python calls some of them global: IANA's registries of special addresses."""

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


class AllowedAddresses:
    """The addresses that requests may be sent to."""

    def __init__(self, allow_private: bool | Iterable[str]) -> None:
        """`allow_private`: any address, or public ones and those of these hosts (`*.acme.internal`) and networks.

        Raises DefinitionError for an entry that is neither.
        """
        self._allows_all = allow_private is True
        entries = [] if isinstance(allow_private, bool) else list(allow_private)
        networks = {entry: network for entry in entries if (network := _to_network(entry)) is not None}
        self._networks = tuple(networks.values())
        self._hosts = tuple(entry.lower().rstrip(".") for entry in entries if entry not in networks)

    def allows(self, host: str, address: Address) -> bool:
        """Return whether a request to `host` may be sent to an address of it."""
        if self._allows_all or any(fnmatch.fnmatchcase(host.lower().rstrip("."), pattern) for pattern in self._hosts):
            return True
        return (
            is_public(address) or any(address in network for network in self._networks) or self._allows_inner(address)
        )

    def _allows_inner(self, address: Address) -> bool:
        inner = embedded_address(address)
        return inner is not None and any(inner in network for network in self._networks)


def is_public(address: Address) -> bool:
    """Return whether an address belongs to the public internet, also the IPv4 address that it embeds."""
    inner = embedded_address(address)
    if inner is not None:
        return is_public(inner)
    is_special = any(address in network for network in _SPECIAL_NETWORKS)
    return address.is_global and not (address.is_multicast or address.is_reserved or is_special)


def embedded_address(address: Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address that an IPv6 address stands for: mapped, compatible, 6to4 or NAT64."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    value = int(address)
    if address in _NAT64 or (value >> 32 == 0 and value > 1):
        return ipaddress.IPv4Address(value & 0xFFFF_FFFF)
    return None


def is_address(host: str) -> bool:
    """Return whether a host is `localhost`, or an address and not a name, which its owner could let lead anywhere."""
    return host == "localhost" or re.fullmatch(r"[0-9.]+|.*:.*", host) is not None


def _to_network(entry: str) -> Network | None:
    """Return the network of an entry; None for the name of a host."""
    if not entry or "://" in entry:
        raise DefinitionError(f"allow_private lists hosts and networks, such as '10.0.0.0/8', and not {entry!r}.")
    try:
        return ipaddress.ip_network(entry)
    except ValueError:
        if "/" in entry:
            raise DefinitionError(f"{entry!r} in allow_private is no network: write it as '10.0.0.0/8'.") from None
        return None


_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A name of a header or a cookie: RFC 9110, section 5.6.2."""

_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")

_PLACE = re.compile(r"\{([^{}]*)\}")

_RESERVED_HEADERS = frozenset({
    "accept-encoding", "connection", "content-length", "expect", "host", "keep-alive", "te", "trailer",
    "transfer-encoding", "upgrade",
})  # fmt: skip
"""Headers that belong to the connection."""


def check_request(name: str, request: HTTPRequest, hidden: Iterable[str], options: HTTPOptions) -> None:
    """Raise DefinitionError for a request that cannot be sent as it is described, and for wrong options.

    `hidden` are the parameters that no model sets.
    """
    if request.method not in METHODS:
        near = near_misses(request.method, sorted(METHODS))
        raise DefinitionError(f"{request.method!r} is not a method of {name!r}. {near}")
    if request.base_url:
        check_base_url(request.base_url)
    _check_path(name, request)
    _check_places(name, request)
    _check_parameters(name, request, hidden)
    _check_query(name, request)
    _check_headers(name, request)
    _check_security(name, request, options)
    check_sending(options)


def is_header_text(text: str) -> bool:
    """Return whether a header can have this value: Latin-1 without control characters, as in RFC 9110, section 5.5."""
    return _HEADER_VALUE.fullmatch(text) is not None


def check_base_url(url: str) -> None:
    """Raise DefinitionError unless a URL has a scheme, a host and perhaps a path, and nothing else."""
    if any(char.isspace() or not char.isprintable() for char in url):
        raise DefinitionError("The URL of an HTTP tool has spaces or control characters: percent-encode them.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise DefinitionError(f"The URL of an HTTP tool cannot be read: {error}.") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        raise DefinitionError("The URL of an HTTP tool begins with https:// or http:// and a host.")
    if parts.username is not None or parts.password is not None:
        raise DefinitionError("The URL of an HTTP tool has no credentials: use auth_method='basic'.")
    if parts.query or parts.fragment:
        raise DefinitionError("The base of a URL has no query and no fragment.")
    if "{" in parts.netloc or "}" in parts.netloc:
        raise DefinitionError("No argument can change the host of an HTTP tool: write the host without a template.")
    if "{" in parts.path or _has_dot_segment(parts.path):
        raise DefinitionError("The base of a URL has no template and no path segments '.' and '..'.")


def _has_dot_segment(path: str) -> bool:
    return not {".", ".."}.isdisjoint(path.split("/"))


def _check_path(name: str, request: HTTPRequest) -> None:
    places = _PLACE.findall(request.path)
    named = [item.name for item in request.arguments.values() if item.location == "path"]
    rest = _PLACE.sub("x", request.path)
    if (request.path and not request.path.startswith("/")) or not {"{", "}", "?", "#", "\\"}.isdisjoint(rest):
        raise DefinitionError(f"The path of {name!r} must begin with '/', and its templates are like {{user_id}}.")
    if _has_dot_segment(rest) or any(char.isspace() for char in rest):
        raise DefinitionError(f"The path of {name!r} has spaces, or the segments '.' or '..'.")
    if set(places) != set(named):  # one may be in the path twice
        unknown = sorted(set(places) ^ set(named))
        raise DefinitionError(f"The path of {name!r} and its path arguments differ: {', '.join(map(repr, unknown))}.")


def _check_places(name: str, request: HTTPRequest) -> None:
    located: Counter[tuple[str, str]] = Counter(
        (item.location, _wire_key(item.location, item.name)) for item in request.arguments.values()
    )
    located.update(("query", query_name) for query_name, _ in request.query)
    located.update(item.place for item in request.security if isinstance(item, ApiKey))
    located.update({item.place for items in request.alternatives for item in items if isinstance(item, ApiKey)})
    for (location, wire_name), count in located.items():
        if count > 1:
            raise DefinitionError(f"{name!r} sends {wire_name!r} twice ({location}): remove one of them.")
    locations = [location for location, _ in located.elements()]
    has_members = request.other_arguments == "body" or "body" in locations
    if locations.count("whole-body") > 1 or ("whole-body" in locations and has_members):
        raise DefinitionError(f"An argument of {name!r} is the whole body, so there can be no other part of it.")


def _check_parameters(name: str, request: HTTPRequest, hidden: Iterable[str]) -> None:
    for parameter in hidden:
        if not parameter.isidentifier() or keyword.iskeyword(parameter):
            raise DefinitionError(
                f"A header, cookie or credential has a parameter with a Python name: not {parameter!r}."
            )
    for parameter in request.credential_parameters:
        if parameter in request.arguments:
            raise DefinitionError(f"{parameter!r} of {name!r} is an argument and a credential: rename the argument.")


def _wire_key(location: str, name: str) -> str:
    """Return what tells a name on the wire from others: only those of headers may differ in case."""
    return name.lower() if location == "header" else name


def _check_query(name: str, request: HTTPRequest) -> None:
    for query_name, _ in request.query:
        if is_secret_name(query_name):
            raise DefinitionError(
                f"The query of {name!r} has the credential {query_name!r}, which is no plain text: use "
                "auth_method='api_key_query' with api_key='${NAME}'."
            )


def _check_headers(name: str, request: HTTPRequest) -> None:
    named = [item.name for item in request.arguments.values() if item.is_hidden]
    keys = [item.name for item in request.all_security if isinstance(item, ApiKey) and item.location != "query"]
    check_headers(name, request.headers, (*named, *keys))


def check_headers(name: str, headers: Mapping[str, str], others: Iterable[str]) -> None:
    """Raise DefinitionError for headers of every request that cannot be sent; `others` are names of further ones."""
    others = list(others)
    for header in (*headers, *others):
        if not _TOKEN.fullmatch(header) or header.lower() in _RESERVED_HEADERS or header.lower().startswith("proxy-"):
            raise DefinitionError(f"{header!r} cannot be a header of {name!r}: it is not a name, or is set by itself.")
    if "content-type" in {header.lower() for header in (*others, *headers)}:
        raise DefinitionError(f"The Content-Type of {name!r} follows from its body: set body_type instead.")
    for header, value in headers.items():
        if not is_header_text(value):
            raise DefinitionError(
                f"The header {header!r} of {name!r} must be a text in one line of characters of Latin-1 (ISO 8859-1)."
            )
        if is_secret_name(header):
            raise DefinitionError(
                f"The header {header!r} of {name!r} is a credential, which is no plain text: use auth_method, or name "
                "an environment variable: '${NAME}'."
            )


def _check_security(name: str, request: HTTPRequest, options: HTTPOptions) -> None:
    urls = [request.base_url] if request.all_security and request.base_url else []
    for item in request.all_security:
        if isinstance(item, ClientCredentials):
            token_url, _, query = item.token_url.partition("?")
            check_base_url(token_url)
            if any(is_secret_name(query_name) for query_name, _ in parse_qsl(query, keep_blank_values=True)):
                raise DefinitionError(f"The token_url of {name!r} has a credential: use client_secret='${{NAME}}'.")
            urls.append(item.token_url)
    if not options.allow_private and any(urlsplit(url).scheme != "https" for url in urls):
        raise DefinitionError(f"{name!r} would send credentials without encryption: use https.")


def check_sending(options: HTTPOptions) -> None:
    """Raise DefinitionError for options with which no request can be sent."""
    private: Any = options.allow_private
    if not isinstance(private, bool) and (isinstance(private, str) or not isinstance(private, Iterable)):
        kind = type(private).__name__
        raise DefinitionError(f"allow_private must be True, or a list of hosts and networks, not a {kind}.")
    AllowedAddresses(private)
    if options.timeout is not None and not (is_duration(options.timeout) and options.timeout > 0):
        raise DefinitionError(f"timeout is a positive number of seconds, or None, not {options.timeout!r}.")
    if not is_duration(options.connect_timeout) or options.connect_timeout <= 0:
        raise DefinitionError(f"connect_timeout is a positive number of seconds, not {options.connect_timeout!r}.")
    if not is_duration(options.retry_delay) or options.retry_delay < 0:
        raise DefinitionError(f"retry_delay is a number of seconds, not {options.retry_delay!r}.")
    if options.retry_count != 0 and not is_count(options.retry_count):
        raise DefinitionError(f"retry_count is a whole number, 0 for no retries, not {options.retry_count!r}.")
    if not is_count(options.max_response_bytes):
        raise DefinitionError(f"max_response_bytes is a positive whole number, not {options.max_response_bytes!r}.")
    if options.follow_redirects not in {True, False, "same-origin"}:
        raise DefinitionError("follow_redirects is True, False or 'same-origin'.")
    if options.proxy is not None and options.follow_redirects is True:
        raise DefinitionError("Behind a proxy, redirects to other servers cannot be checked: remove follow_redirects.")
    if options.proxy not in {None, "environment"}:
        check_base_url(options.proxy or "")
