"""ServedCaller: the client of one served call, which the servers behind the toolkit ask; and calls that wait for it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)

from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import ToolError, quote_name
from ahvn_tools.execution.call import EmitChunk
from ahvn_tools.execution.deadline import cancel_and_wait
from ahvn_tools.mcp.client.caller import current_caller
from ahvn_tools.mcp.server.progress import MAX_QUEUED, STALL_SECONDS, ProgressReporter
from ahvn_tools.mcp.server.request import Request
from ahvn_tools.middleware.pending import arguments_digest
from ahvn_tools.results import ToolResult
from ahvn_tools.secret_key import SecretKey
from ahvn_tools.toolkit.elicitation import MAX_SECONDS

MAX_WAITING: Final = 1000
"""Calls that wait for another request of their client."""

MAX_WAITING_PER_CLIENT: Final = 100
"""Those of one client; clients that cannot be distinguished count as one."""

_STATE_KEY: Final = "continued_call"


class ServedCaller:
    """The client of one call. A client of the newest protocol answers with other requests, which continue the call."""

    def __init__(self, request: Request, may_wait: Callable[[], bool]) -> None:
        """Ask the client of a request; one that answers with another request only if the call `may_wait` for it."""
        self.identity: object = request.session_id or object()
        self.meta = request.meta
        self.loop = asyncio.get_running_loop()
        self.request: Request | None = request
        """The request of the client that waits now; None between two requests."""
        self.questions: dict[str, Any] = {}
        """What another request has to answer."""
        self.has_question = asyncio.Event()
        self._may_wait = may_wait
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._progress: ProgressReporter | None = None
        self._is_closed = False
        self._logs: deque[tuple[str, str, Any]] = deque()
        self._log_task: asyncio.Task[None] | None = None

    async def elicit(self, message: str, schema: dict[str, Any]) -> ElicitResult:
        """Return what the user of the client answers to a form. Raises ToolError."""
        if self.request is not None and not self.request.can_elicit:
            raise ToolError("The MCP client of this call cannot show questions to its user.")
        question = ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))
        answer: ElicitResult = await self._ask(question, (ElicitResult,))
        return answer

    async def sample(self, params: dict[str, Any]) -> CreateMessageResult:
        """Return what the model of the client answers. Raises ToolError."""
        has_tools = "tools" in params or "toolChoice" in params
        if self.request is not None and not self.request.can_sample(with_tools=has_tools):
            raise ToolError(f"The MCP client of this call runs no model for servers{' with tools' * has_tools}.")
        question = CreateMessageRequest(params=CreateMessageRequestParams.model_validate(params))
        kinds = (CreateMessageResultWithTools, CreateMessageResult) if has_tools else (CreateMessageResult,)
        answer: CreateMessageResult = await self._ask(question, kinds)
        return answer

    async def _ask(self, question: Any, kinds: tuple[type[Any], ...]) -> Any:
        if self._is_closed:
            raise ToolError("The call that has caused the question has ended.")
        try:
            async with asyncio.timeout(MAX_SECONDS):
                if self.request is None or self.request.is_repeated_for_answers:
                    answer = await self._wait_for_answer(question)
                else:
                    answer = await self.request.send(question, kinds[0])
        except TimeoutError:
            raise ToolError("The client has not answered in time.") from None
        except MCPError:
            raise ToolError("The client has answered with an error.") from None
        if not isinstance(answer, kinds):
            raise ToolError("The client has given an answer to another question.")
        return answer

    async def _wait_for_answer(self, question: Any) -> Any:
        if not self._may_wait():
            raise ToolError("Too many calls wait for answers of their clients.")
        key = secrets.token_hex(8)
        self._answers[key] = asyncio.get_running_loop().create_future()
        self.questions[key] = question
        self.has_question.set()
        try:
            return await self._answers[key]
        finally:
            del self._answers[key]
            self.questions.pop(key, None)
            if not self.questions:
                self.has_question.clear()

    def continue_with(self, request: Request) -> None:
        """Use another request of the client, with its answers. A question that it does not answer is asked again."""
        self.request = request
        for key, future in self._answers.items():
            answer = request.answers.get(key)
            if answer is not None and not future.done():
                self.questions.pop(key, None)
                future.set_result(answer)
        if not self.questions:
            self.has_question.clear()

    @property
    def log_level(self) -> str | None:
        """The least severe level of the log messages that the client wants; None: it wants none."""
        return None if self.request is None else self.request.log_level

    def log(self, level: str, logger: str, data: Any) -> None:
        """Send the client a log message, if a request waits and not too many messages wait to be sent."""
        if self._is_closed or self.request is None or len(self._logs) >= MAX_QUEUED:
            return
        self._logs.append((level, logger, data))
        if self._log_task is None or self._log_task.done():
            self._log_task = self.loop.create_task(self._send_logs())

    async def _send_logs(self) -> None:
        while self._logs and self.request is not None:
            with contextlib.suppress(Exception):  # the client has disconnected
                await self.request.send_log(*self._logs.popleft())

    async def drain_logs(self) -> None:
        """Wait until the log messages are sent. A client that does not read them gets no more."""
        await asyncio.sleep(0)  # messages of a server in another thread are on their way
        if self._log_task is not None and not self._log_task.done():
            await asyncio.wait({self._log_task}, timeout=STALL_SECONDS)
            self._log_task.cancel()

    def start_progress(self, progress: ProgressReporter | None) -> None:
        """Send the progress of the call to the request that waits now."""
        self._progress = progress

    async def emit(self, chunk: ToolResult) -> None:
        """Send a chunk to the request that waits now."""
        if self._progress is not None:
            await self._progress.emit(chunk)

    def close(self) -> None:
        """Ask nothing more: the call has ended."""
        self._is_closed = True


class _ContinuedCall:
    """One call, and by whom it may be continued."""

    def __init__(
        self, caller: ServedCaller, task: asyncio.Task[ToolResult], owner: tuple[str | None, str, str]
    ) -> None:
        self.caller, self.task, self.owner = caller, task, owner
        self.expiry: asyncio.TimerHandle | None = None


class ContinuedCalls:
    """Served calls whose clients may be asked. One that waits for another request of its client runs on meanwhile."""

    def __init__(self, key: SecretKey) -> None:
        """`key` makes the digests of arguments."""
        self._key = key
        self._by_id: dict[str, _ContinuedCall] = {}

    async def run(
        self,
        request: Request,
        name: str,
        arguments: dict[str, Any],
        start: Callable[[EmitChunk | None], Awaitable[ToolResult]],
    ) -> ToolResult:
        """Run a call, or continue the one that the request answers. `start` takes what receives its chunks."""
        owner = (request.session_id, name, arguments_digest(arguments, self._key))
        progress = request.create_progress_reporter()
        if (call_id := continued_call_id(request)) is not None:
            continued = self._by_id.get(call_id)
            if continued is None or continued.owner != owner:
                message = f"The call of {quote_name(name)} that this answers has ended. Call the tool again."
                return ToolResult(error=ErrorDetail(code="not_available", message=message))
            del self._by_id[call_id]
            if continued.expiry is not None:
                continued.expiry.cancel()
            continued.caller.start_progress(progress)
            continued.caller.continue_with(request)
        else:
            continued = self._start(request, owner, progress, start)
        try:
            result = await self._wait(continued)
            if progress is not None:
                await progress.drain()
            await continued.caller.drain_logs()
            return result
        finally:
            if progress is not None:
                progress.close()

    def _start(
        self,
        request: Request,
        owner: tuple[str | None, str, str],
        progress: ProgressReporter | None,
        start: Callable[[EmitChunk | None], Awaitable[ToolResult]],
    ) -> _ContinuedCall:
        caller = ServedCaller(request, lambda: self._has_place(owner[0]))
        caller.start_progress(progress)

        async def run() -> ToolResult:
            current_caller.set(caller)
            try:
                return await start(None if progress is None else caller.emit)
            finally:
                caller.close()

        return _ContinuedCall(caller, asyncio.create_task(run()), owner)

    def _has_place(self, session_id: str | None) -> bool:
        count = sum(continued.owner[0] == session_id for continued in self._by_id.values())
        return len(self._by_id) < MAX_WAITING and count < MAX_WAITING_PER_CLIENT

    async def _wait(self, continued: _ContinuedCall) -> ToolResult:
        """Wait until a call has ended, or has a question for another request. If this is cancelled, cancel the call."""
        caller, task = continued.caller, continued.task
        question = asyncio.create_task(caller.has_question.wait())
        has_left = False
        try:
            await asyncio.wait({task, question}, return_when=asyncio.FIRST_COMPLETED)
            has_left = not task.done()
        finally:
            question.cancel()
            if not has_left:
                await cancel_and_wait(task)
        if not has_left:
            return task.result()
        await caller.drain_logs()
        call_id = secrets.token_hex(16)
        caller.request, self._by_id[call_id] = None, continued
        continued.expiry = caller.loop.call_later(MAX_SECONDS, self._expire, call_id)
        response = InputRequiredResult(
            input_requests=dict(caller.questions), request_state=json.dumps({_STATE_KEY: call_id})
        )
        message = "The tool asks for input of its client."
        return ToolResult(error=ErrorDetail(code="input_required", message=message, mcp_response=response))

    def _expire(self, call_id: str) -> None:
        self._by_id.pop(call_id).task.cancel()


def continued_call_id(request: Request) -> str | None:
    """Return the id of the call that a request continues; None for a request that starts one."""
    try:
        state = json.loads(request.state or "{}")
    except ValueError:  # the state of a tool that asks its client by itself
        return None
    call_id = state.get(_STATE_KEY) if isinstance(state, dict) else None
    return call_id if isinstance(call_id, str) else None
