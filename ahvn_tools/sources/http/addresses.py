"""Which addresses a request may be sent to: those of the public internet, and what the host allows."""

from __future__ import annotations

import fnmatch
import ipaddress
import re
from collections.abc import Iterable
from typing import Final, TypeAlias

from ahvn_tools.errors import DefinitionError

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
