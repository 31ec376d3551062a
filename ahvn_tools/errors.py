"""Every error of the package, in one tree.

    ToolSpecError                 a mistake of the developer, raised where it is made
    ├── DefinitionError           (ValueError)   an object cannot become a tool
    ├── BindError                 (ValueError)   a parameter cannot be bound or unbound
    ├── StateKeyError             (ValueError)   a dotted key cannot be parsed or written
    ├── ToolLookupError           (KeyError)     there is no tool, group or format of this name
    ├── ToolkitError              (ValueError)   a toolkit refuses an addition, selection or change
    │   └── RequestUsedError                     the call of a request was decided before, and does not run again
    ├── SourceError               (ValueError)   a file, folder, server or document has no tools that can be loaded
    │   └── SkippedOperationError                an operation of an OpenAPI document cannot be a tool; the others are
    ├── PickleError               (TypeError)    a part of a spec cannot be pickled
    ├── SignatureError            (ValueError)   a pickle is not signed with the given key
    ├── MalformedAnswerError      (ValueError)   a model was asked again too often
    └── SyncCallError             (RuntimeError) a sync call would wait for its own event loop
    ToolCallError                 a call failed; `code` is stable
    ├── ToolNotFoundError         not_found      the toolkit has no such tool
    ├── ToolNotAvailableError     not_available  the tool is hidden from this audience, view or set of active groups
    ├── InvalidParametersError    invalid_parameters
    ├── UnboundStateError         unbound_state
    ├── InvalidResultError        invalid_result
    ├── ToolTimeoutError          timeout        (also a TimeoutError)
    ├── CallCancelledError        cancelled
    ├── ApprovalRequiredError     approval_required
    ├── ResultRequiredError       result_required  the tool is external: its result is supplied to `Toolkit.resume`
    ├── CallRejectedError         rejected       the call, or what its body asked for, was not approved
    ├── InputRequiredError        input_required  only a client of a served toolkit can provide the input
    ├── ToolChangedError          changed        the server's tool differs from the accepted one
    ├── ToolConnectionError       connection     there is no connection to the server
    ├── LimitExceededError        limit_exceeded too many calls per time, run or session
    └── ToolError                 tool_error     raised by a tool, with a text for the model

A message names its subject with `repr` and ends with the fix. It never contains a bound value or an argument. The
message of a ToolCallError is for a model: where only the developer can fix what is wrong, the fix is in its
`explanation`, which is the text of the exception.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, TypeVar

if TYPE_CHECKING:
    from ahvn_tools.error_detail import ArgumentProblem

P = ParamSpec("P")
R = TypeVar("R")


class ToolSpecError(Exception):
    """A mistake in how a tool is defined, bound or used. For the developer."""


class DefinitionError(ToolSpecError, ValueError):
    """An object cannot become a tool, or an option of a tool is wrong."""

    reason: Exception | None = None
    """The error about an annotation, which is no cause: its traceback would be long and would explain nothing."""


class BindError(ToolSpecError, ValueError):
    """A parameter cannot be bound or unbound as requested."""


class StateKeyError(ToolSpecError, ValueError):
    """A dotted key cannot be parsed, or a value cannot be stored under it."""


class ToolLookupError(ToolSpecError, KeyError):
    """There is no tool, group or format of this name."""

    def __str__(self) -> str:
        """Return the message without the quotes that KeyError adds."""
        return str(self.args[0])


class ToolkitError(ToolSpecError, ValueError):
    """A toolkit refuses an addition, a selection or a change."""


class RequestUsedError(ToolkitError):
    """A call that waited was decided before, and may have run. Nothing runs again. Reject it to go on."""


class SourceError(ToolSpecError, ValueError):
    """A file, folder, server or document cannot be loaded as tools."""

    def __init__(self, message: str, *, file: str | None = None, line: int | None = None) -> None:
        """Store where the mistake is, if it is in a file; the message says it, too."""
        super().__init__(message)
        self.file = file
        self.line = line
        self.untrusted: dict[str, str] = {}
        """What is not trusted, if the error is about nothing else: pattern -> how the error names the thing."""


class SkippedOperationError(SourceError):
    """An operation of an OpenAPI document cannot be a tool. The others of the document are loaded."""


class PickleError(ToolSpecError, TypeError):
    """A part of a spec cannot be pickled; the message names it. A TypeError, as most pickling errors of Python are."""


class SignatureError(ToolSpecError, ValueError):
    """A pickle is not signed, or not with this key, or was changed. Nothing of it was unpickled."""


class MalformedAnswerError(ToolSpecError, ValueError):
    """A model has sent malformed answers as often as it was asked, or one that cannot be read.

    See `Conversation.from_error`.
    """


class SyncCallError(ToolSpecError, RuntimeError):
    """A sync call would wait for the event loop that it blocks."""


class ToolCallError(Exception):
    """A call failed. For the caller: `code` is stable, and the message may be sent to a model.

    `explanation` is for the developer: what is wrong and how to fix it. It is the text of the exception in place of
    `message`, and it is logged.
    """

    code: ClassVar[str] = "tool_error"
    mcp_response: Any = None
    """What a client of a served toolkit receives instead: an MCP result, or an MCPError. None: this error."""
    problems: tuple[ArgumentProblem, ...] = ()
    """Where the problems of arguments are, of an InvalidParametersError; see `ErrorDetail.problems`."""

    def __init__(self, message: str, *, tool: str | None = None, explanation: str | None = None) -> None:
        super().__init__(message if explanation is None else explanation)
        self.message = message
        self.tool = tool
        self.explanation = explanation


class ToolNotFoundError(ToolCallError):
    """The toolkit has no tool of this name. The model reads similar names: send it the result."""

    code = "not_found"


class ToolNotAvailableError(ToolCallError):
    """The toolkit has the tool, but not for this audience or view, or its group is not active.

    Activate the group, or call the tool in a view that has it.
    """

    code = "not_available"


class InvalidParametersError(ToolCallError):
    """The arguments do not fit the tool's input schema. The model reads what is wrong: send it the result."""

    code = "invalid_parameters"

    def __init__(
        self,
        message: str,
        *,
        tool: str | None = None,
        explanation: str | None = None,
        problems: tuple[ArgumentProblem, ...] = (),
    ) -> None:
        super().__init__(message, tool=tool, explanation=explanation)
        self.problems = problems


MISSING_VALUE = "The tool cannot run: its host has not provided a value that it needs."
"""What a model reads of a bound parameter without a usable value: only the host can provide it."""


class UnboundStateError(ToolCallError):
    """A bound parameter has no usable value in the state. Set the key that the explanation names, or a default."""

    code = "unbound_state"

    def __init__(
        self, message: str, *, tool: str | None = None, parameter: str, key: str, explanation: str | None = None
    ) -> None:
        super().__init__(message, tool=tool, explanation=explanation)
        self.parameter = parameter
        self.key = key

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle with the required keyword arguments, which Python's default omits."""
        rebuild = functools.partial(
            type(self), tool=self.tool, parameter=self.parameter, key=self.key, explanation=self.explanation
        )
        return rebuild, (self.message,)


INVALID_RESULT = "The tool returned an invalid result."
"""What a model reads of a result that cannot be sent: only the developer can correct the tool."""


class InvalidResultError(ToolCallError):
    """The tool's return value has no JSON form, or does not fit the output schema.

    Correct the tool or its annotation: the explanation says what does not fit.
    """

    code = "invalid_result"
    problem: str | None = None
    """What does not fit, as a part of a sentence; None: the explanation alone says it."""
    graph_output: Any = None
    """What the tool returned, if a LangGraph graph can apply it."""


class ToolTimeoutError(ToolCallError, TimeoutError):
    """The tool did not finish within its limit of `timeout` seconds. Make it faster, or set a longer timeout."""

    code = "timeout"
    masked_message: str | None = None
    """What a model reads instead of the message with `mask_errors`; None: the message."""

    def __init__(self, message: str, *, tool: str | None = None, timeout: float | None = None) -> None:
        super().__init__(message, tool=tool)
        self.timeout = timeout


class CallCancelledError(ToolCallError):
    """The call was cancelled by its id or by the tool itself, or interrupted. Call it again if it is still needed."""

    code = "cancelled"


class ApprovalRequiredError(ToolCallError):
    """The call must be approved first. Pass the decision to `Toolkit.resume`, or set an `approver`."""

    code = "approval_required"
    question: Any = None
    """What the body asked in its own words; None: it needs an approval of the whole call."""


class ResultRequiredError(ToolCallError):
    """The result of the call is supplied from outside: the tool is external. Pass it to `Toolkit.resume`."""

    code = "result_required"


class CallRejectedError(ToolCallError):
    """The call, or what its body asked for, was not approved. The model reads the reason, if there is one."""

    code = "rejected"


class InputRequiredError(ToolCallError):
    """The tool asks its client for input; `mcp_response` is the request. Call it over MCP to answer."""

    code = "input_required"


class ToolChangedError(ToolCallError):
    """The tool has changed since it was accepted. Read the change, and call `accept` of its server if it is right."""

    code = "changed"


class ToolConnectionError(ToolCallError):
    """There is no connection to the tool's server, or it was lost. Call the tool again: the next call connects."""

    code = "connection"

    def __init__(
        self, message: str, *, tool: str | None = None, explanation: str | None = None, is_temporary: bool = True
    ) -> None:
        super().__init__(message, tool=tool, explanation=explanation)
        self.is_temporary = is_temporary
        """Whether another attempt may succeed; not, for example, without a credential. `retry` makes no other then."""


class LimitExceededError(ToolCallError):
    """There were too many calls per time, run or session. Wait `retry_after` seconds; None: waiting does not help."""

    code = "limit_exceeded"

    def __init__(
        self,
        message: str,
        *,
        tool: str | None = None,
        retry_after: float | None = None,
        explanation: str | None = None,
    ) -> None:
        super().__init__(message, tool=tool, explanation=explanation)
        self.retry_after = retry_after


class ToolError(ToolCallError):
    """The tool failed. Raise this error in a tool to send its text to the model, also from a served toolkit."""


def refused_arguments_error(problems: Iterable[Mapping[str, Any]], known: Container[str], *, tool: str) -> ToolError:
    """Return the error about arguments that a tool itself refused; `problems` is what pydantic lists.

    It shows no value. A model reads about arguments in `known`. The log says what is wrong with values of the host.
    """
    shown, hidden = [], []
    for problem in problems:
        name = str(problem["loc"][0]) if problem["loc"] else ""
        if name in known:
            shown.append(f"{name!r} is not valid ({problem['type']})")
        else:
            context = problem.get("ctx") or {}
            expected = [f": expects {context[key]}" for key in ("class", "class_name") if key in context]
            hidden.append(f"{name!r} ({problem['type']}{''.join(expected)})" if name else f"all ({problem['type']})")
    explanation = f"The tool {tool!r} refused what its host passes: {', '.join(hidden)}; bind other values."
    message = f"Invalid arguments: {'; '.join(shown) or 'the tool refused them'}."
    return ToolError(message, tool=tool, explanation=explanation if hidden else None)


def error_for_code(code: str, message: str, *, tool: str | None = None) -> ToolCallError:
    """Return the exception for the error code of a result."""
    for kind in ToolCallError.__subclasses__():
        if kind.code == code and kind is not UnboundStateError:
            return kind(message, tool=tool)
    error = ToolCallError(message, tool=tool)
    error.__dict__["code"] = code
    return error


def exception_text(error: BaseException) -> str:
    """Return the text of an exception, also of one whose `__str__` raises: it is not to hide that a tool has failed."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # an exception of a library may raise anything
        return "its text cannot be read"


MAX_TEXT_CHARS = 2_000
"""The maximum length of a text from a tool or a server."""


def clip(text: str, max_chars: int = MAX_TEXT_CHARS) -> str:
    """Return `text`, cut after `max_chars` characters."""
    return text if len(text) <= max_chars else f"{text[:max_chars]}… ({len(text) - max_chars} more characters)"


MIN_SIMILARITY = 0.7
"""How similar a known name must be to be suggested, from 0 to 1: a wrong suggestion misleads a model."""

MAX_COMPARED_NAMES = 500
"""How many known names are compared, because comparison is slow; of more, only those with the same first letter."""

MAX_LISTED_NAMES = 12
"""How many known names a message lists completely."""

MAX_NAME_CHARS = 200
"""A message quotes at most this many characters of an unknown name, which may come from a model; a longer name is
compared with no known one."""


MIN_ABBREVIATION = 4
"""How many first characters of an option suggest it."""


def quote_name(name: object) -> str:
    """Return an unknown name in quotes, cut after `MAX_NAME_CHARS` characters."""
    text = str(name)
    return repr(text) if len(text) <= MAX_NAME_CHARS else f"{text[:MAX_NAME_CHARS]!r}…"


def near_misses(name: str, known: Iterable[str]) -> str:
    """Return a sentence with the known names that are similar to `name`, or with all of them if they are few."""
    import difflib

    names = compared = [one for one in known if one != name]
    if len(names) > MAX_COMPARED_NAMES:
        compared = [known for known in names if known[:1] == name[:1]][:MAX_COMPARED_NAMES]
    if len(name) <= MAX_NAME_CHARS and (close := difflib.get_close_matches(name, compared, 3, MIN_SIMILARITY)):
        return _suggest(close)
    if names and len(names) <= MAX_LISTED_NAMES:
        return f"Known: {', '.join(map(repr, names))}."
    return f"None of the {len(names)} known names is similar." if names else "There are none."


def unknown_options(options: Iterable[str], known: Iterable[str]) -> str | None:
    """Return a text about the options that are not known, with similar names; None if all are known."""
    names = list(known)
    unknown = sorted(set(options).difference(names))
    return " ".join(f"Unknown option {quote_name(name)}. {_similar_options(name, names)}" for name in unknown) or None


def _similar_options(name: str, known: list[str]) -> str:
    """Return a sentence with similar options, or those that are a word of `name` or begin with it."""
    hint, words = near_misses(name, known), name.split("_")
    related = [one for one in known if one in words or (len(name) >= MIN_ABBREVIATION and one.startswith(name))]
    return _suggest(related[:3]) if related and not hint.startswith("Did") else hint


def _suggest(names: Iterable[str]) -> str:
    return f"Did you mean {' or '.join(map(repr, names))}?"


def suggests_options(function: Callable[P, R]) -> Callable[P, R]:
    """Let the TypeError for an unknown keyword argument name similar ones, as Python does from 3.13 on."""
    code = function.__code__
    known = frozenset(code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount])

    @functools.wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        if not options.keys() <= known:
            raise TypeError(f"{function.__qualname__}(): {unknown_options(options, sorted(known))}")
        return function(*arguments, **options)

    return call
