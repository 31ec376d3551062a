"""What of a call must not leave this process: secret values, unless the host of the tool allows it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any

from ahvn_tools.binding import WorkerResolver
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import PickleError
from ahvn_tools.execution.pickling import FunctionPath, to_path
from ahvn_tools.execution.plan import Arguments, Body, BoundParameter, Plan
from ahvn_tools.json_types import JsonObject
from ahvn_tools.redaction.values import contains_secret
from ahvn_tools.schema.secret_parameters import without_secret_defaults
from ahvn_tools.state import MISSING, StateKey, may_have, without_keys


def refuse_secrets(plan: Plan, body: Body, values: Arguments) -> None:
    """Raise PickleError for a secret that would be sent: in an argument, or as a default of the function."""
    for name, reason in _find_secrets(plan, body, values):
        raise PickleError(
            f"Parameter {name!r} of {plan.name!r} {reason}, which stays in this process: allow the tool to send it "
            "with ship_secrets=True, or bind the parameter to a WorkerResolver."
        )


def shipped_state(plan: Plan, context: ToolContext) -> JsonObject:
    """Return the parts of a call's state that the tool's `ship` names, without secrets.

    Raises PickleError for a value of one of pydantic's secret types, which no binding marks.
    """
    shipped: JsonObject = {}
    for key in plan.settings.ship:
        if (value := key.find((context.state,))) is not MISSING:
            key.write(shipped, value)
    if plan.settings.ship_secrets:
        return shipped
    shipped = without_keys(shipped, [*_bound_secret_keys(plan), *plan.secret_keys])
    for key in plan.settings.ship:
        if contains_secret(key.find((shipped,))):
            raise PickleError(
                f"The state under {key.text!r}, which {plan.name!r} ships, has a secret value, which stays in this "
                "process: allow the tool to send it with ship_secrets=True, or ship the other keys."
            )
    return shipped


def _find_secrets(plan: Plan, body: Body, values: Arguments) -> Iterator[tuple[str, str]]:
    """Yield each parameter with a secret, and what it has."""
    for name, value in values.items():
        if name in plan.sealed_names and not isinstance(value, WorkerResolver):
            yield name, "is secret"
        elif not isinstance(value, ToolContext) and contains_secret(value):  # `shipped_state` is for its state
            yield name, "has a secret value"
    for bound in plan.bound_parameters:
        if (key := _find_secret_key(bound, plan.secret_keys, values)) is not None:
            yield bound.parameter.name, f"has the value of the secret state key {key.text!r}"
    function = inspect.unwrap(getattr(body, "__func__", body))
    if isinstance(function, FunctionType) and not isinstance(to_path(body), FunctionPath):
        public = without_secret_defaults(function)
        yield from ((name, "has a secret default") for name in _changed_defaults(function, public))


def _find_secret_key(bound: BoundParameter, secret_keys: Iterable[StateKey], values: Arguments) -> StateKey | None:
    """Return a secret key whose value the bound value is, has inside, or is a part of."""
    name, own = bound.parameter.name, bound.binding.key
    if own is None or bound.binding.resolver is not None or name not in values:
        return None
    for key in secret_keys:
        common = min(len(own.steps), len(key.steps))
        if own.steps[:common] == key.steps[:common] and _has_part(values[name], key.steps[common:]):
            return key
    return None


def _has_part(value: Any, steps: tuple[str | int, ...]) -> bool:
    return not steps or may_have({"value": value}, StateKey("", ("value", *steps)))


def _bound_secret_keys(plan: Plan) -> list[StateKey]:
    bindings = [bound.binding for bound in plan.bound_parameters if bound.parameter.name in plan.sealed_names]
    return [binding.key for binding in bindings if binding.key is not None]


def _changed_defaults(function: FunctionType, public: FunctionType) -> Iterator[str]:
    after = inspect.signature(public, follow_wrapped=False).parameters
    before = inspect.signature(function, follow_wrapped=False).parameters
    return (name for name in before if before[name].default is not after[name].default)
