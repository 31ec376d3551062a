"""CallStatus: what is known of a background call at one moment, as a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ahvn_tools.errors import ApprovalRequiredError, CallCancelledError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware.approve import ApprovalRequest, pending_requests
from ahvn_tools.results import ToolResult

CallState = Literal["running", "waiting_for_approval", "done", "failed", "cancelled"]


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
    def pending(self) -> ApprovalRequest | None:
        """The first of `requests`; None unless the call waits for an approval."""
        return next(iter(self.requests), None)

    @property
    def requests(self) -> list[ApprovalRequest]:
        """What the call waits for, for `Toolkit.resume`; a program may wait for the approvals of several calls."""
        if self.result is None or self.state != "waiting_for_approval":
            return []
        return pending_requests(self.result.meta)


def state_of(result: ToolResult | None) -> CallState:
    """Return the state of a call with this result; None: it has none yet."""
    if result is None:
        return "running"
    code = None if result.error is None else result.error.code
    if code == ApprovalRequiredError.code and "approval" in result.meta:
        return "waiting_for_approval"
    return "done" if code is None else "cancelled" if code == CallCancelledError.code else "failed"
