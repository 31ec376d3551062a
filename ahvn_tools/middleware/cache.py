"""Cache: the middleware that answers equal calls with one result, also while the first of them is still running."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import dataclasses
import functools
import hashlib
import itertools
import os
import secrets
import threading
from collections import OrderedDict
from collections.abc import Collection, Hashable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from math import inf
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from time import monotonic
from types import BuiltinFunctionType
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary
from zoneinfo import ZoneInfo

from pydantic import BaseModel, SecretBytes, SecretStr

from ahvn_tools.context import resolve_transport_context
from ahvn_tools.errors import ToolSpecError, suggests_options
from ahvn_tools.execution import background_loop
from ahvn_tools.execution.call import Call, Middleware, Next
from ahvn_tools.execution.deadline import timeout_error
from ahvn_tools.execution.plan import Arguments
from ahvn_tools.execution.runner import run_before_body, run_resolvers
from ahvn_tools.middleware.approve import needs_approval
from ahvn_tools.middleware.repeatable import ForRepeatableCalls
from ahvn_tools.results import ToolResult
from ahvn_tools.sources.injection import InjectedBody
from ahvn_tools.state import MISSING

_REPR_TYPES = frozenset({
    type(None), bool, int, float, str, bytes, Decimal, UUID, date, timedelta,
    PosixPath, PurePosixPath, PureWindowsPath, WindowsPath,
})  # fmt: skip
"""Types whose `repr` identifies a value. Their subclasses may have further attributes, so they are not included."""

_class_numbers: WeakKeyDictionary[type, int] = WeakKeyDictionary()
_next_number = itertools.count()


class UncacheableValueError(Exception):
    """A value, or a part of it, has no reliable identity."""


def keyed_digest(value: Any, key: bytes) -> bytes:
    """Return a digest of data, secrets included; the secret `key` makes it unguessable. Raises UncacheableValueError.

    Data is what JSON can represent, and bytes, sets, tuples, dates, paths, enums, pydantic's secrets, dataclasses and
    models of these. The order of a dict's members is significant.
    """
    try:
        text = _canonical_text(value)
    except Exception as error:  # a circular reference, or a foreign class, which may raise anything
        raise UncacheableValueError(f"A {type(value).__name__} has no reliable identity.") from error
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=32).digest()


def _canonical_text(value: Any) -> str:
    kind = type(value)
    name = _class_name(kind)
    if kind in _REPR_TYPES:
        return f"{name}:{value!r}"
    if kind is dict:
        return f"{name}({','.join(f'{_canonical_text(key)}={_canonical_text(part)}' for key, part in value.items())})"
    if kind is list or kind is tuple:
        return f"{name}({','.join(map(_canonical_text, value))})"
    if kind is set or kind is frozenset:
        return f"{name}({','.join(sorted(map(_canonical_text, value)))})"
    if kind is SecretStr or kind is SecretBytes:
        return f"{name}({_canonical_text(value.get_secret_value())})"
    if isinstance(value, Enum):
        return f"{name}.{value.name}({_canonical_text(value.value)})"
    return f"{name}({_canonical_text(_record_state(value))})"


def _class_name(kind: type) -> str:
    """Return a name that no other class has, not even one of the same module and qualified name.

    Raises TypeError for a class that its metaclass may call equal to another one.
    """
    if type(kind).__eq__ is not type.__eq__:
        raise TypeError(kind.__name__)
    return f"{kind.__module__}.{kind.__qualname__}#{_class_numbers.setdefault(kind, next(_next_number))}"


def _record_state(value: Any) -> Any:
    """Return the whole state of a time, model or dataclass. Raises TypeError for any other value."""
    kind = type(value)
    if kind in {datetime, time} and type(value.tzinfo) in {type(None), timezone, ZoneInfo}:
        return repr(value)
    is_record = isinstance(value, BaseModel) or dataclasses.is_dataclass(kind)
    if is_record and not any(isinstance(vars(base).get("__new__"), BuiltinFunctionType) for base in kind.__mro__[:-1]):
        return object.__getstate__(value)  # the attributes and all slots, whatever the class itself would pickle
    raise TypeError(kind.__name__)  # also for a subclass of a built-in type, whose content is no attribute


class InFlight:
    """A running call that equal calls wait for."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.started = monotonic()
        self.future: Future[ToolResult | None] = Future()
        """The result for the waiters; None if it cannot be shared; cancelled if the call was."""

    async def wait(self, seconds: float) -> bool:
        """Wait in any event loop for at most `seconds`, and return whether the call has ended."""
        await asyncio.wait({asyncio.wrap_future(self.future)}, timeout=seconds)
        return self.future.done()


class ResultStore:
    """At most `size` results for `ttl` seconds each; the least recently used one is dropped first."""

    def __init__(self, ttl: float, size: int) -> None:
        self._ttl, self._size = ttl, size
        self._lock = threading.Lock()
        self._results: OrderedDict[Hashable, tuple[float, Any, ToolResult]] = OrderedDict()
        self._in_flight: dict[Hashable, InFlight] = {}

    def get_or_start(self, key: Hashable, own: InFlight | None) -> ToolResult | InFlight | None:
        """Return the cached result, or the call in flight; if there is neither, `own` becomes the one in flight."""
        with self._lock:
            if key in self._results:
                until, _, result = self._results[key]
                if monotonic() < until:
                    self._results.move_to_end(key)
                    return result
                del self._results[key]
            return self._in_flight.get(key) if own is None else self._in_flight.setdefault(key, own)

    def put(self, key: Hashable, body: Any, result: ToolResult | None, in_flight: InFlight | None) -> None:
        """Cache a result, unless it is None, and end the call in flight with it.

        The key contains `id(body)`: a reference to `body` keeps that id unique.
        """
        with self._lock:
            if result is not None:
                self._results[key] = monotonic() + self._ttl, body, result
                self._results.move_to_end(key)
                if len(self._results) > self._size:
                    self._results.popitem(last=False)
            self._remove_in_flight(key, in_flight)
        if in_flight is not None:
            in_flight.future.set_result(result)

    def cancel(self, key: Hashable, in_flight: InFlight | None) -> None:
        """End a call in flight that was cancelled; one of its waiters takes its place."""
        with self._lock:
            self._remove_in_flight(key, in_flight)
        if in_flight is not None:
            in_flight.future.cancel()

    def _remove_in_flight(self, key: Hashable, in_flight: InFlight | None) -> None:
        if in_flight is not None:
            del self._in_flight[key]


_has_waiters: contextvars.ContextVar[bool] = contextvars.ContextVar("has_waiters", default=False)
"""Whether other calls may wait for the current one; then it waits for none itself, which could be a deadlock."""


@suggests_options
def cache(
    ttl: float = 300.0,
    size: int = 1_000,
    *,
    shared: bool = False,
    tools: str | Collection[str] = (),
    all_tools: bool = False,
    max_wait: float = 30.0,
) -> Middleware:
    """Return middleware that caches the results of calls, at most `size` of them, for `ttl` seconds each.

    Only for tools whose annotations say `readOnlyHint` or `idempotentHint`, tools named in `tools`, or `all_tools`;
    never for a tool that takes a ToolContext or that FastMCP injects into. Calls are equal if tool, arguments, bound
    values and session are; `shared=True` ignores the session. A call with a value that has no reliable identity is not
    cached, and neither are errors. A cached result is a copy with `meta["cached"]`, without chunks. Outside of
    `approve`, a call that needs an approval is answered only when it was approved.

    Of equal calls at the same time only the first runs. The others wait for it, until it has run for `max_wait` seconds
    and no longer than their own timeout. If it fails, each of them runs; if it is cancelled, one takes its place. A
    call whose chunks are read never makes others wait, because its reader determines the pace.
    Raises ToolSpecError for a `ttl` of 0 or less and a `size` below 1.
    """
    if not ttl > 0 or size < 1:
        raise ToolSpecError(f"ttl must be more than 0 seconds and size at least 1, not {ttl!r} and {size!r}.")
    return _Cache(tools, ResultStore(ttl, size), all_tools=all_tools, is_shared=shared, max_wait=max_wait)


class _Cache(ForRepeatableCalls):
    """The middleware that `cache` makes."""

    kind = "cache"

    def __init__(
        self, tools: str | Collection[str], store: ResultStore, *, all_tools: bool, is_shared: bool, max_wait: float
    ) -> None:
        super().__init__(tools, all_tools=all_tools)
        self._store, self._is_shared, self._max_wait = store, is_shared, max_wait
        self._secret_key = secrets.token_bytes(32)

    async def __call__(self, call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        """Answer a call from the cache, or run it."""
        has_other_inputs = call.plan.depends_on_context or isinstance(call.body, InjectedBody)
        if has_other_inputs or not self.acts_on(call) or needs_approval(call, next):
            return await next(call)
        values, seconds = await _resolve_bound_values(call)
        call.scope.bound_values = {name: value for name, value in values.items() if value is not MISSING}
        call = replace(call, plan=call.plan.with_bound_values(values).with_seconds(seconds))
        cached = _CachedCall(call, next, values, None if self._is_shared else call.session_id, self._secret_key)
        return await (next(call) if cached.cache_key is None else cached.result(self._store, self._max_wait))


async def _resolve_bound_values(call: Call) -> tuple[Arguments, float | None]:
    """Read the bound values once, so that the key and the body see the same ones. Raises as `runner.prepare` does.

    Also return how many seconds are left for the body; None without async resolvers.
    """
    plan, scopes = call.plan, call.state_scopes
    resolved: Arguments = {}
    seconds = None
    if plan.has_async_resolvers:
        resolved, seconds = await run_before_body(plan, functools.partial(run_resolvers, plan, scopes))
    values: Arguments = {}
    for bound in plan.bound_parameters:
        name, binding = bound.parameter.name, bound.binding
        if binding.resolver is not resolve_transport_context:
            value = resolved[name] if name in resolved else bound.read(scopes)
            values[name] = binding.default_value() if value is MISSING else value
    return values, seconds


class _CachedCall:
    """One call and its cache key."""

    def __init__(self, call: Call, run: Next, values: Arguments, session_id: str | None, secret_key: bytes) -> None:
        self._call, self._run, self._values = call, run, values
        self._session_id, self._secret_key = session_id, secret_key
        self._started = monotonic()
        self._deadline = self._started + (inf if call.plan.seconds is None else call.plan.seconds)
        self.cache_key = self._compute_cache_key()
        """Equal for equal calls; None if a value has no reliable identity."""

    def _compute_cache_key(self) -> Hashable | None:
        call = self._call
        arguments = {name: call.arguments[name] for name in sorted(call.arguments, key=str)}
        try:
            digest = keyed_digest([arguments, self._values], self._secret_key)
        except UncacheableValueError:
            return None
        # the process id: a forked child must not wait for calls of its parent
        return call.definition.fingerprint, id(call.body), self._session_id, os.getpid(), digest

    async def result(self, store: ResultStore, max_wait: float) -> ToolResult:
        """Return the cached result, the result of an equal call in flight, or run this call."""
        while True:
            own = InFlight() if self._call.emit is None else None
            stored = store.get_or_start(self.cache_key, own)
            if isinstance(stored, ToolResult):
                return self._copy_for_call(stored)
            if stored is own or stored is None:
                return await self._run_and_store(store, own)
            if _has_waiters.get() or stored.loop in background_loop.blocked_loops.get():
                return await self._run_and_store(store, None)
            if not await stored.wait(min(stored.started + max_wait, self._deadline) - monotonic()):
                return await self._run_after_wait(store)
            if stored.future.cancelled():
                continue
            result = stored.future.result()
            return await self._run_after_wait(store) if result is None else self._copy_for_call(result)

    async def _run_after_wait(self, store: ResultStore) -> ToolResult:
        """Run the call in the time that the wait has left. Raises ToolTimeoutError."""
        plan = self._call.plan
        if plan.timeout is not None:
            seconds = self._deadline - monotonic()
            if seconds <= 0:
                raise timeout_error(plan, "an equal call is still running")
            self._call = replace(self._call, plan=plan.with_seconds(seconds))
        return await self._run_and_store(store, None)

    async def _run_and_store(self, store: ResultStore, in_flight: InFlight | None) -> ToolResult:
        """Run the call, cache its result, and end the call in flight if it is one."""
        token = _has_waiters.set(_has_waiters.get() or in_flight is not None)
        try:
            result = await self._run(self._call)
            stored = self._storable_copy(result)
        except Exception:
            store.put(self.cache_key, None, None, in_flight)
            raise
        except BaseException:
            store.cancel(self.cache_key, in_flight)
            raise
        finally:
            with suppress(ValueError):  # the loop was closed: this runs outside the call's context
                _has_waiters.reset(token)
        store.put(self.cache_key, self._call.body, stored, in_flight)
        return result

    def _storable_copy(self, result: ToolResult) -> ToolResult | None:
        """Return a copy to cache; None for a result that is not valid for other calls."""
        is_failed = result.is_error or result.is_interrupted
        if is_failed or result.meta.get("ends_session") or self._compute_cache_key() != self.cache_key:
            return None
        try:
            return copy.deepcopy(result)
        except Exception:  # noqa: BLE001  # a ToolResult of the tool may contain any object
            return None

    def _copy_for_call(self, stored: ToolResult) -> ToolResult:
        result = copy.deepcopy(stored)
        meta = {**result.meta, "duration": monotonic() - self._started, "cached": True}
        return replace(result, id=self._call.id, meta=meta)
