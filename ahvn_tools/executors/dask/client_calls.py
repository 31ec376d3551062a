"""ClientCalls: the calls of a Dask client, to which the scheduler sends what their bodies reply."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Iterator
from typing import Final, Protocol

from distributed import Client

from ahvn_tools.executors.dask.scheduler_calls import REPLY_TOPIC, keep_no_messages, prepare_scheduler


class Receiver(Protocol):
    """Takes the replies of one call."""

    def receive(self, worker: str, reply: bytes) -> None:
        """Take a reply from the worker with this address."""


class ClientCalls:
    """The calls of one client that run. Its methods are for the event loop of the client."""

    def __init__(self) -> None:
        self._receivers: dict[str, Receiver] = {}
        self._connection: object = None
        """The connection whose scheduler is prepared."""
        self._lock = asyncio.Lock()

    async def prepare(self, client: Client) -> None:
        """Prepare the scheduler, once for each connection of the client. Raises what Dask raises."""
        async with self._lock:
            connection = client.scheduler_comm
            if self._connection is not connection:
                keep_no_messages(connection)
                await client.run_on_scheduler(prepare_scheduler, client.id)
                client.subscribe_topic(REPLY_TOPIC, self._pass_on)
                self._connection = connection

    @contextlib.contextmanager
    def receiving(self, key: str, receiver: Receiver) -> Iterator[None]:
        """Pass the replies of a call to its receiver."""
        self._receivers[key] = receiver
        try:
            yield
        finally:
            del self._receivers[key]

    def _pass_on(self, event: tuple[str, str, bytes]) -> None:
        key, worker, reply = event
        if (receiver := self._receivers.get(key)) is not None:
            receiver.receive(worker, reply)


def find_client_calls(client: Client) -> ClientCalls:
    """Return the calls of a client, which all its executors share."""
    if (calls := _calls_of_clients.get(client)) is None:
        calls = _calls_of_clients[client] = ClientCalls()
    return calls


_calls_of_clients: Final[weakref.WeakKeyDictionary[Client, ClientCalls]] = weakref.WeakKeyDictionary()
