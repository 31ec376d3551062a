"""ToolContext: a tool's access to the call that it runs in, requested by annotation and hidden from the model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import InitVar, dataclass, field
from os import PathLike
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Annotated, Any, Literal, Protocol, Union, get_args, get_origin

from ahvn_tools.errors import ApprovalRequiredError, CallCancelledError, ToolError
from ahvn_tools.results import ToolResult
from ahvn_tools.roots import resolve_path

ProgressCallback = Callable[[float, float | None, str | None], object]
"""Takes progress, its total and a message."""


class Sent:
    """What the methods that send something return: it can be awaited, and there is nothing to wait for."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


_SENT = Sent()


class Asker(Protocol):
    """Asks a person. Both ways to ask return when the action is approved, and raise a ToolCallError otherwise."""

    async def ask(self, action: str, details: Mapping[str, Any] | None) -> None:
        """Ask from async code."""

    def ask_sync(self, action: str, details: Mapping[str, Any] | None) -> None:
        """Ask and wait in this thread."""

    def cancel(self) -> None:
        """End the wait of `ask_sync`, from any thread."""


@dataclass(kw_only=True, eq=False, repr=False)
class ToolContext:
    """The call that a tool runs in. Declare it as a parameter of any name and position, in sync and async tools.

    Every call has one. Without a reader, progress and output are discarded; without a host, there are no roots.

    >>> from ahvn_tools import ToolContext, tool
    >>> @tool
    ... def count(words: list[str], context: ToolContext) -> int:
    ...     context.report_progress(len(words), len(words))
    ...     return len(words)
    >>> list(count.params), count(words=["a", "b"])
    (['words'], 2)
    """

    call_id: str | None = None
    """The id of the call, or None."""
    tool: str | None = None
    """The name under which the tool was called."""
    run_id: str | None = None
    """The id that all calls of one answer of a model share; None for a single call."""
    caller: str | None = None
    """Who calls: `"direct"`, a model; `"programmatic"`, a program that a model has written; None: the host."""
    session_id: str | None = None
    state: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """The read-only state of bound parameters: the session's, then the toolkit's, then the tool's."""
    roots: tuple[Path, ...] = ()
    """The folders that the host allows tools to use: absolute paths without symbolic links."""
    forbids_files: bool = False
    """Whether the host has set `roots=[]`: no file may be used then, also by a tool that has folders of its own."""
    ends_session: bool = field(default=False, init=False)
    """Whether the tool has requested the end of the session."""
    is_approved: bool = False
    """Whether this call, with these arguments, was approved."""
    is_served: bool = False
    """Whether the call came from a client of a served toolkit."""
    is_anonymous: bool = False
    """Whether the server cannot distinguish the client from others: the session ends with this call."""
    masks_errors: bool = False
    """Whether the result hides the texts of exceptions that are no ToolError."""
    open_toolkit: InitVar[Callable[[], Any] | None] = None
    emit: InitVar[Callable[[ToolResult], None] | None] = None
    report: InitVar[ProgressCallback | None] = None
    asker: InitVar[Asker | None] = None
    resumed_program: InitVar[Any] = None
    pause: InitVar[Callable[[], AbstractContextManager[None]]] = nullcontext
    mask: InitVar[Callable[[str], str]] = str

    def __post_init__(  # noqa: PLR0917  # the InitVars in their order
        self,
        open_toolkit: Callable[[], Any] | None,
        emit: Callable[[ToolResult], None] | None,
        report: ProgressCallback | None,
        asker: Asker | None,
        resumed_program: Any,
        pause: Callable[[], AbstractContextManager[None]],
        mask: Callable[[str], str],
    ) -> None:
        """Each call creates one, not its tool. `emit` receives chunks, `report` progress, `asker` questions.

        `pause` stops the clocks of the call, while a person decides on a call that is a part of it. `mask` returns a
        text without the bound values of the call.
        """
        self._open_toolkit = open_toolkit
        self._emit = emit
        self._report = report
        self._asker = asker
        self._resumed_program = resumed_program
        self._pause = pause
        self._mask = mask
        self._inner_values: list[tuple[str, Any]] = []
        """Bound values and secrets of the calls that are parts of this one, by name; reports of this call mask them."""
        self._cancelled = threading.Event()

    @property
    def toolkit(self) -> Any:
        """The toolkit as the caller sees it, with its session and selection; None without one."""
        return None if self._open_toolkit is None else self._open_toolkit()

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> Sent:
        """Report the progress of the call, and its total if known, both in any unit. It may be awaited.

        The reader of a stream receives a chunk with both in `meta["progress"]` and the message as its value. If a slow
        reader has 100 unread chunks, a new one replaces the last.
        """
        if self._report is not None:
            self._report(progress, total, message)
        elif self._emit is not None:
            meta = {"progress": {"progress": progress, "total": total}}
            self._emit(ToolResult(message, meta=meta, is_last=False, id=self.call_id))
        return _SENT

    def append_output(self, output: Any) -> Sent:
        """Send the reader of a stream a chunk before the result, with `meta["output"]` true. It may be awaited.

        Raises LimitExceededError after more chunks than a generator may yield items (`max_items`, `max_bytes`).
        """
        if self._emit is not None:
            self._emit(ToolResult(output, meta={"output": True}, is_last=False, id=self.call_id))
        return _SENT

    @property
    def cancelled(self) -> bool:
        """Whether the result is no longer needed: the call was cancelled, or timed out."""
        return self._cancelled.is_set()

    def check_cancelled(self) -> None:
        """Raise CallCancelledError if the call was cancelled or timed out; for loops in sync tools."""
        if self.cancelled:
            raise CallCancelledError(f"The call of {self.tool!r} was cancelled.", tool=self.tool)

    def check_path(self, path_or_uri: str | PathLike[str]) -> Path:
        """Return the absolute path, without symbolic links and `..`, of a file or folder inside of the roots.

        A relative path begins in the first root. A `file:` URI is a path, too. The path need not exist. Raises
        ToolError for any other path, and without roots. Open the path that is returned, and soon: it is checked and not
        locked, so a program that replaces one of its folders by a link meanwhile leads the tool elsewhere.
        """
        return resolve_path(path_or_uri, self.roots)

    def require_approval(self) -> None:
        """Raise ApprovalRequiredError unless this call was approved.

        For tools that decide in their body whether they need approval. A toolkit then asks its approver, or the call
        waits for `Toolkit.resume`; after approval the tool runs again from its first line.
        """
        if not self.is_approved:
            raise ApprovalRequiredError("This call needs an approval before it can run.", tool=self.tool)

    async def ask(self, action: str, details: Mapping[str, Any] | None = None) -> Literal[True]:
        """Ask a person to approve an action, and return True when it is approved; the tool goes on here.

        `action` says in words what the tool is about to do, `details` are JSON data about it. The toolkit's approver
        decides or, without one, the user of the MCP client. The time until then does not count towards the timeout.
        Raises CallRejectedError with the reason otherwise, and ToolError in a tool that is called outside of a toolkit.

        Where neither is there, it raises ApprovalRequiredError: the call waits for `Toolkit.resume`. Then, and with an
        MCP client of the protocol 2026-07-28, the tool runs again from its first line after the approval, and `ask`
        returns at once. So ask before the first effect of a tool.
        """
        await self._require_asker().ask(action, details)
        return True

    def ask_sync(self, action: str, details: Mapping[str, Any] | None = None) -> Literal[True]:
        """Ask as `ask` does, in a sync tool. Raises SyncCallError in the event loop that the approver runs in."""
        self._require_asker().ask_sync(action, details)
        return True

    def _require_asker(self) -> Asker:
        if self._asker is None:
            raise ToolError(
                "This tool must ask for an approval, and nobody can be asked here.",
                tool=self.tool,
                explanation="`ToolContext.ask` works in a toolkit only: add the tool to a Toolkit(…, approver=…) and "
                "call it there.",
            )
        return self._asker

    def end_session(self) -> None:
        """Request the end of the session: the result has `meta["ends_session"]`."""
        self.ends_session = True

    def cancel(self) -> None:
        """Mark the call as cancelled. For the runner."""
        self._cancelled.set()
        if self._asker is not None:
            self._asker.cancel()

    def __repr__(self) -> str:
        return f"<ToolContext of {self.tool!r}>"


current_context: ContextVar[ToolContext | None] = ContextVar("current_context", default=None)
"""The context of the call whose bound values are being read; set by the runner of the call."""


def resolve_context(state: Mapping[str, Any]) -> ToolContext:
    """Return the context of the current call, or an unconnected one outside of a call."""
    return current_context.get() or ToolContext(state=MappingProxyType(dict(state)))


def resolve_transport_context(state: Mapping[str, Any]) -> ToolContext:
    """Return the context for sending a call to another process; the result of the call does not depend on it."""
    return resolve_context(state)


def is_context_annotation(annotation: Any) -> bool:
    """Return whether a parameter with this annotation receives the context."""
    if get_origin(annotation) in (Annotated, Union, UnionType):
        return any(map(is_context_annotation, get_args(annotation)))
    return annotation is ToolContext
