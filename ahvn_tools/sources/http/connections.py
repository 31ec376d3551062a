"""The connections of HTTP tools: to allowed addresses alone, in one pool for each event loop and server."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import socket
import ssl
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.request import getproxies, proxy_bypass

import httpcore2
import httpx2

from ahvn_tools.redaction.logs import add_log_filter
from ahvn_tools.sources.http.checks import Address, AllowedAddresses
from ahvn_tools.sources.http.request import HTTPOptions


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


MAX_CONNECTIONS = 100
"""Connections to one server at a time, for each event loop; further requests wait."""

KEEPALIVE_SECONDS = 3.0
"""After so many seconds an unused connection is closed; many servers close theirs after 5."""


@dataclass(frozen=True)
class PoolKey:
    """What the requests of one pool have in common."""

    scheme: str
    host: str
    port: int | None
    allow_private: bool | tuple[str, ...]
    ca_file: str | None
    proxy: str | None = field(repr=False)

    @classmethod
    def of(cls, url: httpx2.URL, options: HTTPOptions) -> PoolKey:
        """Return the key for requests to a URL."""
        return cls(url.scheme, url.host, url.port, options.allow_private, options.ca_file, options.proxy)


@contextlib.asynccontextmanager
async def open_pool(key: PoolKey) -> AsyncIterator[httpcore2.AsyncConnectionPool]:
    """Lend the pool of a key, in the running loop."""
    loop = asyncio.get_running_loop()
    connections = _of_loops.get(loop)
    if connections is None:
        connections = await _LoopConnections.start(loop)
    shared = connections.acquire(key)
    try:
        yield shared.pool
    finally:
        connections.release(key, shared)


@dataclass(eq=False)
class _SharedPool:
    pool: httpcore2.AsyncConnectionPool
    users: int = 0
    idle_timer: asyncio.TimerHandle | None = None


class _LoopConnections:
    """The pools of one event loop. They are closed when the loop ends, as `asyncio.run` ends it."""

    def __init__(self) -> None:
        self._pools: dict[PoolKey, _SharedPool] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._guard = self._wait_for_end()

    @classmethod
    async def start(cls, loop: asyncio.AbstractEventLoop) -> _LoopConnections:
        """Return the connections of a loop."""
        connections = cls()
        with _lock:
            for other in [other for other in _of_loops if other.is_closed()]:
                del _of_loops[other]
            _of_loops[loop] = connections
        await anext(connections._guard)  # its own
        return connections

    async def _wait_for_end(self) -> AsyncGenerator[None, None]:
        """Close the pools when the loop shuts down its asynchronous generators, of which this is one."""
        try:
            yield
        finally:
            with _lock:
                _of_loops.pop(asyncio.get_running_loop(), None)
            for shared in self._pools.values():
                if shared.idle_timer is not None:
                    shared.idle_timer.cancel()
                await shared.pool.aclose()
            await asyncio.gather(*self._closing, return_exceptions=True)

    def acquire(self, key: PoolKey) -> _SharedPool:
        """Return the pool of a key, counted as used."""
        shared = self._pools.get(key)
        if shared is None:
            shared = self._pools[key] = _SharedPool(_make_pool(key))
        shared.users += 1
        if shared.idle_timer is not None:
            shared.idle_timer.cancel()
            shared.idle_timer = None
        return shared

    def release(self, key: PoolKey, shared: _SharedPool) -> None:
        """Count a pool as used by one request less; close it after a while if there is no other."""
        shared.users -= 1
        if not shared.users:
            loop = asyncio.get_running_loop()
            shared.idle_timer = loop.call_later(KEEPALIVE_SECONDS, self._drop, key)

    def _drop(self, key: PoolKey) -> None:
        task = asyncio.get_running_loop().create_task(self._pools.pop(key).pool.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


_of_loops: dict[asyncio.AbstractEventLoop, _LoopConnections] = {}
"""A forked child keeps those of its parent unused: to close them would end them for the parent's servers, too."""

_lock = threading.Lock()


def _make_pool(key: PoolKey) -> httpcore2.AsyncConnectionPool:
    add_log_filter()
    proxy = _find_proxy(key)
    return httpcore2.AsyncConnectionPool(
        ssl_context=_ssl_context(key.ca_file) if key.scheme == "https" else None,
        proxy=proxy,
        max_connections=MAX_CONNECTIONS,
        keepalive_expiry=KEEPALIVE_SECONDS,
        network_backend=None if proxy else AllowedNetwork(AllowedAddresses(key.allow_private)),
    )


@functools.lru_cache(maxsize=16)
def _ssl_context(ca_file: str | None) -> ssl.SSLContext:
    """Return the settings of TLS, which take long to make."""
    return httpx2.create_ssl_context() if ca_file is None else ssl.create_default_context(cafile=ca_file)


def _find_proxy(key: PoolKey) -> httpcore2.Proxy | None:
    """Return the proxy of a request. It is the proxy that resolves the name of the server."""
    url = key.proxy
    if url == "environment":
        url = None if proxy_bypass(key.host) else getproxies().get(key.scheme)
    if url is None:
        return None
    proxy = httpx2.Proxy(url)
    return httpcore2.Proxy(
        url=httpcore2.URL(
            scheme=proxy.url.raw_scheme, host=proxy.url.raw_host, port=proxy.url.port, target=proxy.url.raw_path
        ),
        auth=proxy.raw_auth,
    )
