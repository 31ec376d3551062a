"""Continuation: what a provider's answer says about the next request, beside the messages that answer its calls."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Self

from ahvn_tools.json_types import JsonObject

MAX_WAIT_SECONDS: Final = 240.0
"""How long a program of Anthropic waits for the result of a call; other providers do not say."""
_LIMITED_FORMAT: Final = "anthropic"

MALFORMED_CALL: Final = "The call was malformed. Send it again with its arguments as one JSON object."
UNKNOWN_CALL: Final = (
    "The call was discarded, because no such tool can be called. Call one of the known tools, or answer without a call."
)
_PROBLEMS: Final = {
    "malformed_function_call": MALFORMED_CALL,
    "malformed_tool_use": MALFORMED_CALL,
    "malformed_response": "The response was malformed. Send it again.",
    "malformed_model_output": "The response was malformed. Send it again.",
    "unexpected_tool_call": UNKNOWN_CALL,
    "too_many_tool_calls": "The response was stopped after too many calls in a row. Send fewer calls, or answer "
    "without a call.",
}
"""What a model reads after a response that its provider has ended for a reason, by the reason in lower case."""


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
    problem: str | None = None
    """Why the answer is not final if it has no calls: its provider has discarded what the model has written."""

    def to_json(self) -> JsonObject:
        """Return it as JSON data."""
        container = self.container
        time = None if container is None or container.expires_at is None else container.expires_at.isoformat()
        fields = None if container is None else {"id": container.id, "expires_at": time}
        problem = {} if self.problem is None else {"problem": self.problem}
        return {"container": fields, "is_paused": self.is_paused, "answer_by": self.answer_by, **problem}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return what `to_json` exported. Raises KeyError, TypeError, ValueError or OverflowError for other data."""
        fields = data["container"]
        container = None if fields is None else Container.from_fields(fields["id"], fields["expires_at"])
        answer_by = None if data["answer_by"] is None else float(data["answer_by"])
        if answer_by is not None and not math.isfinite(answer_by):
            raise ValueError("answer_by is a time.")
        problem = data.get("problem")
        if not isinstance(problem, str | None):
            raise TypeError("problem is a text.")
        return cls(container=container, is_paused=bool(data["is_paused"]), answer_by=answer_by, problem=problem)

    def answer_by_for(self, format_name: str | None, now: float) -> float | None:
        """Return until when a program waits that has just made a call: one of this format, or in the container."""
        has_limit = format_name == _LIMITED_FORMAT or self.container is not None
        times = [now + MAX_WAIT_SECONDS] if has_limit else []
        if self.container is not None and self.container.expires_at is not None:
            times.append(self.container.expires_at.timestamp())
        return min(times, default=None)


NO_CONTINUATION: Final = Continuation()


def read_problem(reasons: Iterable[Any]) -> str | None:
    """Return the problem that one of the reasons for the end of a response is; None if there is none.

    Hosts that translate a provider's reason write it in lower case, or with more words around it.
    """
    for reason in reasons:
        for word in re.findall(r"[a-z_]+", str(reason or "").lower()):
            if word in _PROBLEMS:
                return _PROBLEMS[word]
    return None


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
