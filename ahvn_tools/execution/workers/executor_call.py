"""ExecutorCall: one call of a body in a worker of an executor, as its caller sees it, and what of it is sent there.

No secret value leaves this process, unless the host of the tool allows it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from types import FunctionType
from typing import Any, Final

from ahvn_tools.binding import WorkerResolver
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import PickleError, ToolConnectionError, clip
from ahvn_tools.execution.deadline import CANCEL_GRACE_SECONDS
from ahvn_tools.execution.outcome import Outcome
from ahvn_tools.execution.pickling import FunctionPath, to_path
from ahvn_tools.execution.plan import Arguments, Body, BoundParameter, Plan
from ahvn_tools.execution.threads import EmitItem, EmitItemSync, call_in_thread, run_in_thread
from ahvn_tools.execution.workers import replies
from ahvn_tools.execution.workers.body_call import BodyCall, WorkerLostError
from ahvn_tools.execution.workers.call_executor import CallObserver, CallTask, RunningCall
from ahvn_tools.execution.workers.plain import start_call
from ahvn_tools.json_types import JsonObject
from ahvn_tools.redaction.texts import redact
from ahvn_tools.redaction.values import contains_secret
from ahvn_tools.schema.secret_parameters import without_secret_defaults
from ahvn_tools.state import MISSING, StateKey, may_have, without_keys

MAX_WAITING: Final = 100
"""When so many items wait, newer progress replaces older progress, as where a local call waits for its reader."""

Item = bytes | WorkerLostError

MAX_RUNS: Final = 3
"""How often a body that may be repeated is run when its worker is lost."""


class ExecutorCall(BodyCall):
    """One call of a body in a worker of the plan's executor."""

    place = "worker of the executor"
    is_on_this_computer = False

    def __init__(
        self,
        plan: Plan,
        body: Body,
        values: Arguments,
        *,
        has_reader: bool,
        remaining_seconds: Callable[[], float] | None,
    ) -> None:
        """Prepare the call. `remaining_seconds` returns how many are left of its timeout."""
        super().__init__(plan, body, values, has_reader=has_reader)
        self._remaining_seconds = remaining_seconds
        self._has_emitted = False

    async def run(self, emit: EmitItem | None) -> Outcome:
        """Run the body in the executor, pass its chunks to `emit`, and return its outcome.

        A body that may be repeated runs again if its worker is lost before a chunk was passed on. Raises PickleError,
        and ToolConnectionError when the executor takes no call or a worker is lost. Cancelling this cancels the call.
        """
        if (executor := self.plan.executor) is None:
            raise ToolConnectionError(
                f"The tool {self.plan.name!r} runs in an executor, and there is none here.",
                tool=self.plan.name,
                explanation=f'The tool {self.plan.name!r} has isolation="executor": add it to a '
                "Toolkit(…, executor=…), or call it with `submit(executor, …)`.",
            )
        request = await call_in_thread(self._encode)
        for run in range(1, MAX_RUNS + 1):
            try:
                return await self._run_once(executor, request, emit)
            except WorkerLostError as error:
                if run == MAX_RUNS or self._has_emitted or not self.plan.may_repeat:
                    raise self._lost_error(error) from error.__cause__
        raise AssertionError  # pragma: no cover  # the last run returns or raises

    def _lost_error(self, error: WorkerLostError) -> ToolConnectionError:
        reason = clip(
            redact(str(error), self.plan.hidden_values(self._values, self._body))
        )  # the executor may have written it
        return ToolConnectionError(f"The worker of tool {self.plan.name!r} {reason.rstrip('.')}.", tool=self.plan.name)

    async def _run_once(self, executor: Executor, request: bytes, emit: EmitItem | None) -> Outcome:
        inbox = Inbox()
        task = CallTask(
            tool=self.plan.name,
            request=request,
            is_connected=self.has_reader or self.plan.takes_context,
            is_repeatable=self.plan.may_repeat,
            seconds=None if self._remaining_seconds is None else self._remaining_seconds(),
        )
        observer = CallObserver(inbox.put, lambda reason: inbox.put(WorkerLostError(reason)))
        started = _StartedCall()
        has_ended = False
        try:
            call = await call_in_thread(started.start, executor, task, observer)
            while True:
                items = await inbox.take_all()
                has_ended = any(isinstance(item, WorkerLostError) or replies.is_final(item) for item in items)
                handle = functools.partial(self._handle, items, call)
                outcome = (await run_in_thread(handle, emit)).get()
                if outcome is not None:
                    return outcome  # type: ignore[no-any-return]  # what handle_reply returns
        finally:
            if not has_ended:
                await started.cancel()

    def _handle(self, items: list[Item], call: RunningCall, emit: EmitItemSync) -> Outcome | None:
        """Do what the replies ask for, in their order, and return the outcome if one has it. Raises WorkerLostError."""

        def emit_and_remember(item: Any) -> None:
            self._has_emitted = True
            emit(item)

        for item in items:
            if isinstance(item, WorkerLostError):
                raise item
            self._has_emitted = self._has_emitted or replies.is_output(item)
            if (outcome := self.handle_reply(item, emit_and_remember, call.send)) is not None:
                return outcome
        return None

    def _encode(self) -> bytes:
        """Return the request, with what the body's ToolContext gets of the state. Raises PickleError."""
        if not self.plan.settings.ship_secrets:
            refuse_secrets(self.plan, self._body, self._values)
        state = shipped_state(self.plan, self._context) if self.plan.settings.ship else {}
        return self.encode_request(state, max_reply_bytes=self.plan.item_limits.max_bytes)


class _StartedCall:
    """A call that a thread starts, which may block, while another one may cancel it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._call: RunningCall | None = None
        self._is_cancelled = False

    def start(self, executor: Executor, task: CallTask, observer: CallObserver) -> RunningCall:
        """Start the call, and cancel it if that was requested meanwhile. Raises WorkerLostError."""
        try:
            call = start_call(executor, task, observer)
        except Exception as error:  # an executor may raise anything
            reason = f"was not started by the executor: {type(error).__name__}: {error}"
            raise WorkerLostError(reason) from error
        with self._lock:
            self._call = call
            is_cancelled = self._is_cancelled
        if is_cancelled:
            call.cancel()
        return call

    async def cancel(self) -> None:
        """Cancel the call, now or when it has started. The caller waits at most CANCEL_GRACE_SECONDS for that."""
        with self._lock:
            self._is_cancelled = True
            call = self._call
        if call is not None:
            cancelling = asyncio.ensure_future(call_in_thread(call.cancel))
            await asyncio.wait({cancelling}, timeout=CANCEL_GRACE_SECONDS)
            cancelling.cancel()


class Inbox:
    """Takes replies, and the loss of the worker, from any thread. The task that created it handles them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._items: list[Item] = []
        self._has_items = asyncio.Event()

    def put(self, item: Item) -> None:
        """Add an item. It never waits."""
        with self._lock:
            if len(self._items) >= MAX_WAITING and _is_progress(item) and _is_progress(self._items[-1]):
                self._items[-1] = item
                return
            self._items.append(item)
            is_first = len(self._items) == 1
        if is_first:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(self._has_items.set)

    async def take_all(self) -> list[Item]:
        """Wait for items, and return them in their order."""
        await self._has_items.wait()
        with self._lock:
            self._has_items.clear()
            items, self._items = self._items, []
        return items


def _is_progress(item: Item) -> bool:
    return isinstance(item, bytes) and replies.is_progress(item)


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
