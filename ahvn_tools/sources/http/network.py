"""Connections to allowed addresses: a name is resolved once, and the address that was checked is connected to."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Iterable
from typing import Any

import httpcore2

from ahvn_tools.sources.http.addresses import Address, AllowedAddresses


class AddressRefusedError(Exception):
    """The addresses of a host are not allowed."""

    def __init__(self, host: str) -> None:
        super().__init__(host)
        self.host = host


class AllowedNetwork(httpcore2.AsyncNetworkBackend):
    """Connects to allowed addresses only.

    The name in the certificate and in the `Host` header is that of the URL, whichever address is connected to.
    """

    def __init__(self, allowed: AllowedAddresses) -> None:
        self._allowed = allowed
        self._backend = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first allowed address that answers, in the order of the resolver.

        Raises AddressRefusedError, httpcore2.ConnectError, httpcore2.ConnectTimeout.
        """
        try:
            async with asyncio.timeout(timeout):
                addresses = await _resolve(host, port)
                allowed = [str(address) for address in addresses if self._allowed.allows(host, address)]
                if not allowed:
                    raise AddressRefusedError(host)
                each = None if timeout is None else timeout / len(allowed)
                return await self._connect_to_first(allowed, port, each, local_address, socket_options)
        except TimeoutError:
            raise httpcore2.ConnectTimeout from None

    async def _connect_to_first(
        self, addresses: list[str], port: int, timeout: float | None, *options: Any
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first address that answers within `timeout` seconds."""
        for address in addresses[:-1]:
            with contextlib.suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                return await self._backend.connect_tcp(address, port, timeout, *options)
        return await self._backend.connect_tcp(addresses[-1], port, timeout, *options)

    async def connect_unix_socket(self, *_arguments: Any, **_options: Any) -> httpcore2.AsyncNetworkStream:
        """Refuse: a request never names a socket."""
        raise httpcore2.UnsupportedProtocol

    async def sleep(self, seconds: float) -> None:
        """Wait, as httpcore2 asks."""
        await asyncio.sleep(seconds)


async def _resolve(host: str, port: int) -> list[Address]:
    """Return the addresses of a host. Raises httpcore2.ConnectError if it has none."""
    try:
        return [ipaddress.ip_address(host)]
    except ValueError:
        pass
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore2.ConnectError(type(error).__name__) from None
    return list(dict.fromkeys(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found))
