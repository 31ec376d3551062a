"""Retry: another attempt for a call that failed for a reason that may pass."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace

from ahvn_tools.errors import ToolCallError, ToolSpecError
from ahvn_tools.execution.call import Call, Middleware, Next
from ahvn_tools.middleware.idempotency import idempotency_check
from ahvn_tools.results import ToolResult

try:
    from tenacity import (
        AsyncRetrying,
        RetryCallState,
        stop_after_attempt,
        stop_before_delay,
        wait_exponential,
        wait_random,
    )
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        'ahvn_tools.middleware.retry needs tenacity: pip install "ahvn-tools[retry]"', name=missing.name
    ) from missing


def retry(
    attempts: int = 3,
    *,
    codes: Collection[str] = ("connection", "timeout"),
    exceptions: tuple[type[Exception], ...] = (ConnectionError, TimeoutError),
    tools: str | Collection[str] = (),
    all_tools: bool = False,
    initial_delay: float = 0.1,
    max_delay: float = 5.0,
    max_elapsed: float = 45.0,
) -> Middleware:
    """Return the middleware that runs a failed call again, `attempts` times in all.

    Only tools whose annotations say `readOnlyHint` or `idempotentHint`, those that `tools` names, or `all_tools`: what
    has been done may be done twice then. A call is tried again when it failed with one of `codes`, or its body raised
    one of `exceptions`, and no chunk of it has reached a reader. The pauses are in seconds: `first`, then twice as long
    each time up to `longest`, with up to `first` added at random; none begins that would end later than `within` after
    the first attempt began. A result that took several has their number as `meta["attempts"]`.
    Raises ToolSpecError for fewer than 1 attempt.
    """
    if attempts < 1:
        raise ToolSpecError(f"attempts must be at least 1, not {attempts!r}.")
    is_for = idempotency_check(tools, all_tools=all_tools)

    async def retried(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        if not is_for(call):
            return await next(call)
        tried = _Attempts(call, next, codes, exceptions)
        retrying = AsyncRetrying(  # one for each call: it keeps the state of an attempt
            sleep=asyncio.sleep,
            stop=stop_after_attempt(attempts) | stop_before_delay(max_elapsed),
            wait=wait_exponential(multiplier=initial_delay, max=max_delay) + wait_random(0, initial_delay),
            retry=tried.is_retryable,
            retry_error_callback=_last_result,
        )
        result: ToolResult = await retrying(tried.attempt)
        return result if tried.count == 1 else replace(result, meta={**result.meta, "attempts": tried.count})

    return retried


def _last_result(state: RetryCallState) -> ToolResult:
    """Return what the last attempt gave, or raise what it raised."""
    result: ToolResult = state.outcome.result()  # type: ignore[union-attr]  # an attempt has been made
    return result


class _Attempts:
    """The attempts at one call, and what is known of them."""

    def __init__(
        self,
        call: Call,
        run: Next,
        codes: Collection[str],
        exceptions: tuple[type[Exception], ...],
    ) -> None:
        self._run, self._codes, self._exceptions = run, codes, exceptions
        self._has_emitted = False
        self._scope = call.scope
        self._call = call if call.emit is None else replace(call, emit=self._track_emit(call.emit))
        self.count = 0

    async def attempt(self) -> ToolResult:
        """Make one attempt."""
        self.count += 1
        return await self._run(self._call)

    def is_retryable(self, state: RetryCallState) -> bool:
        """Tell whether an attempt failed for a reason that may pass, and left nothing with a reader."""
        outcome = state.outcome
        if outcome is None or self._has_emitted:
            return False
        if outcome.failed:
            error = outcome.exception()
            return isinstance(error, ToolCallError) and error.code in self._codes
        detail = outcome.result().error
        if detail is None:
            return False
        is_own = detail is self._scope.error_detail  # else what was raised belongs to another result
        return detail.code in self._codes or (is_own and isinstance(self._scope.error, self._exceptions))

    def _track_emit(self, emit: Callable[[ToolResult], Awaitable[None]]) -> Callable[[ToolResult], Awaitable[None]]:
        async def noted(chunk: ToolResult) -> None:
            self._has_emitted = True
            await emit(chunk)

        return noted
