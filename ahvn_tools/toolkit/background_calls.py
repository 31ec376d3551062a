"""BackgroundCalls: the calls that one session has started and does not wait for, and their results."""

from __future__ import annotations

import contextlib
import contextvars
import enum
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import (
    CallCancelledError,
    LimitExceededError,
    ToolkitError,
    ToolLookupError,
    ToolNotAvailableError,
    quote_name,
)
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import ToolResult
from ahvn_tools.toolkit import locks

if TYPE_CHECKING:  # slow, and few toolkits run calls in the background
    from ahvn_tools.execution.call import CallScope, EmitChunk
    from ahvn_tools.middleware.pending import PendingRequest
    from ahvn_tools.redaction.values import HiddenValues

    RunCall = Callable[[EmitChunk], Awaitable[ToolResult]]
    """Runs a call, whose chunks it passes to its argument. It raises nothing but its own cancellation."""


CallState = Literal["running", "waiting_for_approval", "waiting_for_result", "done", "failed", "cancelled"]


@dataclass(frozen=True, kw_only=True)
class CallStatus:
    """A background call at one moment. A later status is another object."""

    id: str
    tool: str
    """The name under which the tool was called."""
    state: CallState
    elapsed: float
    """Seconds since the call was started; of a finished call, until its end."""
    items: int = 0
    """How many items and outputs the tool has made so far."""
    progress: JsonObject | None = None
    """The latest `progress`, `total` and `message` that the tool has reported."""
    result: ToolResult | None = field(default=None, repr=False)
    """The result, also of a call that failed; None while it runs. A cancelled one has the items so far."""

    @property
    def is_running(self) -> bool:
        """Whether the call has no result yet."""
        return self.result is None

    @property
    def pending(self) -> PendingRequest | None:
        """The first of `requests`; None unless the call waits for an approval or its result."""
        return next(iter(self.requests), None)

    @property
    def requests(self) -> list[PendingRequest]:
        """What the call waits for, for `Toolkit.resume`; a program may wait for several calls."""
        if self.result is None or not self.state.startswith("waiting"):
            return []
        from ahvn_tools.middleware.pending import pending_requests  # slow, and few calls wait

        return pending_requests(self.result.meta)


def state_of(result: ToolResult | None) -> CallState:
    """Return the state of a call with this result; None: it has none yet."""
    if result is None:
        return "running"
    if result.error is None:
        return "done"
    from ahvn_tools.middleware.pending import find_kind  # slow, and most calls succeed

    if (kind := find_kind(result)) is not None:
        return kind.state
    return "cancelled" if result.error.code == CallCancelledError.code else "failed"


DEFAULT_MAX_RUNNING: Final = 16
"""How many background calls of one session run at once, by default."""

MAX_KEPT_RESULTS: Final = 100
"""How many results of finished calls a session keeps; the oldest are dropped first."""

KEPT_SECONDS: Final = 3600.0
"""For how many seconds a session keeps the result of a finished call."""


class SessionContent(enum.IntEnum):
    """What a session has. One with less never makes a toolkit forget one with more."""

    NOTHING = 0
    STATE = 1
    """Values that the host has passed, and will pass again."""
    MORE = 2
    """Results, switched groups or remembered rules."""
    CALLS = 3
    """A background call that runs, or whose result nobody has read. Such a session is never forgotten."""


_lock = threading.RLock()  # reentrant: a result that is dropped may run code of its class


class BackgroundCall:
    """One call on the background loop."""

    def __init__(
        self,
        id: str,  # noqa: A002  # the id of the call
        tool: str,
        scope: CallScope,
        run: RunCall,
        find_hidden: Callable[[], Mapping[str, HiddenValues]],
    ) -> None:
        """`find_hidden` returns what no report of a call may show that returns the result of this one."""
        import asyncio

        from ahvn_tools.execution import background_loop

        self.id = id
        self.tool = tool
        self.ended: float | None = None
        """When it ended, on the clock of `time.monotonic`."""
        self.result: ToolResult | None = None
        self.is_read = False
        """Whether somebody has read its result."""
        self.find_hidden = find_hidden
        self._scope = scope
        self._run = run
        self._started = time.monotonic()
        self._item_count = 0
        self._progress: dict[str, Any] | None = None
        self._end = asyncio.Event()
        self._loop = background_loop.get_loop()

    @property
    def is_running(self) -> bool:
        """Whether it has no result yet."""
        return self.result is None

    def start(self, owner: Callable[[], BackgroundCalls | None]) -> None:
        """Start it with the context variables of its starter. `owner` returns its session's calls, while there are."""
        from ahvn_tools.execution import background_loop

        context = contextvars.copy_context()
        context.run(background_loop.blocked_loops.set, ())  # its starter may block a loop, but not until this call ends
        context.run(locks.forget_held_keys)
        background_loop.start_task(self._run_to_end, owner, context=context)

    async def _run_to_end(self, owner: Callable[[], BackgroundCalls | None]) -> None:
        detail = ErrorDetail(code="cancelled", message=f"The call of {self.tool!r} was cancelled.")
        result = ToolResult(error=detail, is_interrupted=True, id=self.id)
        try:
            result = await self._run(self._count_chunk)
        finally:
            self.finish(result)
            self._end.set()
            if (calls := owner()) is not None:
                calls.drop_old_results()

    async def _count_chunk(self, chunk: ToolResult) -> None:
        progress = chunk.meta.get("progress")
        if isinstance(progress, dict):
            self._progress = {**progress, "message": chunk.value}
        else:
            self._item_count += 1

    def finish(self, result: ToolResult) -> None:
        """Set the result."""
        self.is_read = False
        self.ended = time.monotonic()
        self.result = result

    async def wait(self, timeout: float | None) -> None:
        """Wait for the end, for at most `timeout` seconds. Runs on the background loop."""
        import asyncio

        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._end.wait(), timeout)

    def cancel(self) -> None:
        """Cancel it, from any thread; also from the garbage collector, which may have interrupted any code."""
        with contextlib.suppress(RuntimeError):  # the loop was closed
            self._loop.call_soon_threadsafe(self._scope.cancel)

    def status(self) -> CallStatus:
        """Return what is known of it now."""
        result, ended = self.result, self.ended
        self.is_read |= result is not None
        return CallStatus(
            id=self.id,
            tool=self.tool,
            state=state_of(result),
            elapsed=(time.monotonic() if ended is None else ended) - self._started,
            items=self._item_count,
            progress=self._progress,
            result=result,
        )


class BackgroundCalls:
    """The background calls of one session, by their ids. Once it is no longer referenced, they are cancelled.

    So what runs in a call must not refer to it: see `StoreView.without_session`.
    """

    __slots__ = ("__weakref__", "_calls", "_is_closed", "_outlives_request", "has_kept_results")

    def __init__(self, *, outlives_request: bool = True) -> None:
        """`outlives_request`: a later request of the same client can find the calls."""
        self._calls: dict[str, BackgroundCall] = {}  # replaced whenever it changes
        self._is_closed = False
        self._outlives_request = outlives_request
        self.has_kept_results = False
        """Whether `keep_large` has kept results of the session for as long as this lives."""

    def start(self, call: BackgroundCall, max_running: int) -> None:
        """Start a call.

        Raises LimitExceededError while `max_running` run, ToolkitError for the id of one that runs and after `close`,
        and ToolNotAvailableError for a client whose later requests cannot be recognized.
        """
        if not self._outlives_request:
            raise ToolNotAvailableError(
                "Calls cannot run in the background: the server cannot distinguish this client from others, so the "
                "client could not ask for their results.",
                tool=call.tool,
            )
        with _lock:
            if self._is_closed:
                raise session_ended_error()
            self.drop_old_results()
            running = [other.id for other in self._calls.values() if other.is_running]
            if call.id in running:
                raise ToolkitError(f"A background call with the id {quote_name(call.id)} runs. Leave call_id out.")
            if len(running) >= max_running:
                raise LimitExceededError(
                    f"{len(running)} background calls run, which is the maximum. Wait for one of them, or cancel one.",
                    tool=call.tool,
                )
            self._calls = {**{id: other for id, other in self._calls.items() if id != call.id}, call.id: call}  # noqa: A001  # the id of a call
        call.start(weakref.ref(self))

    def get(self, id: str) -> BackgroundCall:  # noqa: A002  # the id of the call
        """Return a call. Raises ToolLookupError for an id that is unknown, of another session, or no longer kept."""
        self.drop_old_results()
        if (call := self._calls.get(id)) is None:
            raise ToolLookupError(
                f"There is no background call {quote_name(id)} in this session: none was started with this id, or its "
                "result is no longer kept."
            )
        return call

    def statuses(self) -> list[CallStatus]:
        """Return the status of each call, in the order in which they were started."""
        self.drop_old_results()
        return [call.status() for call in self._calls.values()]

    def find_content(self) -> SessionContent:
        """Return what the session has because of them."""
        oldest = time.monotonic() - KEPT_SECONDS
        if any(not call.is_read and (call.ended is None or call.ended >= oldest) for call in self._calls.values()):
            return SessionContent.CALLS
        return SessionContent.MORE if self._calls or self.has_kept_results else SessionContent.NOTHING

    def cancel(self, id: str) -> bool:  # noqa: A002  # as above
        """Cancel the call of this id, and return whether it runs."""
        call = self._calls.get(id)
        if call is None or not call.is_running:
            return False
        call.cancel()
        return True

    def set_resumed_results(self, results: Iterable[tuple[PendingRequest, ToolResult]]) -> None:
        """Take over the results of calls that waited here with these requests, and were resumed."""
        for request, result in results:
            call = self._calls.get(request.model_call_id)  # another call may have the same id
            if call is not None and request.id in [pending.id for pending in call.status().requests]:
                call.finish(result)

    def drop_old_results(self) -> None:
        """Drop results that are too old or too many."""
        with _lock:
            oldest = time.monotonic() - KEPT_SECONDS
            ended = sorted(call.ended for call in self._calls.values() if call.ended is not None)
            if len(ended) > MAX_KEPT_RESULTS:
                oldest = max(oldest, ended[-MAX_KEPT_RESULTS])
            calls = self._calls.items()
            self._calls = {id: call for id, call in calls if call.ended is None or call.ended >= oldest}  # noqa: A001  # as above

    def close(self) -> None:
        """Cancel all calls, drop all results, and start no others: the session has ended."""
        self._is_closed = True  # a call may still find this while it is being deleted
        calls, self._calls = self._calls, {}
        for call in calls.values():
            if call.is_running:
                call.cancel()

    __del__ = close


def session_ended_error() -> ToolkitError:
    """Return the error of a call that has outlived its session."""
    return ToolkitError("The session of this call has ended, and its background calls with it.")
