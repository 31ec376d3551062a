"""Cache: the middleware that answers equal calls with one result."""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import itertools
import secrets
import threading
from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from time import monotonic
from types import BuiltinFunctionType
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary
from zoneinfo import ZoneInfo

from pydantic import BaseModel, SecretBytes, SecretStr

from ahvn_tools.context import resolve_context, resolve_transport_context
from ahvn_tools.errors import ToolSpecError, suggests_options
from ahvn_tools.execution.call import Call, Middleware, Next
from ahvn_tools.execution.plan import Arguments
from ahvn_tools.execution.runner import run_before_body, run_resolvers
from ahvn_tools.middleware import reporting
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

CONTEXT_RESOLVERS = (resolve_context, resolve_transport_context)
"""The resolvers whose value is the call itself."""

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


def lasting_text(value: Any) -> str:
    """Return data, secrets included, as a text that is the same in every process.

    Of any other value, and of a part that is no data, only the JSON form or the type.
    """
    try:
        return _canonical_text(value, is_lasting=True)
    except Exception:  # noqa: BLE001  # a circular reference, or a foreign class, which may raise anything
        return reporting.type_placeholder(value)


def _canonical_text(value: Any, *, is_lasting: bool = False) -> str:
    kind, text_of = type(value), functools.partial(_canonical_text, is_lasting=is_lasting)
    name = f"{kind.__module__}.{kind.__qualname__}" if is_lasting else _class_name(kind)
    if kind in _REPR_TYPES:
        return f"{name}:{value!r}"
    if kind is dict:
        return f"{name}({','.join(f'{text_of(key)}={text_of(part)}' for key, part in value.items())})"
    if kind is list or kind is tuple:
        return f"{name}({','.join(map(text_of, value))})"
    if kind is set or kind is frozenset:
        return f"{name}({','.join(sorted(map(text_of, value)))})"
    if kind is SecretStr or kind is SecretBytes:
        return f"{name}({text_of(value.get_secret_value())})"
    if isinstance(value, Enum):
        return f"{name}.{value.name}({text_of(value.value)})"
    try:
        return f"{name}({text_of(_record_state(value))})"
    except TypeError:
        if not is_lasting or isinstance(value, Iterator):
            raise
        return f"{name}({text_of(reporting.as_json(value))})"


def _class_name(kind: type) -> str:
    """Return a name that no other class has, not even one of the same module and qualified name."""
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


class ResultStore:
    """At most `size` results for `ttl` seconds each; the least recently used one is dropped first."""

    def __init__(self, ttl: float, size: int) -> None:
        self._ttl, self._size = ttl, size
        self._lock = threading.Lock()
        self._results: OrderedDict[Hashable, tuple[float, Any, ToolResult]] = OrderedDict()

    def get(self, key: Hashable) -> ToolResult | None:
        """Return the cached result."""
        with self._lock:
            until, _, result = self._results.get(key, (0.0, None, None))
            if result is None:
                return None
            if monotonic() < until:
                self._results.move_to_end(key)
                return result
            del self._results[key]
            return None

    def put(self, key: Hashable, body: Any, result: ToolResult) -> None:
        """Cache a result. The key contains `id(body)`: a reference to `body` keeps that id unique."""
        with self._lock:
            self._results[key] = monotonic() + self._ttl, body, result
            self._results.move_to_end(key)
            if len(self._results) > self._size:
                self._results.popitem(last=False)


@suggests_options
def cache(
    ttl: float = 300.0,
    size: int = 1_000,
    *,
    shared: bool = False,
    tools: str | Collection[str] = (),
    all_tools: bool = False,
) -> Middleware:
    """Return middleware that caches the results of calls, at most `size` of them, for `ttl` seconds each.

    Only for tools whose annotations say `readOnlyHint` or `idempotentHint`, tools named in `tools`, or `all_tools`;
    never for a tool that takes a ToolContext or that FastMCP injects into. Calls are equal if tool, arguments, bound
    values and session are; `shared=True` ignores the session. A call with a value that has no reliable identity is not
    cached, and neither are errors. A cached result is a copy with `meta["cached"]`, without chunks. A call that needs
    an approval is answered only when it was approved.

    Raises ToolSpecError for a `ttl` of 0 or less and a `size` below 1.
    """
    if not ttl > 0 or size < 1:
        raise ToolSpecError(f"ttl must be more than 0 seconds and size at least 1, not {ttl!r} and {size!r}.")
    return _Cache(tools, ResultStore(ttl, size), all_tools=all_tools, is_shared=shared)


class _Cache(ForRepeatableCalls):
    """The middleware that `cache` makes."""

    kind = "cache"

    def __init__(self, tools: str | Collection[str], store: ResultStore, *, all_tools: bool, is_shared: bool) -> None:
        super().__init__(tools, all_tools=all_tools)
        self._store, self._is_shared = store, is_shared
        self._secret_key = secrets.token_bytes(32)

    async def __call__(self, call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        """Answer a call from the cache, or run it."""
        has_other_inputs = call.plan.depends_on_context or isinstance(call.body, InjectedBody)
        has_other_inputs |= call.plan.is_external
        if has_other_inputs or not self.acts_on(call) or needs_approval(call, next):
            return await next(call)
        call, values = await with_bound_values(call)
        started, key = monotonic(), self._key(call, values)
        if (stored := None if key is None else self._store.get(key)) is not None:
            result = copy.deepcopy(stored)
            meta = {**result.meta, "duration": monotonic() - started, "cached": True}
            return replace(result, id=call.id, meta=meta)
        result = await next(call)
        is_valid_for_others = not (result.is_error or result.is_interrupted or result.meta.get("ends_session"))
        if key is not None and is_valid_for_others and self._key(call, values) == key:
            with suppress(Exception):  # a ToolResult of the tool may contain any object
                self._store.put(key, call.body, copy.deepcopy(result))
        return result

    def _key(self, call: Call, values: Arguments) -> Hashable | None:
        """Return what is equal for equal calls; None if a value has no reliable identity."""
        arguments = {name: call.arguments[name] for name in sorted(call.arguments, key=str)}
        try:
            digest = keyed_digest([arguments, values], self._secret_key)
        except UncacheableValueError:
            return None
        session_id = None if self._is_shared else call.session_id
        return call.definition.fingerprint, id(call.body), session_id, digest


async def with_bound_values(call: Call) -> tuple[Call, Arguments]:
    """Read the bound values once, so that a digest and the body see the same ones. Raises as `runner.prepare` does.

    Return the call with these values, and the values by parameter, MISSING for one that has none.
    """
    plan, scopes = call.plan, call.state_scopes
    resolved: Arguments = {}
    seconds = None
    if plan.has_async_resolvers:
        resolved, seconds = await run_before_body(plan, functools.partial(run_resolvers, plan, scopes))
    values: Arguments = {}
    for bound in plan.bound_parameters:
        name, binding = bound.parameter.name, bound.binding
        if binding.resolver not in CONTEXT_RESOLVERS:
            value = resolved[name] if name in resolved else bound.read(scopes)
            values[name] = binding.default_value() if value is MISSING else value
    call.scope.bound_values = {name: value for name, value in values.items() if value is not MISSING}
    return replace(call, plan=plan.with_bound_values(values).with_seconds(seconds)), values
