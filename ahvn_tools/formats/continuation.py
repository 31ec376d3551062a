"""Continuation: what a provider's answer says about the next request, beside the messages that answer its calls."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Self

from ahvn_tools.json_types import JsonObject

MAX_WAIT_SECONDS: Final = 240.0
"""How long a program of Anthropic waits for the result of a call; other providers do not say."""
_LIMITED_FORMAT: Final = "anthropic"


@dataclass(frozen=True, kw_only=True)
class Container:
    """The sandbox of a provider in which a model's program runs, and waits for the results of its calls.

    >>> Container(id="container_1")
    Container(id='container_1', expires_at=None)
    """

    id: str
    """Anthropic refuses results for a waiting program without it: pass it as the next request's `container`."""
    expires_at: datetime | None = None
    """When the provider ends it, with a time zone; None if the answer does not say so."""

    @classmethod
    def from_fields(cls, container_id: Any, expires_at: Any) -> Self | None:
        """Return a container of an answer's fields; None where there is no id."""
        if not (isinstance(container_id, str) and container_id):
            return None
        return cls(id=container_id, expires_at=_to_time(expires_at))


@dataclass(frozen=True, kw_only=True)
class Continuation:
    """What the next request must contain or respect."""

    container: Container | None = None
    is_paused: bool = False
    """Whether the provider has paused, and goes on when the answer is sent back."""
    answer_by: float | None = None
    """Until when a program waits for the results, in seconds since 1970; None: for any time, or no program waits."""

    def to_json(self) -> JsonObject:
        """Return it as JSON data."""
        container = self.container
        time = None if container is None or container.expires_at is None else container.expires_at.isoformat()
        fields = None if container is None else {"id": container.id, "expires_at": time}
        return {"container": fields, "is_paused": self.is_paused, "answer_by": self.answer_by}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return what `to_json` exported. Raises KeyError, TypeError, ValueError or OverflowError for other data."""
        fields = data["container"]
        container = None if fields is None else Container.from_fields(fields["id"], fields["expires_at"])
        answer_by = None if data["answer_by"] is None else float(data["answer_by"])
        if answer_by is not None and not math.isfinite(answer_by):
            raise ValueError("answer_by is a time.")
        return cls(container=container, is_paused=bool(data["is_paused"]), answer_by=answer_by)

    def answer_by_for(self, format_name: str | None, now: float) -> float | None:
        """Return until when a program waits that has just made a call: one of this format, or in the container."""
        has_limit = format_name == _LIMITED_FORMAT or self.container is not None
        times = [now + MAX_WAIT_SECONDS] if has_limit else []
        if self.container is not None and self.container.expires_at is not None:
            times.append(self.container.expires_at.timestamp())
        return min(times, default=None)


NO_CONTINUATION: Final = Continuation()


def _to_time(value: Any) -> datetime | None:
    """Return a time of an SDK's object, or of JSON; without a time zone it is UTC. None for anything else."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
