"""Call: one call as it passes through the middleware to the body; and the type of a middleware.

`CallScope` is what is known of it while it runs, and the way to cancel it. `BodyQuestions` is what its body asks a
person, in its own words, before it goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import weakref
from collections import ChainMap
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pydantic_core import to_jsonable_python

from ahvn_tools.binding import StateScopes, chain_scopes
from ahvn_tools.context import CallLinks, CallRequest, ToolContext
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import (
    ApprovalRequiredError,
    CallCancelledError,
    SyncCallError,
    ToolSpecError,
)
from ahvn_tools.execution.background_loop import running_loop
from ahvn_tools.execution.deadline import Deadline, outcome_of
from ahvn_tools.execution.outcome import Outcome
from ahvn_tools.execution.plan import Arguments, Body, Plan
from ahvn_tools.execution.runner import capture_outcome
from ahvn_tools.json_types import JsonObject
from ahvn_tools.redaction.texts import make_mask
from ahvn_tools.redaction.values import HiddenValues, reveal_secrets
from ahvn_tools.results import ToolResult, unfinished_result
from ahvn_tools.secret_key import SecretKey


@dataclass(slots=True, eq=False, repr=False)
class CallScope:
    """The error and the partial result of a call, and whether it was cancelled by its id."""

    error: BaseException | None = None
    """What the body or a middleware raised; `call` raises it again unless its result was replaced."""
    error_detail: ErrorDetail | None = None
    """The detail of the result that was made of `error`."""
    bound_values: Mapping[str, Any] = field(default_factory=dict)
    """The values of the bound parameters, to be masked in what middleware shows of the call."""
    interrupted: ToolResult | None = None
    """The partial result at the moment when the body was interrupted."""
    context: ToolContext | None = None
    approved_questions: tuple[str, ...] | None = None
    """The digests of all questions of the body that were approved, in their order; None before its first run."""
    unused_approvals: list[str] = field(default_factory=list)
    """Those that were given before this call and have answered no question yet, also if the body runs again."""
    deadline: Deadline | None = None
    """The clock of the body, while it runs."""
    pause_outer: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    """Stops the clock of the call that this one is a part of inside of a `with` block, in which a person decides."""
    answer_by: float | None = None
    """Until when the caller waits for the result, in seconds since 1970; None: for any time."""
    is_for_client: bool = False
    """Whether the user of an MCP client may approve the call as a whole: rules ask for that, and not its tool."""
    is_allowed_by_rule: bool = False
    """Whether a rule of the toolkit allows the call, and not only its mode."""
    asked_by: str | None = None
    """Why the rules of the toolkit ask for an approval, in words for the host."""
    continued_in: list[object] = field(default_factory=list)
    """The limits that have let the call go on without counting it, because they counted its request."""
    is_cancelled: bool = False
    """Whether the call was cancelled by its id."""
    has_cancelled_task: bool = False
    """Whether that has cancelled the task that runs the call."""
    _request_task_cancel: Callable[[], None] | None = None
    _task_ref: weakref.ref[asyncio.Task[Any]] | None = None
    _cancelling_before: int = 0

    def record_error(self, error: BaseException | None, result: ToolResult) -> ToolResult:
        """Remember an exception with the result that was made of it; return the result."""
        if error is not None:
            self.error, self.error_detail = error, result.error
        return result

    @contextlib.contextmanager
    def pause(self) -> Generator[None]:
        """Stop all clocks of the call inside this block, in which a person decides. In the loop of the call."""
        body = contextlib.nullcontext() if self.deadline is None else self.deadline.hold()
        with body, self.pause_outer():
            yield

    def note_unstarted(self, reason: str | None) -> None:
        """Note why the remote tool that the body calls has not started; None: it has. From any thread."""
        if (deadline := self.deadline) is not None:
            deadline.unstarted = None if reason is None else (reason, reason)

    def cancel(self) -> None:
        """Cancel the call, from any thread."""
        self.is_cancelled = True
        if (context := self.context) is not None:
            context._cancel()  # noqa: SLF001  # of this package
        if (request_task_cancel := self._request_task_cancel) is not None:
            request_task_cancel()

    @property
    def is_caller_cancelled(self) -> bool:
        """Whether a CancelledError that has just arrived cancels the caller's task, and not just this call."""
        task = None if self._task_ref is None else self._task_ref()
        return task is not None and task.cancelling() > self._cancelling_before + self.has_cancelled_task

    @contextlib.contextmanager
    def attach_task(self) -> Generator[None]:
        """Let `cancel` cancel the current task inside this block."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # a loop runs a call in a task
        # weakly: a task whose loop was closed is collected together with what it holds
        task_ref = self._task_ref = weakref.ref(task)
        loop, has_left = task.get_loop(), False

        def cancel_task() -> None:
            if not (has_left or self.has_cancelled_task) and (task := task_ref()) is not None:
                self.has_cancelled_task = True
                task.cancel()

        def request_task_cancel() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(cancel_task)

        self._cancelling_before, self._request_task_cancel = task.cancelling(), request_task_cancel
        try:
            yield
        finally:
            has_left, self._request_task_cancel, self._task_ref = True, None, None
            if self.has_cancelled_task:
                task.uncancel()

    def interrupted_result(self, tool: str, value: Any = None, *, is_raw: bool = False) -> ToolResult:
        """Return, and remember, the result of a body that was interrupted; `value` is what it had made so far.

        `is_raw`: only the host may read that.
        """
        detail = ErrorDetail(code="cancelled", message=f"The call of {tool!r} was cancelled.")
        self.interrupted = unfinished_result(value, detail, is_raw=is_raw, is_interrupted=True)
        return self.interrupted


_PURPOSE = "question of a tool"


@dataclass(frozen=True, kw_only=True)
class ApprovalQuestion:
    """What a body asks."""

    action: str
    details: JsonObject
    """JSON, with the values of pydantic's secret types masked."""
    digest: str
    """HMAC of the exact question, with the toolkit's secret key."""
    earlier: tuple[str, ...]
    """The digests of the questions of this call that were approved before."""


@dataclass(frozen=True, eq=False)
class QuestionApprover:
    """Decides on questions, in the event loop that runs the middleware of the call."""

    decide: Callable[[Any, ApprovalQuestion], Awaitable[None]]
    """Takes the Call and the question. Returns when it is approved, else raises a ToolCallError."""
    loop: asyncio.AbstractEventLoop


class BodyQuestions:
    """The questions of one run of a body. An approval that was given before answers one of them."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.approver: QuestionApprover | None = call.question_approver
        """None: there is no person to ask now."""
        if call.scope.approved_questions is None:
            call.scope.approved_questions = call.approved_questions
            call.scope.unused_approvals = list(call.approved_questions)
        self._waiting: set[queue.SimpleQueue[Outcome]] = set()
        self._is_cancelled = False

    @property
    def answer_by(self) -> float | None:
        """Until when the caller waits for the result, in seconds since 1970; None: for any time."""
        return self._call.scope.answer_by

    @property
    def approved(self) -> tuple[str, ...]:
        """The digests of the questions of this call that were approved, now or in an earlier run."""
        return self._call.scope.approved_questions or ()

    async def aask(self, action: str, details: Mapping[str, Any] | None) -> None:
        """Return when the question is approved, else raise."""
        if (asked := self._ask_person(action, details)) is None:
            return
        question, approver = asked
        if asyncio.get_running_loop() is approver.loop:
            await self._ask_approver(question, approver)
        else:  # a loop of the body's own
            answer = asyncio.run_coroutine_threadsafe(self._ask_approver(question, approver), approver.loop)
            await asyncio.wrap_future(answer)

    def ask(self, action: str, details: Mapping[str, Any] | None) -> None:
        """Return when the question is approved, else raise. Raises SyncCallError in the approver's own loop."""
        if (asked := self._ask_person(action, details)) is None:
            return
        question, approver = asked
        if running_loop() is approver.loop:
            raise SyncCallError(
                f"`ask` in {self._call.name!r} would block the event loop that the approver runs in: use "
                "`await context.aask(…)` in an async function, or leave out run_in_thread=False."
            )
        self._wait_for(question, approver)

    def cancel(self) -> None:
        """Let those that wait in `ask` raise CallCancelledError. From any thread."""
        self._is_cancelled = True
        for answers in list(self._waiting):
            answers.put(Outcome(error=self._cancelled_error()))

    def _wait_for(self, question: ApprovalQuestion, approver: QuestionApprover) -> None:
        """Ask in the loop, and wait in this thread, which may be interrupted by Ctrl-C at any point."""
        answers: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        tasks: list[asyncio.Task[Outcome]] = []
        loop = approver.loop

        def start() -> None:
            tasks.append(loop.create_task(capture_outcome(self._ask_approver, question, approver)))
            tasks[0].add_done_callback(lambda task: answers.put(outcome_of(task)))

        def stop() -> None:
            for task in tasks:
                task.cancel()

        self._waiting.add(answers)
        try:
            if self._is_cancelled:
                raise self._cancelled_error()
            loop.call_soon_threadsafe(start)
            answers.get().get(tool=self._call.name)
        finally:
            self._waiting.discard(answers)
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(stop)

    async def _ask_approver(self, question: ApprovalQuestion, approver: QuestionApprover) -> None:
        """Ask. The time until the answer does not count towards the timeout of the body."""
        with self._call.scope.pause():
            await approver.decide(self._call, question)
        self._call.scope.approved_questions = (*self.approved, question.digest)

    def _ask_person(
        self, action: str, details: Mapping[str, Any] | None
    ) -> tuple[ApprovalQuestion, QuestionApprover] | None:
        """Return the question and who decides on it; None if it was approved before. Raises if nobody can decide."""
        if not isinstance(action, str) or not action:  # type: ignore[redundant-expr]  # a body may pass anything
            raise ToolSpecError("Pass what you ask for as a text: ask('delete the folder', {'path': …}).")
        exact, tool = _to_json(reveal_secrets(details)), self._call.name
        digest = self._call.secret_key.digest(_PURPOSE, [tool, action, exact])
        question = ApprovalQuestion(action=action, details=_to_json(details), digest=digest, earlier=self.approved)
        if self._is_cancelled:
            raise self._cancelled_error()
        if digest in (unused := self._call.scope.unused_approvals):
            unused.remove(digest)
            return None
        if self.approver is None:
            error = ApprovalRequiredError("This call needs an approval before it can go on.", tool=tool)
            error.question = question
            raise error
        return question, self.approver

    def _cancelled_error(self) -> CallCancelledError:
        tool = self._call.name
        return CallCancelledError(f"The call of {tool!r} was cancelled.", tool=tool)


def _to_json(details: Any) -> JsonObject:
    """Return the details of a question as JSON. Raises ToolSpecError for what is none."""
    try:
        data = json.loads(json.dumps(to_jsonable_python({} if details is None else details)))
    except Exception:  # noqa: BLE001  # foreign code may make the JSON, and raise anything
        data = None
    if not isinstance(data, dict):
        raise ToolSpecError("The details of a question are a dict of JSON data.") from None
    return data


_PROCESS_KEY = SecretKey.create(None)

EmitChunk = Callable[[ToolResult], Awaitable[None]]
"""Takes one chunk of a stream, and returns when its reader wants the next."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call(CallRequest):
    """One call as a middleware sees it. `dataclasses.replace` makes one with other arguments or another `emit`."""

    id: str
    name: str
    """The tool's name where it is called."""
    arguments: Arguments = field(repr=False)
    """The caller's arguments; they are validated behind the last middleware."""
    session_id: str | None = None
    is_anonymous: bool = False
    """Whether its client cannot be distinguished from others: its session ends with it."""
    masks_errors: bool = False
    """Whether the result hides the text of an exception that is no ToolError."""
    secret_key: SecretKey = field(default=_PROCESS_KEY, repr=False)
    """The toolkit's key for digests that only the host can make; without a toolkit a random one."""
    approval_expiry: float | None = None
    """For how many seconds a request to approve it can be approved; None: forever."""
    open_toolkit: Callable[[], Any] | None = field(default=None, repr=False)
    """Returns the toolkit, session or selection that the caller used; None without one."""
    plan: Plan = field(repr=False)
    body: Body = field(repr=False)
    state_scopes: StateScopes = field(repr=False)
    find_session_secrets: Callable[[], Iterable[tuple[str, Any]]] = field(default=tuple, repr=False)
    """Returns the secret values that the tools of the toolkit have bound here, by parameter."""
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
    def is_continued(self) -> bool:
        """Whether it was made before, and has waited for an approval or for its result since."""
        is_resumed = self.supplied is not None or self.resumed_program is not None
        return self.is_approved or bool(self.approved_questions) or is_resumed

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
            _masks_errors=self.masks_errors,
            _links=CallLinks(
                open_toolkit=self.open_toolkit,
                emit=emit,
                report=self.report,
                asker=BodyQuestions(self),
                resumed_program=self.resumed_program,
                pause=self.scope.pause,
                note_unstarted=self.scope.note_unstarted,
                is_allowed_by_rule=lambda: self.scope.is_allowed_by_rule,
                make_mask=lambda: make_mask(self.hidden_values()),
                find_hidden=self.hidden_values,
            ),
        )
        if self.scope.is_cancelled:
            context._cancel()  # noqa: SLF001  # of this package
        return context

    def hidden_values(self) -> dict[str, HiddenValues]:
        """Return secret arguments and bound values by name: those that the body received, else those in the state.

        Those of the calls whose results this one returns are included, and the secret values of the session.
        """
        bound = {**self.plan.readable_values(self.state_scopes), **self.scope.bound_values}
        hidden = self.plan.hidden_values({**self.arguments, **bound}, self.body)
        inner = () if self.scope.context is None else self.scope.context._inner_values  # noqa: SLF001  # of this package
        for name, value in (*inner, *self.find_session_secrets()):
            values = hidden.setdefault(name, HiddenValues())
            if not any(value is known for known in values):
                values.append(value)
        return hidden

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
