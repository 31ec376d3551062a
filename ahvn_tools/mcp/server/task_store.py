"""The store of MCP tasks, in memory or in Redis: its URL, the owners of the tasks, and how many a client has."""

from __future__ import annotations

import json
import re
import secrets
import time
from dataclasses import asdict, dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from docket import Docket
from fastmcp_tasks.creation import TASK_MAPPING_TTL_BUFFER_SECONDS

from ahvn_tools.errors import ToolSpecError

MEMORY_URL: Final = "memory://"

_REDIS_SCHEMES: Final = frozenset({"redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel", "unix"})

_HOSTS: Final = re.compile(r"[\w.-]+(:\d+)?(,[\w.-]+(:\d+)?)*|\[[\da-fA-F:.]+\](:\d+)?", re.ASCII)

_ANONYMOUS: Final = "anonymous"


def to_url(tasks: Any) -> str:
    """Return the URL of `tasks`, which is True or a URL. Raises ToolSpecError for anything else."""
    if tasks is True:
        return MEMORY_URL
    scheme, separator, _ = tasks.partition("://") if isinstance(tasks, str) else ("", "", "")
    if tasks != MEMORY_URL and not (separator and scheme.lower() in _REDIS_SCHEMES):
        given = "another text" if isinstance(tasks, str) else f"a {type(tasks).__name__}"  # it may contain a password
        raise ToolSpecError(f"`tasks` is True, 'memory://' or the URL of a Redis, 'redis://host:6379', not {given}.")
    try:
        parts = urlsplit(tasks)
        if scheme in ("redis", "rediss"):
            parts.port  # noqa: B018  # it raises ValueError
    except ValueError:  # whose text may contain a part of the password
        raise ToolSpecError(
            "The URL of `tasks` is not valid: a port is a number, and a password is percent-encoded."
        ) from None
    return str(tasks)


def describe_url(url: str) -> str:
    """Return the scheme and the hosts of a URL: nothing that may be a part of a password."""
    parts = urlsplit(url)
    hosts = parts.netloc.rpartition("@")[2]
    is_clear = _HOSTS.fullmatch(hosts) is not None and "@" not in parts.path + parts.query + parts.fragment
    return f"{parts.scheme}://{hosts if is_clear else '…'}"


async def ping(url: str) -> None:
    """Raise an exception unless there is a Redis: FastMCP would start, and log an error once a second."""
    if not url.startswith(MEMORY_URL):
        async with Docket(url=url) as docket, docket.redis() as redis:
            await redis.get(docket.key("ping"))


async def delete_from_memory(url: str) -> None:
    """Delete all tasks at a URL in memory, where Docket would keep them as long as the event loop exists."""
    if url.startswith(MEMORY_URL):
        async with Docket(url=url) as docket, docket.redis() as redis:
            if keys := await redis.keys("*"):
                await redis.delete(*keys)


async def count_tasks(docket: Docket) -> int:
    """Return how many tasks wait or run."""
    async with docket.redis() as redis:
        return int(await redis.xlen(docket.stream_key)) + int(await redis.zcard(docket.queue_key))


@dataclass(frozen=True)
class Place:
    """What a task of a client counts as, from its creation to its end, towards the limit of the client."""

    client: str
    """A digest of what identifies the client."""
    token: str = field(default_factory=lambda: secrets.token_hex(16))

    async def take(self, docket: Docket, limit: int) -> bool:
        """Take this place, unless the client has `limit` others; return whether it is taken."""
        await self.keep(docket)
        async with docket.redis() as redis:
            oldest = time.time() - _seconds(docket)
            await redis.zremrangebyscore(self._key(docket), 0, oldest)  # of servers that were killed
            if int(await redis.zcard(self._key(docket))) <= limit:
                return True
            await redis.zrem(self._key(docket), self.token)
            return False

    async def keep(self, docket: Docket) -> None:
        """Keep this place for as long as FastMCP keeps a task that nobody asks for."""
        async with docket.redis() as redis:
            await redis.zadd(self._key(docket), {self.token: time.time()})
            await redis.expire(self._key(docket), _seconds(docket))

    async def leave(self, docket: Docket) -> None:
        """Leave this place to another task."""
        async with docket.redis() as redis:
            await redis.zrem(self._key(docket), self.token)

    def _key(self, docket: Docket) -> str:
        return docket.key(f"client:{self.client}")


async def set_owner(docket: Docket, task_id: str, principal: str | None, place: Place | None) -> None:
    """Store which user has started a task, and its place; None: the client has no token."""
    record = {"principal": principal or _ANONYMOUS, "place": None if place is None else asdict(place)}
    async with docket.redis() as redis:
        await redis.set(_owner_key(docket, task_id), json.dumps(record), ex=_seconds(docket))


async def is_owner(docket: Docket, task_id: str, principal: str | None) -> bool:
    """Return whether a user has started a task. Each request extends the lifetime of its record."""
    async with docket.redis() as redis:
        record: bytes | None = await redis.get(_owner_key(docket, task_id))
        await redis.expire(_owner_key(docket, task_id), _seconds(docket))
    return record is not None and json.loads(record)["principal"] == (principal or _ANONYMOUS)


async def leave_place_of(docket: Docket, task_id: str) -> None:
    """Leave the place of a task that was cancelled, which may never run."""
    async with docket.redis() as redis:
        record: bytes | None = await redis.get(_owner_key(docket, task_id))
    if record is not None and (place := json.loads(record)["place"]) is not None:
        await Place(**place).leave(docket)


def _owner_key(docket: Docket, task_id: str) -> str:
    return docket.key(f"owner:{task_id}")


def _seconds(docket: Docket) -> int:
    """Return how long FastMCP keeps what it stores with a task that nobody asks for."""
    return int(docket.execution_ttl.total_seconds()) + TASK_MAPPING_TTL_BUFFER_SECONDS
