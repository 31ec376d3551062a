"""Every error of the package, in one tree.

    ToolSpecError                 a mistake of the developer, raised where it is made
    ├── DefinitionError           (ValueError)   this cannot become a tool
    ├── BindError                 (ValueError)   this parameter cannot be bound or unbound so
    ├── StateKeyError             (ValueError)   this dotted key cannot be parsed or written
    ├── ToolLookupError           (KeyError)     no tool, no group, or no format, of this name
    ├── ToolkitError              (ValueError)   this cannot be added, selected or changed so
    ├── PickleError               (TypeError)    something in the spec cannot travel
    └── SyncCallError             (RuntimeError) a sync door was used where it would wait for itself
    ToolCallError                 one call went wrong; `code` is stable
    ├── ToolNotFoundError         not_found      the toolkit has no such tool
    ├── ToolNotAvailableError     not_available  … not for this audience, view or set of active groups
    ├── InvalidParametersError    invalid_parameters
    ├── UnboundStateError         unbound_state
    ├── InvalidResultError        invalid_result
    ├── ToolTimeoutError          timeout        (also a TimeoutError)
    ├── CallCancelledError        cancelled
    ├── ApprovalRequiredError     approval_required
    ├── ToolChangedError          changed        a server tells something else of the tool than was accepted
    ├── ToolConnectionError       connection     (also: nothing to call through)
    ├── LimitExceededError        limit_exceeded too many calls in a time, a run or a session
    └── ToolError                 tool_error     raised by a tool to speak to the model

Messages name the thing with `repr` and end with what to do. None of them holds a bound value or an argument.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar


class ToolSpecError(Exception):
    """A mistake in how a tool is defined, bound or used. For the developer."""


class DefinitionError(ToolSpecError, ValueError):
    """What was given cannot become a tool."""


class BindError(ToolSpecError, ValueError):
    """A parameter cannot be bound or unbound as asked."""


class StateKeyError(ToolSpecError, ValueError):
    """A dotted key cannot be parsed, or a value cannot be stored under it."""


class ToolLookupError(ToolSpecError, KeyError):
    """No tool, no group, or no format, of this name."""

    def __str__(self) -> str:
        """Give the text as it is; KeyError would quote it."""
        return str(self.args[0])


class ToolkitError(ToolSpecError, ValueError):
    """Something cannot be added to a toolkit, selected from it, or changed in it, as asked."""


class PickleError(ToolSpecError, TypeError):
    """A part of the spec cannot be pickled; the message names it. A TypeError, as Python's own answer mostly is."""


class SyncCallError(ToolSpecError, RuntimeError):
    """A sync door was called where it would have to wait for itself."""


class ToolCallError(Exception):
    """One call went wrong. For the caller: `code` is stable, the message is safe to show to a model."""

    code: ClassVar[str] = "tool_error"

    def __init__(self, message: str, *, tool: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.tool = tool


class ToolNotFoundError(ToolCallError):
    """The toolkit has no tool of this name."""

    code = "not_found"


class ToolNotAvailableError(ToolCallError):
    """The toolkit has the tool, but not for this audience or view, or its group is not active."""

    code = "not_available"


class InvalidParametersError(ToolCallError):
    """The arguments do not fit the tool's input schema."""

    code = "invalid_parameters"


class UnboundStateError(ToolCallError):
    """A bound parameter has no usable value in the state."""

    code = "unbound_state"

    def __init__(self, message: str, *, tool: str | None = None, parameter: str, key: str) -> None:
        super().__init__(message, tool=tool)
        self.parameter = parameter
        self.key = key

    def __reduce__(self) -> tuple[object, ...]:
        """Carry the keyword-only parts over a process border."""
        return (_rebuild_unbound_state_error, (self.message, self.tool, self.parameter, self.key))


def _rebuild_unbound_state_error(message: str, tool: str | None, parameter: str, key: str) -> UnboundStateError:
    return UnboundStateError(message, tool=tool, parameter=parameter, key=key)


class InvalidResultError(ToolCallError):
    """The tool's return value has no JSON form, or its output schema refuses it."""

    code = "invalid_result"


class ToolTimeoutError(ToolCallError, TimeoutError):
    """The tool did not finish within its limit of `timeout` seconds."""

    code = "timeout"

    def __init__(self, message: str, *, tool: str | None = None, timeout: float | None = None) -> None:
        super().__init__(message, tool=tool)
        self.timeout = timeout


class CallCancelledError(ToolCallError):
    """The call was cancelled by its id, or the tool raised a cancellation of its own."""

    code = "cancelled"


class ApprovalRequiredError(ToolCallError):
    """The call has to be allowed by somebody first."""

    code = "approval_required"


class ToolChangedError(ToolCallError):
    """The tool is not what it was when somebody accepted it."""

    code = "changed"


class ToolConnectionError(ToolCallError):
    """There is no connection to call through, or it was lost."""

    code = "connection"


class LimitExceededError(ToolCallError):
    """There were too many calls in a time, a run or a session; `retry_after` seconds later there is room, if ever."""

    code = "limit_exceeded"

    def __init__(self, message: str, *, tool: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message, tool=tool)
        self.retry_after = retry_after


class ToolError(ToolCallError):
    """Raise it in a tool to speak to the model: the text is shown everywhere, as it is."""


def error_for_code(code: str, message: str, *, tool: str | None = None) -> ToolCallError:
    """Return the error that stands for a result with this code."""
    for kind in ToolCallError.__subclasses__():
        if kind.code == code and kind is not UnboundStateError:
            return kind(message, tool=tool)
    error = ToolCallError(message, tool=tool)
    error.__dict__["code"] = code
    return error


MIN_SIMILARITY = 0.7
"""How alike a known name must be to be offered, from 0 to 1: one that is not meant leads a model astray."""

MAX_COMPARED_NAMES = 500
"""A name is compared with so many known ones at most; of more, with those that begin alike: comparing takes time."""

MAX_LISTED_NAMES = 12
"""A message lists all known names when they are at most this many."""


def near_misses(name: str, known: Iterable[str]) -> str:
    """Return a sentence with the known names nearest to `name`, or with all of them when they are few."""
    import difflib

    names = compared = list(known)
    if len(names) > MAX_COMPARED_NAMES:
        compared = [known for known in names if known[:1] == name[:1]][:MAX_COMPARED_NAMES]
    close = difflib.get_close_matches(name, compared, n=3, cutoff=MIN_SIMILARITY)
    if close:
        return f"Did you mean {' or '.join(map(repr, close))}?"
    if names and len(names) <= MAX_LISTED_NAMES:
        return f"Known: {', '.join(map(repr, names))}."
    return f"There are {len(names)} known names, none like it." if names else "There are none."
