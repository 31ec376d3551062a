"""What makes calls exclusive: the key of a call, and the middleware that lets it wait until it holds its key."""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Final

from ahvn_tools.errors import ToolCallError
from ahvn_tools.execution.call import Call, Middleware, Next
from ahvn_tools.execution.convert import call_error_detail, error_result
from ahvn_tools.execution.pipeline import run_if_large_in_thread
from ahvn_tools.execution.plan import Plan
from ahvn_tools.execution.runner import capture_outcome, run_before_body
from ahvn_tools.execution.threads import call_host_function
from ahvn_tools.middleware.reporting import received_as_json
from ahvn_tools.results import ToolResult
from ahvn_tools.toolkit.locks import KeyedLocks

KeyFunction = Callable[[dict[str, Any]], Hashable | Awaitable[Hashable]]
"""Returns the key of a call from its arguments; sync or async."""

Exclusive = bool | str | KeyFunction
"""True: alone. A parameter's name: alone among calls with the same value of it. Or a function of the arguments."""

ALONE: Final = ("alone",)
"""The key of a call that runs alone."""

_TOO_SLOW: Final = "its `exclusive` function took too long"

Validate = Callable[[Callable[[], dict[str, Any]]], Awaitable[dict[str, Any]]]
"""Calls a validation and returns what it returns."""


@dataclass(frozen=True, slots=True)
class ParameterKey:
    """The key of calls with the same value of a parameter; without a value and a default, they share one key."""

    parameter: str
    default: str | None = None

    @classmethod
    def from_schema(cls, parameter: str, schema: Mapping[str, Any]) -> ParameterKey:
        """Return the function for a parameter with this schema; a call without the parameter has its default."""
        return cls(parameter, _to_key_text(schema["default"]) if "default" in schema else None)

    def __call__(self, arguments: Mapping[str, Any]) -> Hashable:
        """Return the key of a call."""
        name = self.parameter
        return name, _to_key_text(arguments[name]) if name in arguments else self.default


def _to_key_text(value: Any) -> str:
    """Return one text for values that a tool may treat as equal: 1, 1.0 and "1", a list and its JSON."""
    if isinstance(value, str):
        return value
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    return json.dumps(number, sort_keys=True, default=str)


async def find_key(exclusive: Exclusive, arguments: dict[str, Any]) -> Hashable | None:
    """Return the key of a call with these arguments; None for one that may run at the same time as any other.

    When the host's function fails or returns an unhashable value, the call runs alone.
    """
    if isinstance(exclusive, bool):
        return ALONE if exclusive else None
    if isinstance(exclusive, ParameterKey):
        return "by function", exclusive(arguments)
    outcome = await capture_outcome(call_host_function, exclusive, arguments)
    if outcome.error is not None or not isinstance(outcome.value, Hashable):
        return ALONE
    return None if outcome.value is None else ("by function", outcome.value)


async def prepare_exclusive(
    exclusive: Exclusive, plan: Plan, arguments: dict[str, Any], validate: Validate | None = None
) -> tuple[Plan, Hashable | None]:
    """Return the plan of a call, whose arguments are validated with it, and the key for the validated arguments.

    `validate` calls a validation elsewhere, a worker thread for example. The time of an async function of the host
    counts towards the timeout of the call. Raises as `Plan.validate` does, and ToolTimeoutError.
    """
    if isinstance(exclusive, bool):
        return plan, await find_key(exclusive, arguments)
    check = functools.partial(plan.validate, arguments)
    values = check() if validate is None else await validate(check)
    received = plan.name_by_property(values)
    names = [exclusive.parameter] if isinstance(exclusive, ParameterKey) else received
    json_form = {name: received_as_json(received[name], arguments.get(name)) for name in names if name in received}
    if isinstance(exclusive, ParameterKey):
        key, seconds = await find_key(exclusive, json_form), None
    else:
        key, seconds = await run_before_body(plan, functools.partial(find_key, exclusive, json_form), _TOO_SLOW)
    return plan.with_validated(values).with_seconds(seconds), key


def lock_middleware(exclusive: Exclusive, locks: KeyedLocks) -> Middleware:
    """Return the middleware that lets a call wait until it holds its key."""

    async def wait_for_key(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        if call.supplied is not None:  # no body runs, and secret arguments may be missing
            return await next(call)
        started, validate = perf_counter(), functools.partial(run_if_large_in_thread, call, call.arguments)
        try:
            plan, key = await prepare_exclusive(exclusive, call.plan, call.arguments, validate)
        except ToolCallError as error:
            return call.scope.record_error(error, error_result(call_error_detail(error), started))
        call = replace(call, plan=plan)
        return await (next(call) if key is None else locks.run_locked(key, lambda: next(call)))

    return wait_for_key
