"""Retry: further attempts for a call that failed for a temporary reason."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from ahvn_tools.errors import ToolCallError, ToolConnectionError, ToolSpecError, suggests_options
from ahvn_tools.execution.call import Call, EmitChunk, Middleware, Next
from ahvn_tools.middleware.repeatable import ForRepeatableCalls
from ahvn_tools.results import ToolResult

try:
    import tenacity
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        'ahvn_tools.middleware.retry needs tenacity: pip install "ahvn-tools[retry]"', name=missing.name
    ) from missing


@suggests_options
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
    """Return middleware that repeats a failed call, with `attempts` attempts in total.

    Only for tools whose annotations say `readOnlyHint` or `idempotentHint`, tools named in `tools`, or `all_tools`: a
    repeated call may repeat its effects. A call is repeated if it failed with one of `codes`, or its body raised one of
    `exceptions`, and no chunk of it has reached a reader. The delays are in seconds: `initial_delay`, then twice as
    long each time up to `max_delay`, plus a random part of up to `initial_delay`; there is no further attempt if it
    would start later than `max_elapsed` after the first. A result after several attempts has their number as
    `meta["attempts"]`. Raises ToolSpecError for fewer than 1 attempt.
    """
    if attempts < 1:
        raise ToolSpecError(f"attempts must be at least 1, not {attempts!r}.")
    waits = tenacity.wait_exponential(multiplier=initial_delay, max=max_delay) + tenacity.wait_random(0, initial_delay)
    stop = tenacity.stop_after_attempt(attempts) | tenacity.stop_before_delay(max_elapsed)
    return _Retry(tools, codes, exceptions, all_tools=all_tools, stop=stop, wait=waits)


class _Retry(ForRepeatableCalls):
    """The middleware that `retry` makes."""

    kind = "retry"

    def __init__(
        self,
        tools: str | Collection[str],
        codes: Collection[str],
        exceptions: tuple[type[Exception], ...],
        *,
        all_tools: bool,
        **options: Any,
    ) -> None:
        """The options are those of `tenacity.AsyncRetrying`."""
        super().__init__(tools, all_tools=all_tools)
        self._codes, self._exceptions, self._options = codes, exceptions, options

    async def __call__(self, call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        """Make attempts at a call."""
        if not self.acts_on(call) or call.resumed_program is not None:  # a person's decisions are for one try
            return await next(call)
        runs = _Attempts(call, next, self._codes, self._exceptions)
        retrying = tenacity.AsyncRetrying(  # one for each call: it holds the state of an attempt
            sleep=asyncio.sleep,
            retry=runs.is_retryable,
            retry_error_callback=lambda state: state.outcome.result(),  # type: ignore[union-attr]  # the last attempt's
            **self._options,
        )
        result: ToolResult = await retrying(runs.attempt)
        return result if runs.count == 1 else replace(result, meta={**result.meta, "attempts": runs.count})


def _is_lasting(error: object) -> bool:
    """Return whether no further attempt can succeed, because the host has to change something."""
    return isinstance(error, ToolConnectionError) and not error.is_temporary


class _Attempts:
    """The attempts at one call."""

    def __init__(self, call: Call, run: Next, codes: Collection[str], exceptions: tuple[type[Exception], ...]) -> None:
        self._run, self._codes, self._exceptions = run, codes, exceptions
        self._has_emitted = False
        self._call = call if call.emit is None else replace(call, emit=self._track_emit(call.emit))
        self.count = 0

    async def attempt(self) -> ToolResult:
        """Make one attempt."""
        self.count += 1
        return await self._run(self._call)

    def is_retryable(self, state: tenacity.RetryCallState) -> bool:
        """Return whether an attempt failed for a temporary reason before any chunk reached a reader."""
        outcome = state.outcome
        if outcome is None or self._has_emitted:
            return False
        if outcome.failed:
            error = outcome.exception()
            return isinstance(error, ToolCallError) and error.code in self._codes and not _is_lasting(error)
        detail, scope = outcome.result().error, self._call.scope
        if detail is None:
            return False
        is_own = detail is scope.error_detail  # otherwise the recorded exception belongs to another result
        if is_own and _is_lasting(scope.error):
            return False
        return detail.code in self._codes or (is_own and isinstance(scope.error, self._exceptions))

    def _track_emit(self, emit: EmitChunk) -> EmitChunk:
        async def emit_tracked(chunk: ToolResult) -> None:
            self._has_emitted = self._has_emitted or "waiting" not in chunk.meta
            await emit(chunk)

        return emit_tracked
