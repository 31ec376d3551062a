"""ToolContext: a tool's access to the call that it runs in, requested by annotation and hidden from the model."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Annotated, Any, Final, Literal, Protocol, Union, get_args, get_origin

from ahvn_tools.errors import CallCancelledError, ToolError
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

    def ask(self, action: str, details: Mapping[str, Any] | None) -> None:
        """Ask and wait in this thread."""

    async def aask(self, action: str, details: Mapping[str, Any] | None) -> None:
        """Ask from async code."""

    def cancel(self) -> None:
        """End the wait of `ask`, from any thread."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class CallLinks:
    """What connects a ToolContext with its call; without one, nothing is received."""

    open_toolkit: Callable[[], Any] | None = None
    """Returns the toolkit as the caller sees it."""
    emit: Callable[[ToolResult], None] | None = None
    """Takes chunks."""
    report: ProgressCallback | None = None
    asker: Asker | None = None
    resumed_program: Any = None
    """The program that the call continues, for the tool that runs programs."""
    pause: Callable[[], AbstractContextManager[None]] = nullcontext
    """Stops the clocks of the call, while a person decides on a call that is a part of it."""
    note_unstarted: Callable[[str | None], None] = lambda _: None
    """Takes why the remote tool that the body calls has not started, for the message of a timeout; None: it has."""
    is_allowed_by_rule: Callable[[], bool] = lambda: False
    """Returns whether a rule of the toolkit allows the call with the arguments that the body has received."""
    make_mask: Callable[[], Callable[[str], str]] = lambda: str
    """Returns what removes the secrets and bound values of the call from a text."""
    find_hidden: Callable[[], Mapping[str, Any]] = dict
    """Returns these secrets and bound values by name."""


_NO_LINKS: Final = CallLinks()


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CallRequest:
    """What is known of a call before its tool is found; each `Call` has it, too."""

    positional: tuple[Any, ...] = field(default=(), repr=False)
    """Positional arguments of a call of a ToolSpec; a toolkit passes all arguments by name."""
    run_id: str | None = None
    """Shared by all calls of one model response; None for a single call."""
    caller: str | None = None
    """Who calls: `"direct"`, a model; `"programmatic"`, a program that a model has written; None: the host."""
    is_approved: bool = False
    """Whether exactly this call has been approved."""
    is_served: bool = False
    """Whether it came from an MCP client: nothing is raised then."""
    emit: Callable[[ToolResult], Awaitable[None]] | None = field(default=None, repr=False)
    """Takes the chunks of a stream; None without a reader."""
    report: ProgressCallback | None = field(default=None, repr=False)
    """Takes the progress that the tool reports; None without a listener."""
    roots: tuple[Path, ...] | None = field(default=None, repr=False)
    """The folders that the host allows tools to touch; None: those of the session or toolkit, if it has said so."""
    approved_questions: tuple[str, ...] = field(default=(), repr=False)
    """The digests of questions of the body that were approved in an earlier run of it."""
    question_approver: Any = field(default=None, repr=False)
    """The `QuestionApprover` of what the body asks; None: each question ends the call, which waits for an approval."""
    resumed_program: Any = field(default=None, repr=False)
    """The program that this call continues, for the tool that runs programs."""
    supplied: Any = field(default=None, repr=False)
    """The Outcome of an external call, whose value was supplied from outside; None: none was."""


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
    _ends_session: bool = field(default=False, init=False)
    """Whether the tool has requested the end of the session."""
    is_approved: bool = False
    """Whether this call, with these arguments, was approved."""
    is_served: bool = False
    """Whether the call came from a client of a served toolkit."""
    is_anonymous: bool = False
    """Whether the server cannot distinguish the client from others: the session ends with this call."""
    _masks_errors: bool = False
    """Whether the result hides the texts of exceptions that are no ToolError."""
    _links: CallLinks = field(default_factory=lambda: _NO_LINKS)

    def __post_init__(self) -> None:
        """Each call creates one, not its tool."""
        self._inner_values: list[tuple[str, Any]] = []
        """Bound values and secrets of the calls whose results this one returns, by name; reports of this call mask
        them."""
        self._cancelled = threading.Event()

    @property
    def toolkit(self) -> Any:
        """The toolkit as the caller sees it, with its session and selection; None without one."""
        return None if self._links.open_toolkit is None else self._links.open_toolkit()

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> Sent:
        """Report the progress of the call, and its total if known, both in any unit. It may be awaited.

        The reader of a stream receives a chunk with both in `meta["progress"]` and the message as its value. If a slow
        reader has 100 unread chunks, a new one replaces the last.
        """
        links = self._links
        if links.report is not None:
            links.report(progress, total, message)
        elif links.emit is not None:
            meta = {"progress": {"progress": progress, "total": total}}
            links.emit(ToolResult(message, meta=meta, is_last=False, id=self.call_id))
        return _SENT

    def append_output(self, output: Any) -> Sent:
        """Send the reader of a stream a chunk before the result, with `meta["output"]` true. It may be awaited.

        Raises LimitExceededError after more chunks than a generator may yield items (`max_items`, `max_bytes`).
        """
        if self._links.emit is not None:
            self._links.emit(ToolResult(output, meta={"output": True}, is_last=False, id=self.call_id))
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

    def ask(self, action: str, details: Mapping[str, Any] | None = None) -> Literal[True]:
        """Ask a person to approve an action, and return True when it is approved; the sync tool goes on here.

        `action` says in words what the tool is about to do, `details` are JSON data about it. The toolkit's approver
        decides or, without one, the user of the MCP client. The time until then does not count towards the timeout.
        Raises CallRejectedError with the reason otherwise, ToolError in a tool that is called outside of a toolkit, and
        SyncCallError in the event loop that the approver runs in.

        Where neither is there, it raises ApprovalRequiredError: the call waits for `Toolkit.resume`. Then, and with an
        MCP client of the protocol 2026-07-28, the tool runs again from its first line after the approval, and `ask`
        returns at once. So ask before the first effect of a tool.
        """
        self._require_asker().ask(action, details)
        return True

    async def aask(self, action: str, details: Mapping[str, Any] | None = None) -> Literal[True]:
        """Ask as `ask` does, in an async tool."""
        await self._require_asker().aask(action, details)
        return True

    def _require_asker(self) -> Asker:
        if self._links.asker is None:
            raise ToolError(
                "This tool must ask for an approval, and nobody can be asked here.",
                tool=self.tool,
                explanation="`ToolContext.ask` works in a toolkit only: add the tool to a Toolkit(…, approver=…) and "
                "call it there.",
            )
        return self._links.asker

    def end_session(self) -> None:
        """Request the end of the session: the result has `meta["ends_session"]`."""
        self._ends_session = True

    def _hide(self, values: Mapping[str, Iterable[Any]]) -> None:
        """Mask values of other calls, by name, in reports of this one, whose result may contain them."""
        self._inner_values.extend((name, value) for name, parts in values.items() for value in parts)

    def _cancel(self) -> None:
        """Mark the call as cancelled, for the runner."""
        self._cancelled.set()
        if self._links.asker is not None:
            self._links.asker.cancel()

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
