"""ProgramCalls: makes the calls of one program, as parts of the call that runs the program."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import uuid
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ahvn_tools.code_mode.contents import Contents
from ahvn_tools.code_mode.limits import CodeLimits
from ahvn_tools.code_mode.running_program import ProgramCall, ProgramState
from ahvn_tools.code_mode.sandbox import Answer, Failure, ProgramError, Sandbox, Value
from ahvn_tools.code_mode.saved_program import ProgramDecision
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError
from ahvn_tools.execution.call import CallScope
from ahvn_tools.middleware.approve import ApprovalRequest, pending_requests, without_other_request
from ahvn_tools.middleware.truncate import whole_blocks
from ahvn_tools.redaction import find_secrets, reveal_secrets
from ahvn_tools.results import PROGRAMMATIC, ToolResult, as_readable, whole_value
from ahvn_tools.toolkit import calls
from ahvn_tools.toolkit.structured_output import STRUCTURED_KEY

if TYPE_CHECKING:
    from ahvn_tools.toolkit.visibility import StoreView

_running_sandboxes: ContextVar[tuple[Sandbox, ...]] = ContextVar("running_sandboxes", default=())

MIN_SECRET_CHARS: Final = 6
"""Shorter texts are in many values by chance."""

_NESTED: Final = "A program cannot run another program. Call the functions in this one."


@contextlib.contextmanager
def refuse_nested_programs(sandbox: Sandbox) -> Generator[None]:
    """Raise ToolError in a program of this sandbox: the inner one could wait forever for the outer one's worker."""
    running = _running_sandboxes.get()
    if any(other is sandbox for other in running):
        raise ToolError(_NESTED)
    token = _running_sandboxes.set((*running, sandbox))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # the loop was closed, and this runs outside the call's context
            _running_sandboxes.reset(token)


class ProgramCalls:
    """Makes the calls of one program, as parts of the call that runs the program."""

    def __init__(
        self,
        view: StoreView,
        context: ToolContext,
        state: ProgramState,
        limits: CodeLimits,
        fingerprints: Mapping[str, str],
    ) -> None:
        """`fingerprints` are those of the tools when the program was started, by their names."""
        self._view, self._context, self._state = view, context, state
        self._fingerprints = fingerprints
        self._turns, self._slots = Turns(), asyncio.Semaphore(view.store.max_concurrency)
        self._structured: Any = None
        self._secret_texts: set[str] = set()
        self._has_passed_secret = False
        state.run_id = state.run_id or context.run_id or f"run_{uuid.uuid4().hex}"
        self.contents = Contents(state.contents, limits.content_bytes)
        if state.ends_session:
            context.end_session()

    async def run(self, call: ProgramCall, decision: ProgramDecision | None) -> Answer | ApprovalRequest:
        """Make a call; `decision` says what a person has approved of it. Return its request if nobody approves it."""
        context, view = self._context, self._view
        entry = view.store.entries.get(call.tool)
        scope, call_id = CallScope(pause_outer=context._links.pause), f"{context.call_id}.{call.number}"  # noqa: SLF001  # of this package
        with view.store.active_calls.track(call_id, view.session_states, scope):
            async with self._turns.take(alone=entry is not None and entry.exclusive is True), self._slots:
                if (failure := self.find_change(call.tool)) is not None:  # it may have waited for long
                    return failure
                result = await self._execute(call, call_id, scope, decision)
        result = without_other_request(replace(result, id=call_id), view.store.secret_key)
        return self._to_answer(call, result)

    def find_change(self, tool: str) -> Failure | None:
        """Return what the program reads of a tool that has changed since the program was started, else None."""
        entry, fingerprint = self._view.store.entries.get(tool), self._fingerprints.get(tool)
        if entry is None or fingerprint is None or self._view.definition(entry).fingerprint == fingerprint:
            return None  # the call of a removed tool is answered like any other
        return Failure(f"The tool {tool!r} has changed since the program was started. Run a new program.")

    def result_meta(self) -> dict[str, Any]:
        """Return what the results of calls say about the result of the program."""
        call = self._state.finish_call
        if call is not None and self._structured is None:  # made before the program waited
            entry = self._view.store.entries.get(call.tool)
            output = None if entry is None else self._view.structured_output(entry)
            self._structured = None if output is None else output.read(call.arguments, call.tool)
        return {} if self._structured is None else {STRUCTURED_KEY: self._structured}

    async def _execute(
        self, call: ProgramCall, call_id: str, scope: CallScope, decision: ProgramDecision | None
    ) -> ToolResult:
        context = self._context
        questions: Any = context._links.asker  # noqa: SLF001  # of this package
        options = calls.CallOptions(
            id=call_id,
            run_id=self._state.run_id,
            caller=PROGRAMMATIC,
            scope=scope,
            is_served=context.is_served,
            masks_errors=context.masks_errors,
            report=functools.partial(self._report, call.tool),
            is_approved=decision is not None and decision.is_call_approved,
            approved_questions=() if decision is None else decision.approved_questions,
            question_approver=None if questions is None else questions.approver,
            answer_by=None if questions is None else questions.answer_by,
        )
        try:
            return await calls.aexecute(self._view, call.tool, call.arguments, options)
        finally:
            self._hide_values(call, scope)

    def _report(self, tool: str, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report the progress of a call as that of the program."""
        self._context.report_progress(progress, total, tool if message is None else f"{tool}: {message}")

    def _hide_values(self, call: ProgramCall, scope: CallScope) -> None:
        """Mask the secrets and the bound values of a call in reports of the program, which may contain them."""
        entry = self._view.store.entries.get(call.tool)
        names = frozenset() if entry is None else self._view.compiled_tool(entry).plan.secret_names
        hidden = self._context._inner_values  # noqa: SLF001  # of this package
        hidden.extend(scope.bound_values.items())
        for name, values in find_secrets(call.arguments, names).items():
            hidden.extend((name, value) for value in values)
            self._has_passed_secret |= any(values)
        self.add_secrets(value for name, value in scope.bound_values.items() if name in names)

    def add_secrets(self, values: Iterable[Any]) -> None:
        """Add secret bound values, which no saved program may contain."""
        texts = map(reveal_secrets, values)
        self._secret_texts.update(text for text in texts if isinstance(text, str) and len(text) >= MIN_SECRET_CHARS)

    def has_secret(self, saved: str, snapshot: bytes) -> bool:
        """Return whether a saved program, as JSON and with its unpacked state, may contain a secret of its calls."""
        return self._has_passed_secret or any(
            json.dumps(text)[1:-1] in saved or text.encode("utf-8", "surrogatepass") in snapshot
            for text in self._secret_texts
        )

    def _to_answer(self, call: ProgramCall, result: ToolResult) -> Answer | ApprovalRequest:
        if result.meta.get("ends_session") is True:
            self._state.ends_session = True
            self._context.end_session()
        if result.is_raw:
            result = as_readable(result)
        if result.error is not None:
            requests = pending_requests(result.meta)
            return requests[0] if requests else Failure(result.error.message)
        if (structured := result.meta.get(STRUCTURED_KEY)) is not None:
            self._structured, self._state.finish_call = structured, call
        blocks = whole_blocks(result.blocks) or ()
        if all(block.type == "text" for block in blocks):
            return Value(whole_value(result) if result.is_raw else result.value)
        try:
            return Value(self.contents.add(blocks))
        except ProgramError as error:
            return Failure(str(error))


class Turns:
    """Lets a call run alone: after all earlier ones, and before all later ones."""

    def __init__(self) -> None:
        self._active: list[tuple[asyncio.Future[None], bool]] = []

    @contextlib.asynccontextmanager
    async def take(self, *, alone: bool) -> AsyncGenerator[None]:
        """Wait for those that this one must not run with, and let others wait for it."""
        ended = asyncio.get_running_loop().create_future()
        earlier = [other for other, is_alone in self._active if alone or is_alone]
        turn = (ended, alone)
        self._active.append(turn)
        try:
            if earlier:
                await asyncio.wait(earlier)
            yield
        finally:
            self._active.remove(turn)
            ended.set_result(None)
