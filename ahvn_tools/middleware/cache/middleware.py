"""Cache: the result of a call stands for equal calls, for a while; equal calls at once are one."""

from __future__ import annotations

import contextvars
import copy
import os
import secrets
from collections.abc import Collection, Hashable
from contextlib import suppress
from dataclasses import replace
from math import inf
from time import monotonic
from typing import Any

from ahvn_tools.context import resolve_transport_context
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.execution import async_call, background_loop
from ahvn_tools.execution.call import Call, Middleware, Next
from ahvn_tools.execution.convert import normalize_cancellation
from ahvn_tools.execution.plan import Arguments
from ahvn_tools.execution.runner import timeout_error
from ahvn_tools.execution.threads import run_in_thread
from ahvn_tools.middleware.cache.key import UncacheableValueError, keyed_digest
from ahvn_tools.middleware.cache.store import InFlight, ResultStore
from ahvn_tools.middleware.idempotency import idempotency_check
from ahvn_tools.results import ToolResult
from ahvn_tools.sources.injection import InjectedBody
from ahvn_tools.state import MISSING

_has_waiters: contextvars.ContextVar[bool] = contextvars.ContextVar("is_awaited", default=False)
"""Whether others may wait for the call that this runs in: then it waits for none, so that no circle closes."""


def cache(
    ttl: float = 300.0,
    size: int = 1_000,
    *,
    shared: bool = False,
    tools: str | Collection[str] = (),
    all_tools: bool = False,
    max_wait: float = 30.0,
) -> Middleware:
    """Return the middleware that keeps the results of calls, `size` of them at most, for `ttl` seconds each.

    Only tools whose annotations say `readOnlyHint` or `idempotentHint`, those that `tools` names, or `all_tools`; never
    one that takes a ToolContext or what FastMCP injects. Calls are equal when tool, arguments as they were given, bound
    values and session are; `shared=True` leaves the session out. A call with a value that cannot be told from others
    for sure runs for itself. Errors are not kept. A result from here is a copy with `meta["cached"]`.

    Equal calls at once are one: the others wait for the first until it has run for `patience` seconds, no longer than
    their own timeout. When it fails each runs for itself; when it is cancelled another takes its place. A call whose
    chunks are read runs for itself, too: its reader sets the pace. What is kept comes as the last result, without
    chunks.
    Raises ToolSpecError for a `ttl` or `size` that keeps nothing.
    """
    if not ttl > 0 or size < 1:
        raise ToolSpecError(f"ttl must be more than 0 seconds and size at least 1, not {ttl!r} and {size!r}.")
    kept, key = ResultStore(ttl, size), secrets.token_bytes(32)
    is_repeatable = idempotency_check(tools, all_tools=all_tools)

    def is_for(call: Call) -> bool:
        if call.plan.depends_on_context or isinstance(call.body, InjectedBody):
            return False
        return is_repeatable(call)

    async def cached(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        if not is_for(call):
            return await next(call)
        values = await _resolve_bound_values(call)
        call.scope.bound_values = {name: value for name, value in values.items() if value is not MISSING}
        call = replace(call, plan=call.plan.with_bound_values(values))
        asked = _CachedCall(call, next, values, None if shared else call.session_id, key)
        return await (next(call) if asked.cache_key is None else asked.result(kept, max_wait))

    return cached


async def _resolve_bound_values(call: Call) -> Arguments:
    """Read what the call binds, once: what is in the key is what the body gets. Raises UnboundStateError."""
    plan, layers = call.plan, call.state_scopes
    given = (
        normalize_cancellation(plan, await async_call.arun_resolvers(plan, layers)).get()
        if plan.has_async_resolvers
        else {}
    )

    def read() -> Arguments:
        values = {}
        for bound in plan.bound_parameters:
            if bound.binding.resolver is resolve_transport_context:
                continue
            name = bound.parameter.name
            value = given[name] if name in given else bound.read(layers)
            values[name] = bound.binding.default_value() if value is MISSING else value
        return values

    resolvers = [bound.binding.resolver for bound in plan.bound_parameters if bound.parameter.name not in given]
    if any(resolvers):  # a sync resolver may take its time, or call a tool: not in the loop
        return (await run_in_thread(lambda _: read())).get()  # type: ignore[no-any-return]
    return read()


class _CachedCall:
    """One call, and what it is known by."""

    def __init__(self, call: Call, run: Next, values: Arguments, session_id: str | None, secret_key: bytes) -> None:
        self._call, self._run, self._values = call, run, values
        self._session_id, self._secret_key = session_id, secret_key
        self._started = monotonic()
        self.cache_key = self._compute_cache_key()
        """What equal calls have in common; None when that cannot be told."""

    def _compute_cache_key(self) -> Hashable | None:
        call = self._call
        arguments = {name: call.arguments[name] for name in sorted(call.arguments, key=str)}
        try:
            told = keyed_digest([arguments, self._values], self._secret_key)
        except UncacheableValueError:
            return None
        # a forked child does not wait for calls of its parent
        return call.definition.fingerprint, id(call.body), self._session_id, os.getpid(), told

    async def result(self, store: ResultStore, max_wait: float) -> ToolResult:
        """Return what is kept, what an equal call under way comes to, or what this one does."""
        while True:
            own = InFlight() if self._call.emit is None else None
            found = store.get_or_start(self.cache_key, own)
            if isinstance(found, ToolResult):
                return self._copy_for_call(found)
            if found is own or found is None:
                return await self._run_and_store(store, own)
            if _has_waiters.get() or found.loop in background_loop.blocked_loops.get():
                return await self._run_and_store(store, None)
            if not await found.wait(self._remaining(found.started + max_wait - monotonic())):
                return await self._run_after_wait(store)
            if found.future.cancelled():
                continue
            landed = found.future.result()
            return await self._run_after_wait(store) if landed is None else self._copy_for_call(landed)

    def _remaining(self, seconds: float = inf) -> float:
        """Return how many seconds are left of the call's own timeout, or `seconds` if that is less."""
        timeout = self._call.plan.timeout
        return seconds if timeout is None else min(seconds, self._started + timeout - monotonic())

    async def _run_after_wait(self, store: ResultStore) -> ToolResult:
        """Run it after having waited in vain, in the time that is left. Raises ToolTimeoutError."""
        plan = self._call.plan
        if plan.timeout is None:
            return await self._run_and_store(store, None)
        left = self._remaining()
        if left <= 0:
            raise timeout_error(plan, "an equal call is still running")
        self._call = replace(self._call, plan=plan.with_timeout(left))
        return await self._run_and_store(store, None)

    async def _run_and_store(self, store: ResultStore, in_flight: InFlight | None) -> ToolResult:
        """Run it, keep what it gives, and land the flight, if it is one."""
        token = _has_waiters.set(_has_waiters.get() or in_flight is not None)
        try:
            made = await self._run(self._call)
            result = self._storable_copy(made)
        except Exception:
            store.put(self.cache_key, None, None, in_flight)
            raise
        except BaseException:
            store.cancel(self.cache_key, in_flight)
            raise
        finally:
            with suppress(ValueError):  # a loop has died, and this runs outside of the call's context
                _has_waiters.reset(token)
        store.put(self.cache_key, self._call.body, result, in_flight)
        return made

    def _storable_copy(self, result: ToolResult) -> ToolResult | None:
        """Return a copy that nobody else has; None for what does not stand for other calls."""
        if (
            result.is_error
            or result.is_interrupted
            or result.meta.get("ends_session")
            or self._compute_cache_key() != self.cache_key
        ):
            return None
        try:
            return copy.deepcopy(result)
        except Exception:  # noqa: BLE001  # a tool may return anything as a ToolResult of its own
            return None

    def _copy_for_call(self, stored: ToolResult) -> ToolResult:
        made = copy.deepcopy(stored)
        meta: dict[str, Any] = {**made.meta, "duration": monotonic() - self._started, "cached": True}
        return replace(made, id=self._call.id, meta=meta)
