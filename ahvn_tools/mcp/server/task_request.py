"""TaskRequest: the request that started an MCP task, as the task sees it when it runs."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from fastmcp.server.context import Context

from ahvn_tools.json_types import JsonObject
from ahvn_tools.mcp.server.progress import ProgressReporter
from ahvn_tools.mcp.server.request import Request

MAX_STATUS_CHARS: Final = 1000
"""The length of a task's status message."""

SetStatus = Callable[[str], Awaitable[None]]


def principal_of(request: Request) -> str | None:
    """Return an identifier of the user of the verified token; None without a token."""
    return request._principal_id  # noqa: SLF001  # a class of ours


def client_of(request: Request) -> str | None:
    """Return a digest of the user of the verified token or, without one, of the client's address; None without both."""
    client = principal_of(request) or request.address
    return None if client is None else hashlib.sha256(client.encode()).hexdigest()[:32]


class TaskRequest(Request):
    """A request that was answered with a task. FastMCP restores its headers and token, a snapshot has the rest."""

    is_of_task = True

    def __init__(self, context: Context, snapshot: JsonObject, set_status: SetStatus) -> None:
        """Use FastMCP's context of the task, and what `to_snapshot` returned for the request."""
        super().__init__(None)
        self._snapshot, self._set_status = snapshot, set_status
        self._task_state, self._task_answers = context.request_state, context.input_responses
        self.is_restored = snapshot["principal"] == self._principal_id and snapshot["has_headers"] == bool(self.headers)
        """Whether FastMCP has restored the headers and the token; it drops a token that has expired."""

    @classmethod
    def to_snapshot(cls, request: Request) -> JsonObject:
        """Return what a task needs of its request apart from the headers and the token, as JSON."""
        return {
            "meta": dict(request.meta),
            "client": dict(request.client),
            "transport": request.transport,
            "can_elicit": request.can_elicit,
            "principal": principal_of(request),
            "has_headers": bool(request.headers),
        }

    @property
    def meta(self) -> Mapping[str, Any]:
        """The `_meta` of the request."""
        return MappingProxyType(self._snapshot["meta"])

    @property
    def client(self) -> Mapping[str, str]:
        """The `name` and `version` that the client program claims."""
        return MappingProxyType(self._snapshot["client"])

    @property
    def transport(self) -> str | None:
        """The transport of the request."""
        transport: str | None = self._snapshot["transport"]
        return transport

    @property
    def can_elicit(self) -> bool:
        """Whether the client can be asked: it finds the question when it asks for the status of the task."""
        return self._snapshot["can_elicit"] is True

    def can_sample(self, *, with_tools: bool) -> bool:  # noqa: ARG002  # no client of a task can
        """Return False: FastMCP's clients of tasks answer forms only."""
        return False

    @property
    def log_level(self) -> None:
        """None: a task has no stream of messages to its client."""
        return

    @property
    def state(self) -> str | None:
        """What the task has stored with its question."""
        return self._task_state

    @property
    def answers(self) -> Mapping[str, Any]:
        """What the client has answered to the question of the task."""
        return self._task_answers or {}

    @property
    def _connection_id(self) -> str | None:
        return "stdio" if self.transport == "stdio" else None

    @property
    def _is_modern(self) -> bool:
        return True  # older protocols have no tasks

    def create_progress_reporter(self) -> ProgressReporter:
        """Return what makes each message the status message of the task."""
        return ProgressReporter(self._report)

    async def _report(self, progress: float, total: float | None, message: str | None) -> None:
        text = message or (f"{progress:g}" if total is None else f"{progress:g}/{total:g}")
        await self._set_status(text[:MAX_STATUS_CHARS])
