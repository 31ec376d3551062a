"""Call: one call as it passes through the middleware to the body; and the type of a middleware."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from ahvn_tools.binding import StateScopes, chain_scopes
from ahvn_tools.context import CallLinks, ProgressCallback, ToolContext
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.execution.plan import Arguments, Body, Plan
from ahvn_tools.execution.questions import BodyQuestions, Question, QuestionApprover
from ahvn_tools.execution.scope import CallScope
from ahvn_tools.redaction import redact
from ahvn_tools.results import ToolResult
from ahvn_tools.secret_key import SecretKey

_PROCESS_KEY = SecretKey.create(None)

EmitChunk = Callable[[ToolResult], Awaitable[None]]
"""Takes one chunk of a stream, and returns when its reader wants the next."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call as a middleware sees it. `dataclasses.replace` makes one with other arguments or another `emit`."""

    id: str
    name: str
    """The tool's name where it is called."""
    arguments: Arguments = field(repr=False)
    """The caller's arguments; they are validated behind the last middleware."""
    positional: tuple[Any, ...] = field(default=(), repr=False)
    """Positional arguments of a call of a ToolSpec; a toolkit passes all arguments by name."""
    session_id: str | None = None
    run_id: str | None = None
    """Shared by all calls of one model response; None for a single call."""
    caller: str | None = None
    """Who calls: `"direct"`, a model; `"programmatic"`, a program that a model has written; None: the host."""
    is_approved: bool = False
    """Whether exactly this call has been approved."""
    is_served: bool = False
    """Whether it came from an MCP client: nothing is raised then."""
    is_anonymous: bool = False
    """Whether its client cannot be distinguished from others: its session ends with it."""
    masks_errors: bool = False
    """Whether the result hides the text of an exception that is no ToolError."""
    emit: EmitChunk | None = field(default=None, repr=False)
    """Takes the chunks of a stream; None without a reader."""
    report: ProgressCallback | None = field(default=None, repr=False)
    """Takes the progress that the tool reports; None without a listener."""
    roots: tuple[Path, ...] | None = field(default=None, repr=False)
    """The folders that the host allows tools to touch; None if it has not said so."""
    secret_key: SecretKey = field(default=_PROCESS_KEY, repr=False)
    """The toolkit's key for digests that only the host can make; without a toolkit a random one."""
    approved_questions: tuple[str, ...] = field(default=(), repr=False)
    """The digests of questions of the body that were approved in an earlier run of it."""
    resumed_program: Any = field(default=None, repr=False)
    """The program that this call continues, for the tool that runs programs."""
    question_approver: QuestionApprover | None = field(default=None, repr=False)
    """Decides on what the body asks; None: each question ends the call, which waits for an approval."""
    approval_expiry: float | None = None
    """For how many seconds a request to approve it can be approved; None: forever."""
    open_toolkit: Callable[[], Any] | None = field(default=None, repr=False)
    """Returns the toolkit, session or selection that the caller used; None without one."""
    plan: Plan = field(repr=False)
    body: Body = field(repr=False)
    state_scopes: StateScopes = field(repr=False)
    describe: Callable[[], ToolDefinition] = field(repr=False)
    scope: CallScope = field(default_factory=CallScope, repr=False)

    @property
    def definition(self) -> ToolDefinition:
        """The tool's definition for models."""
        return self.describe()

    @property
    def secrets(self) -> frozenset[str]:
        """The names of the arguments that must not be logged."""
        return self.plan.secret_names

    @property
    def interrupted(self) -> ToolResult | None:
        """The partial result of an interrupted body, for middleware that sees a CancelledError."""
        return self.scope.interrupted

    @property
    def takes_context(self) -> bool:
        """Whether the body takes a ToolContext of this call; without a toolkit it gets one that is not connected."""
        return self.plan.takes_context and self.open_toolkit is not None

    def make_context(self, emit: Callable[[ToolResult], None] | None = None) -> ToolContext:
        """Return a ToolContext of this call; `emit` queues a chunk for the reader."""
        self.scope.context = context = ToolContext(
            call_id=self.id,
            tool=self.name,
            run_id=self.run_id,
            caller=self.caller,
            session_id=self.session_id,
            state=_read_only(self.state_scopes),
            roots=self.roots or (),
            forbids_files=self.roots == (),
            is_approved=self.is_approved,
            is_served=self.is_served,
            is_anonymous=self.is_anonymous,
            masks_errors=self.masks_errors,
            _links=CallLinks(
                open_toolkit=self.open_toolkit,
                emit=emit,
                report=self.report,
                asker=self._make_questions(),
                resumed_program=self.resumed_program,
                pause=self.scope.pause,
                mask=self._mask,
            ),
        )
        if self.scope.is_cancelled:
            context.cancel()
        return context

    def _mask(self, text: str) -> str:
        return redact(text, self.scope.bound_values)

    def _make_questions(self) -> BodyQuestions:
        approver = self.question_approver

        async def decide(question: Question) -> None:
            if approver is not None:
                await approver.decide(self, question)

        approved = self.approved_questions
        return BodyQuestions(
            self.name, self.scope, key=self.secret_key, approved=approved, approver=approver, decide=decide
        )

    def has_hint(self, *hints: str) -> bool:
        """Return whether one of these annotations, such as `"readOnlyHint"`, is true for the tool.

        The annotations of an imported tool are ignored: its host says by `idempotent=` whether a call may be repeated.
        """
        if self.plan.is_repeatable is not None:
            return self.plan.is_repeatable
        annotations = self.definition.annotations or {}
        return any(annotations.get(hint) is True for hint in hints)


def _read_only(scopes: StateScopes) -> Mapping[str, Any]:
    """Return the states as one read-only mapping: a copy, or a view of those that only foreign code could copy."""
    if all(type(scope) is dict for scope in scopes):
        return MappingProxyType(dict(chain_scopes(scopes)))
    return MappingProxyType(ChainMap(*scopes))  # type: ignore[arg-type]  # a ChainMap writes to its first mapping only


Next = Callable[[Call], Awaitable[ToolResult]]
"""Runs the inner middleware, then the body. A middleware may call it several times, or not at all."""

Middleware = Callable[[Call, Next], Awaitable[ToolResult]]
"""Wraps a call: `async (call, next) -> ToolResult`."""

Wrapped = TypeVar("Wrapped", bound=Callable[..., Any])

_INLINE_ATTRIBUTE = "is_inline"


def inline(middleware: Wrapped) -> Wrapped:
    """Mark a middleware that awaits only `next` and `call.emit`: sync calls need no event loop for it.

    A marked middleware that awaits something else raises ToolSpecError when it does.
    """
    setattr(middleware, _INLINE_ATTRIBUTE, True)
    return middleware


def is_inline(middleware: Middleware) -> bool:
    """Return whether a middleware is marked with `inline`."""
    return getattr(middleware, _INLINE_ATTRIBUTE, False) is True
