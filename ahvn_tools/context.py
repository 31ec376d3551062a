"""ToolContext: what a tool may ask of the call that it runs in. It asks by annotation, and no model ever sees it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from ahvn_tools.errors import ApprovalRequiredError, CallCancelledError
from ahvn_tools.results import ToolResult

ProgressCallback = Callable[[float, float | None, str | None], None]
"""Takes progress, its total and a message."""


class ToolContext:
    """The call that a tool runs in. Take it as a parameter of any name, at any place, in sync and async tools.

    It always exists: where nobody listens, progress and output go nowhere, and there are no roots.

    >>> from ahvn_tools import ToolContext, tool
    >>> @tool
    ... def count(words: list[str], context: ToolContext) -> int:
    ...     context.report_progress(len(words), len(words))
    ...     return len(words)
    >>> list(count.params), count(words=["a", "b"])
    (['words'], 2)
    """

    __slots__ = (
        "_cancelled",
        "_emit",
        "_open_toolkit",
        "_report",
        "call_id",
        "ends_session",
        "is_approved",
        "is_served",
        "roots",
        "run_id",
        "session_id",
        "shows_errors",
        "state",
        "tool",
    )  # fmt: skip

    def __init__(
        self,
        *,
        call_id: str | None = None,
        tool: str | None = None,
        run_id: str | None = None,
        session_id: str | None = None,
        state: Mapping[str, Any] = MappingProxyType({}),
        roots: Sequence[Path] = (),
        open_toolkit: Callable[[], Any] | None = None,
        emit: Callable[[ToolResult], None] | None = None,
        report: ProgressCallback | None = None,
        is_approved: bool = False,
        is_served: bool = False,
        shows_errors: bool = False,
    ) -> None:
        """Tools do not make it; a runner does. `put` takes chunks, `report` takes progress."""
        self.call_id = call_id
        """The id of the call; None where it has none."""
        self.tool = tool
        """The name of the tool where it is called."""
        self.run_id = run_id
        """What the calls of one answer of a model have in common; None for a single call."""
        self.session_id = session_id
        self.state = state
        """What bound parameters are read from, to be read: nearest first, the session's, the toolkit's, the tool's."""
        self.roots = tuple(roots)
        """The folders that the host allows tools to touch."""
        self.ends_session = False
        """Whether the tool has asked for the end of the session."""
        self.is_approved = is_approved
        """Whether somebody has allowed exactly this call."""
        self.is_served = is_served
        """Whether the call came over a wire."""
        self.shows_errors = shows_errors
        """Whether what a tool raises is told over a wire, too."""
        self._open_toolkit = open_toolkit
        self._emit = emit
        self._report = report
        self._cancelled = threading.Event()

    @property
    def toolkit(self) -> Any:
        """The Toolkit as the caller of this tool sees it, session and selection and all; None without one."""
        return None if self._open_toolkit is None else self._open_toolkit()

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell how far the call has come; `total` where it is known, both in units of the tool's own.

        The reader of a stream gets it as a chunk whose `meta["progress"]` has both, with the message as its value.
        Where 100 chunks wait for a slow reader, what is newer takes the place of the last.
        """
        if self._report is not None:
            self._report(progress, total, message)
        elif self._emit is not None:
            told = {"progress": progress, "total": total}
            self._emit(ToolResult(message, meta={"progress": told}, is_last=False, id=self.call_id))

    def append_output(self, output: Any) -> None:
        """Give the reader of a stream something before the result: a chunk whose `meta["output"]` is true."""
        if self._emit is not None:
            self._emit(ToolResult(output, meta={"output": True}, is_last=False, id=self.call_id))

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the call any more: it was cancelled, or took too long."""
        return self._cancelled.is_set()

    def check_cancelled(self) -> None:
        """Raise CallCancelledError when nobody waits for the call any more; for loops in sync tools."""
        if self.cancelled:
            raise CallCancelledError(f"The call of {self.tool!r} was cancelled.", tool=self.tool)

    def require_approval(self) -> None:
        """Raise ApprovalRequiredError unless somebody has allowed exactly this call.

        For tools that see only in their body that they need it. In a toolkit its approver is asked, or the call waits
        for `Toolkit.resume`; when it is allowed, the tool runs again from its first line.
        """
        if not self.is_approved:
            raise ApprovalRequiredError("This call needs an approval: somebody has to allow it.", tool=self.tool)

    def end_session(self) -> None:
        """Ask for the end of the session: the result has `meta["ends_session"]`."""
        self.ends_session = True

    def cancel(self) -> None:
        """Tell the tool that nobody waits any more. For the runner."""
        self._cancelled.set()

    def __repr__(self) -> str:
        return f"<ToolContext of {self.tool!r}>"


current_context: ContextVar[ToolContext | None] = ContextVar("current", default=None)
"""The context of the call whose arguments are being made; set by the runner of the call."""


def resolve_context(state: Mapping[str, Any]) -> ToolContext:
    """Return the context for a call; one that leads nowhere when the runner has set none."""
    return current_context.get() or ToolContext(state=MappingProxyType(dict(state)))


def resolve_transport_context(state: Mapping[str, Any]) -> ToolContext:
    """Return the context for what carries a call to another process: what comes of the call does not depend on it."""
    return resolve_context(state)


def is_context_annotation(annotation: Any) -> bool:
    """Tell whether a parameter of this annotation asks for the context."""
    if get_origin(annotation) in (Annotated, Union, UnionType):
        return any(map(is_context_annotation, get_args(annotation)))
    return annotation is ToolContext
