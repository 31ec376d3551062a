"""Which actions of built-in tools a person must approve."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ahvn_tools.context import ToolContext
from ahvn_tools.errors import DefinitionError

ActionKind = Literal["read", "write", "delete", "execute", "network"]


@dataclass(frozen=True, kw_only=True)
class Action:
    """What a tool is about to do."""

    kind: ActionKind
    text: str
    """The action in words, as a person reads it: "Delete notes/today.md"."""
    is_risky: bool = False
    """Whether it may do more than it seems: it writes a file that is executed later, or runs an unknown program."""
    runs_later: bool = False
    """Whether it writes a file that is executed later, or obeyed, by programs that nobody has named."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """JSON data for the approver: paths, a diff, the command."""


Approve = Literal["always", "risky", "never"] | Callable[[Action], bool]
"""What needs an approval: every action that is no read, risky ones, none; or a function of the action."""


class Approval:
    """Asks for the approval of actions, through the toolkit that runs the call."""

    def __init__(self, approve: Approve) -> None:
        """Raise DefinitionError for anything but the three words and functions."""
        if approve not in ("always", "risky", "never") and not callable(approve):
            raise DefinitionError(
                f"`approve` is 'always', 'risky', 'never' or a function of the action, not {approve!r}."
            )
        self._approve = approve

    @property
    def may_ask(self) -> bool:
        """Whether any action may need an approval."""
        return self._approve != "never"

    def is_needed(self, action: Action) -> bool:
        """Return whether the action needs an approval."""
        if callable(self._approve):
            return bool(self._approve(action))
        if self._approve == "always":
            return action.kind != "read"
        return self._approve == "risky" and action.is_risky

    def require(self, context: ToolContext, action: Action) -> None:
        """Ask if it is needed and not decided by an approval or a rule, and return when the action is approved.

        Call it before the first effect: after the approval the tool may run again from its first line. Raises
        CallRejectedError or ApprovalRequiredError otherwise, and ToolError outside of a toolkit.
        """
        if self.is_needed(action) and not self._is_decided(context, action):
            context.ask(action.text, action.details)

    def _is_decided(self, context: ToolContext, action: Action) -> bool:
        """Return whether the risk was accepted for this call: by a person, or by a rule of the toolkit.

        No rule decides about a file that runs later: it names a path, and not what the file does.
        """
        if self._approve != "risky":
            return False
        by_rule = context._links.is_allowed_by_rule()  # noqa: SLF001  # of this package
        return context.is_approved or (by_rule and not action.runs_later)
