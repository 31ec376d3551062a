"""Call: one call on its way through the middleware to the body; and what a middleware is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from ahvn_tools.binding import StateScopes, chain_scopes
from ahvn_tools.context import ProgressCallback, ToolContext
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.execution.plan import Arguments, Body, Plan
from ahvn_tools.execution.scope import CallScope
from ahvn_tools.results import ToolResult

EmitChunk = Callable[[ToolResult], Awaitable[None]]
"""Takes one chunk of a stream and returns when its reader wants the next."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call as a middleware sees it. `dataclasses.replace` makes one with other arguments, or another `emit`."""

    id: str
    name: str
    """The tool's name where it is called."""
    arguments: Arguments = field(repr=False)
    """As the caller gave them; they are validated behind the last middleware."""
    session_id: str | None = None
    run_id: str | None = None
    """What the calls of one answer of a model have in common; None for a single call."""
    is_approved: bool = False
    """Whether somebody has allowed exactly this call already."""
    is_served: bool = False
    """Whether it came over a wire: nothing is raised then, and texts that are not meant for the model are masked."""
    shows_errors: bool = False
    """Whether these texts are shown over a wire, too."""
    emit: EmitChunk | None = field(default=None, repr=False)
    """Takes the chunks of a stream; None when nobody reads them."""
    report: ProgressCallback | None = field(default=None, repr=False)
    """Takes the progress that the tool tells of; None when nobody listens."""
    roots: tuple[Path, ...] = field(default=(), repr=False)
    """The folders that the host allows tools to touch."""
    open_toolkit: Callable[[], Any] | None = field(default=None, repr=False)
    """Gives the toolkit as the caller sees it; None without one."""
    plan: Plan = field(repr=False)
    body: Body = field(repr=False)
    state_scopes: StateScopes = field(repr=False)
    describe: Callable[[], ToolDefinition] = field(repr=False)
    scope: CallScope = field(default_factory=CallScope, repr=False)

    @property
    def definition(self) -> ToolDefinition:
        """What a model is shown of the tool."""
        return self.describe()

    @property
    def secrets(self) -> frozenset[str]:
        """The names of those arguments that must not be shown."""
        return self.plan.secret_names

    @property
    def interrupted(self) -> ToolResult | None:
        """What there was when the body was cut off; for middleware that sees a CancelledError pass."""
        return self.scope.interrupted

    def make_context(self, put: Callable[[ToolResult], None] | None = None) -> ToolContext | None:
        """Return what the tool may ask of this call, if it asks; `put` takes chunks."""
        if not self.plan.takes_context:
            return None
        self.scope.context = context = ToolContext(
            call_id=self.id,
            tool=self.name,
            run_id=self.run_id,
            session_id=self.session_id,
            state=MappingProxyType(dict(chain_scopes(self.state_scopes))),
            roots=self.roots,
            open_toolkit=self.open_toolkit,
            emit=put,
            report=self.report,
            is_approved=self.is_approved,
            is_served=self.is_served,
            shows_errors=self.shows_errors,
        )
        if self.scope.is_cancelled:
            context.cancel()
        return context

    def has_hint(self, *hints: str) -> bool:
        """Tell whether the tool's annotations say one of these, such as `"readOnlyHint"`.

        Those of a tool from elsewhere are not believed: its host says whether it may be called twice.
        """
        if self.plan.is_repeatable is not None:
            return self.plan.is_repeatable
        annotations = self.definition.annotations or {}
        return any(annotations.get(hint) is True for hint in hints)


Next = Callable[[Call], Awaitable[ToolResult]]
"""The rest of the way: further middleware, then the body. It may be called again, or not at all."""

Middleware = Callable[[Call, Next], Awaitable[ToolResult]]
"""Stands around a call: `async (call, next) -> ToolResult`."""

Wrapped = TypeVar("Wrapped", bound=Callable[..., Any])

_INLINE_ATTRIBUTE = "is_inline"


def inline(middleware: Wrapped) -> Wrapped:
    """Mark a middleware that awaits nothing but `next` and `call.emit`: sync calls need no event loop for it.

    A mark that is not true is an error when the middleware first waits for something else.
    """
    setattr(middleware, _INLINE_ATTRIBUTE, True)
    return middleware


def is_inline(middleware: Middleware) -> bool:
    """Tell whether a middleware is marked so."""
    return getattr(middleware, _INLINE_ATTRIBUTE, False) is True
