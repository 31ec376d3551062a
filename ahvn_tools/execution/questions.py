"""Questions: what a body asks a person, in its own words, before it goes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_jsonable_python

from ahvn_tools.errors import ApprovalRequiredError, CallCancelledError, SyncCallError, ToolSpecError
from ahvn_tools.execution.background_loop import running_loop
from ahvn_tools.execution.deadline import outcome_of
from ahvn_tools.execution.outcome import Outcome
from ahvn_tools.execution.runner import capture_outcome
from ahvn_tools.execution.scope import CallScope, QuestionApprovals
from ahvn_tools.json_types import JsonObject
from ahvn_tools.redaction import reveal_secrets
from ahvn_tools.secret_key import SecretKey

_PURPOSE = "question of a tool"


@dataclass(frozen=True, kw_only=True)
class Question:
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

    decide: Callable[[Any, Question], Awaitable[None]]
    """Takes the Call and the question. Returns when it is approved, else raises a ToolCallError."""
    loop: asyncio.AbstractEventLoop


class BodyQuestions:
    """The questions of one run of a body. An approval that was given before answers one of them."""

    def __init__(
        self,
        tool: str,
        scope: CallScope,
        *,
        key: SecretKey,
        approved: tuple[str, ...],
        approver: QuestionApprover | None,
        decide: Callable[[Question], Awaitable[None]],
    ) -> None:
        """`decide` is the approver's for this call."""
        self._tool, self._scope, self._key = tool, scope, key
        self.approver = approver
        """None: there is no person to ask now."""
        if scope.question_approvals is None:
            scope.question_approvals = QuestionApprovals(approved, list(approved))
        self._approvals = scope.question_approvals
        self._decide = decide
        self._waiting: set[queue.SimpleQueue[Outcome]] = set()
        self._is_cancelled = False

    @property
    def answer_by(self) -> float | None:
        """Until when the caller waits for the result, in seconds since 1970; None: for any time."""
        return self._scope.answer_by

    @property
    def approved(self) -> tuple[str, ...]:
        """The digests of the questions of this call that were approved, now or in an earlier run."""
        return self._approvals.approved

    async def aask(self, action: str, details: Mapping[str, Any] | None) -> None:
        """Return when the question is approved, else raise."""
        question, approver = self._create(action, details), self.approver
        if self._was_approved(question):
            return
        if approver is None:
            raise self._pending_error(question)
        if asyncio.get_running_loop() is approver.loop:
            await self._ask_approver(question)
        else:  # a loop of the body's own
            asked = asyncio.run_coroutine_threadsafe(self._ask_approver(question), approver.loop)
            await asyncio.wrap_future(asked)

    def ask(self, action: str, details: Mapping[str, Any] | None) -> None:
        """Return when the question is approved, else raise. Raises SyncCallError in the approver's own loop."""
        question, approver = self._create(action, details), self.approver
        if self._was_approved(question):
            return
        if approver is None:
            raise self._pending_error(question)
        if running_loop() is approver.loop:
            raise SyncCallError(
                f"`ask` in {self._tool!r} would block the event loop that the approver runs in: use "
                "`await context.aask(…)` in an async function, or leave out run_in_thread=False."
            )
        self._wait_for(question, approver.loop)

    def cancel(self) -> None:
        """Let those that wait in `ask` raise CallCancelledError. From any thread."""
        self._is_cancelled = True
        for answers in list(self._waiting):
            answers.put(Outcome(error=self._cancelled_error()))

    def _wait_for(self, question: Question, loop: asyncio.AbstractEventLoop) -> None:
        """Ask in the loop, and wait in this thread, which may be interrupted by Ctrl-C at any point."""
        answers: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        tasks: list[asyncio.Task[Outcome]] = []

        def start() -> None:
            tasks.append(loop.create_task(capture_outcome(self._ask_approver, question)))
            tasks[0].add_done_callback(lambda task: answers.put(outcome_of(task)))

        def stop() -> None:
            for task in tasks:
                task.cancel()

        self._waiting.add(answers)
        try:
            if self._is_cancelled:
                raise self._cancelled_error()
            loop.call_soon_threadsafe(start)
            answers.get().get(tool=self._tool)
        finally:
            self._waiting.discard(answers)
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(stop)

    async def _ask_approver(self, question: Question) -> None:
        """Ask. The time until the answer does not count towards the timeout of the body."""
        with self._scope.pause():
            await self._decide(question)
        self._approvals.approved = (*self.approved, question.digest)

    def _create(self, action: str, details: Mapping[str, Any] | None) -> Question:
        if not isinstance(action, str) or not action:  # type: ignore[redundant-expr]  # a body may pass anything
            raise ToolSpecError("Pass what you ask for as a text: ask('delete the folder', {'path': …}).")
        exact = _to_json(reveal_secrets(details))
        digest = self._key.digest(_PURPOSE, [self._tool, action, exact])
        return Question(action=action, details=_to_json(details), digest=digest, earlier=self.approved)

    def _was_approved(self, question: Question) -> bool:
        if self._is_cancelled:
            raise self._cancelled_error()
        if question.digest not in self._approvals.unused:
            return False
        self._approvals.unused.remove(question.digest)
        return True

    def _pending_error(self, question: Question) -> ApprovalRequiredError:
        error = ApprovalRequiredError("This call needs an approval before it can go on.", tool=self._tool)
        error.question = question
        return error

    def _cancelled_error(self) -> CallCancelledError:
        return CallCancelledError(f"The call of {self._tool!r} was cancelled.", tool=self._tool)


def _to_json(details: Any) -> JsonObject:
    """Return the details of a question as JSON. Raises ToolSpecError for what is none."""
    try:
        data = json.loads(json.dumps(to_jsonable_python({} if details is None else details)))
    except Exception:  # noqa: BLE001  # foreign code may make the JSON, and raise anything
        data = None
    if not isinstance(data, dict):
        raise ToolSpecError("The details of a question are a dict of JSON data.") from None
    return data
