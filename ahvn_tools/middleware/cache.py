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

from ahvn_tools.context import of_carrier
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.execution import awaited, bridge
from ahvn_tools.execution.call import Call, Middleware, Next
from ahvn_tools.execution.drive import late
from ahvn_tools.execution.plan import Arguments
from ahvn_tools.execution.settle import raised
from ahvn_tools.execution.threads import in_thread
from ahvn_tools.middleware.identity import NoIdentityError, digest
from ahvn_tools.middleware.kept import Flight, Kept
from ahvn_tools.middleware.repeatable import among
from ahvn_tools.results import ToolResult
from ahvn_tools.sources.injection import Injected
from ahvn_tools.state import MISSING

_is_awaited: contextvars.ContextVar[bool] = contextvars.ContextVar("is_awaited", default=False)
"""Whether others may wait for the call that this runs in: then it waits for none, so that no circle closes."""


def cache(
    ttl: float = 300.0,
    size: int = 1_000,
    *,
    shared: bool = False,
    tools: str | Collection[str] = (),
    all_tools: bool = False,
    patience: float = 30.0,
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
    kept, key = Kept(ttl, size), secrets.token_bytes(32)
    is_repeatable = among(tools, all_tools=all_tools)

    def is_for(call: Call) -> bool:
        if call.plan.depends_on_context or isinstance(call.body, Injected):
            return False
        return is_repeatable(call)

    async def cached(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        if not is_for(call):
            return await next(call)
        values = await _bound_values(call)
        call.fate.bound = {name: value for name, value in values.items() if value is not MISSING}
        call = replace(call, plan=call.plan.pinned(values))
        asked = _Asked(call, next, values, None if shared else call.session_id, key)
        return await (next(call) if asked.identity is None else asked.result(kept, patience))

    return cached


async def _bound_values(call: Call) -> Arguments:
    """Read what the call binds, once: what is in the key is what the body gets. Raises UnboundStateError."""
    plan, layers = call.plan, call.layers
    given = raised(plan, await awaited.resolved(plan, layers)).get() if plan.has_awaited else {}

    def read() -> Arguments:
        values = {}
        for bound in plan.bound:
            if bound.binding.resolver is of_carrier:
                continue
            name = bound.parameter.name
            value = given[name] if name in given else bound.read(layers)
            values[name] = bound.binding.given() if value is MISSING else value
        return values

    resolvers = [bound.binding.resolver for bound in plan.bound if bound.parameter.name not in given]
    if any(resolvers):  # a sync resolver may take its time, or call a tool: not in the loop
        return (await in_thread(lambda _: read())).get()  # type: ignore[no-any-return]
    return read()


class _Asked:
    """One call, and what it is known by."""

    def __init__(self, call: Call, run: Next, values: Arguments, session_id: str | None, key: bytes) -> None:
        self._call, self._run, self._values = call, run, values
        self._session_id, self._key = session_id, key
        self._began = monotonic()
        self.identity = self._known()
        """What equal calls have in common; None when that cannot be told."""

    def _known(self) -> Hashable | None:
        call = self._call
        arguments = {name: call.arguments[name] for name in sorted(call.arguments, key=str)}
        try:
            told = digest([arguments, self._values], self._key)
        except NoIdentityError:
            return None
        # a forked child does not wait for calls of its parent
        return call.definition.fingerprint, id(call.body), self._session_id, os.getpid(), told

    async def result(self, kept: Kept, patience: float) -> ToolResult:
        """Return what is kept, what an equal call under way comes to, or what this one does."""
        while True:
            own = Flight() if self._call.emit is None else None
            found = kept.look(self.identity, own)
            if isinstance(found, ToolResult):
                return self._copied(found)
            if found is own or found is None:
                return await self._made(kept, own)
            if _is_awaited.get() or found.loop in bridge.blocked.get():
                return await self._made(kept, None)
            if not await found.lands(self._left(found.began + patience - monotonic())):
                return await self._late(kept)
            if found.landing.cancelled():
                continue
            landed = found.landing.result()
            return await self._late(kept) if landed is None else self._copied(landed)

    def _left(self, seconds: float = inf) -> float:
        """Return how many seconds are left of the call's own timeout, or `seconds` if that is less."""
        timeout = self._call.plan.timeout
        return seconds if timeout is None else min(seconds, self._began + timeout - monotonic())

    async def _late(self, kept: Kept) -> ToolResult:
        """Run it after having waited in vain, in the time that is left. Raises ToolTimeoutError."""
        plan = self._call.plan
        if plan.timeout is None:
            return await self._made(kept, None)
        left = self._left()
        if left <= 0:
            raise late(plan, "an equal call is still running")
        self._call = replace(self._call, plan=plan.within(left))
        return await self._made(kept, None)

    async def _made(self, kept: Kept, flight: Flight | None) -> ToolResult:
        """Run it, keep what it gives, and land the flight, if it is one."""
        token = _is_awaited.set(_is_awaited.get() or flight is not None)
        try:
            made = await self._run(self._call)
            result = self._to_keep(made)
        except Exception:
            kept.keep(self.identity, None, None, flight)
            raise
        except BaseException:
            kept.leave(self.identity, flight)
            raise
        finally:
            with suppress(ValueError):  # a loop has died, and this runs outside of the call's context
                _is_awaited.reset(token)
        kept.keep(self.identity, self._call.body, result, flight)
        return made

    def _to_keep(self, made: ToolResult) -> ToolResult | None:
        """Return a copy that nobody else has; None for what does not stand for other calls."""
        if made.is_error or made.is_interrupted or made.meta.get("ends_session") or self._known() != self.identity:
            return None
        try:
            return copy.deepcopy(made)
        except Exception:  # noqa: BLE001  # a tool may return anything as a ToolResult of its own
            return None

    def _copied(self, kept: ToolResult) -> ToolResult:
        made = copy.deepcopy(kept)
        meta: dict[str, Any] = {**made.meta, "duration": monotonic() - self._began, "cached": True}
        return replace(made, id=self._call.id, meta=meta)
