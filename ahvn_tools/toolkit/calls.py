"""Calls of a toolkit, session or selection: finds the tool, and runs it with the middleware that applies."""

from __future__ import annotations

import contextlib
import operator
import secrets
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from time import perf_counter, time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict

from ahvn_tools.binding import StateScopes
from ahvn_tools.context import CallRequest
from ahvn_tools.errors import (
    MISSING_VALUE,
    InvalidParametersError,
    ToolCallError,
    ToolChangedError,
    ToolNotAvailableError,
    ToolNotFoundError,
    UnboundStateError,
    near_misses,
    quote_name,
    unknown_options,
)
from ahvn_tools.execution import direct_call
from ahvn_tools.execution.convert import body_error_detail, call_error_detail, error_result
from ahvn_tools.execution.plan import Body, Plan
from ahvn_tools.redaction.values import HiddenValues, find_secrets
from ahvn_tools.results import ToolResult
from ahvn_tools.roots import Roots, to_roots
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.entry_options import BASIC_GROUP, validate_middleware
from ahvn_tools.toolkit.visibility import StoreView

if TYPE_CHECKING:  # slow, and a call that nothing observes does not need it
    from concurrent.futures import Executor

    from ahvn_tools.execution.call import Call, CallScope, EmitChunk, Middleware
    from ahvn_tools.middleware.pending import ApprovalRequest
    from ahvn_tools.toolkit.call_rules import CallRules
    from ahvn_tools.toolkit.tool_rules import RuleDecision

Arguments = dict[str, Any]


class CallKeywords(TypedDict, total=False):
    """The options of `call`, `exec`, `stream`, `start` and their async twins."""

    timeout: float | None
    """Seconds; the shortest of this, the toolkit's and the tool's own applies. With 0 or less, such as what is left
    of a limit of your own, the call is a `timeout`."""
    call_id: str | None
    """The id of the call, for `cancel`."""
    roots: Roots | None
    """The folders that a tool finds in its ToolContext, in place of those of the session and the toolkit."""
    middleware: Sequence[Middleware]
    """Wraps this call alone, outside of the toolkit's middleware; the first is the outermost."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class CallOptions(CallRequest):
    """The options of a call, in addition to its tool and its arguments."""

    timeout: float | None = None
    """Seconds; the tool's own timeout holds if it is shorter."""
    seconds: float | None = None
    """How many of them are left, if something ran before as a part of the call."""
    id: str | None = None
    answer_by: float | None = None
    """Until when the caller waits for the result, in seconds since 1970; None: for any time."""
    run_in_thread: bool = True
    """False: a sync body runs in the event loop of its caller, and not in a thread."""
    masks_errors: bool | None = None
    """None: as the toolkit does."""
    middleware: tuple[Middleware, ...] = ()
    """Wraps this call alone."""
    scope: CallScope | None = None
    """The scope of the batch, or of the call that this one is part of; it cancels this call, too."""
    rejection: ToolResult | None = None
    """The result of a call that a person has rejected while it waited; None: the call runs."""
    executor: Executor | None = None
    """Where the body runs; None: where the tool says, which may be the toolkit's executor."""

    @classmethod
    def create(cls, keywords: CallKeywords) -> CallOptions:
        """Return the options that the methods of a toolkit take.

        Raises TypeError for an unknown one: the arguments of a tool are one dict; ToolkitError for wrong roots,
        and for what is no middleware.
        """
        if not keywords:
            return DEFAULT_OPTIONS
        if not keywords.keys() <= CallKeywords.__annotations__.keys():
            unknown = unknown_options(keywords, CallKeywords.__annotations__)
            raise TypeError(f"{unknown} Pass the arguments of a tool as one dict: call('tool', {{'name': value}}).")
        timeout, id, roots = keywords.get("timeout"), keywords.get("call_id"), keywords.get("roots")  # noqa: A001  # the id of the call
        middleware = tuple(map(validate_middleware, keywords.get("middleware", ())))
        return cls(timeout=timeout, id=id, roots=None if roots is None else to_roots(roots), middleware=middleware)


DEFAULT_OPTIONS: Final = CallOptions()

DirectCall = tuple[Plan, Body, Arguments, StateScopes]
"""A call without middleware that nothing can observe or cancel: the arguments of `direct_call`, all of them by name."""


class PipelineCall(NamedTuple):
    """A call that passes through a pipeline: the arguments of `pipeline`."""

    middleware: tuple[Middleware, ...]
    call: Call


def call(view: StoreView, name: str, arguments: Arguments | None, options: CallOptions) -> Any:
    """Return the value, or raise."""
    request = _prepare(view, name, arguments, options)
    if not isinstance(request, PipelineCall):
        plan, body, named, scopes = request
        return direct_call.call(plan, body, (), named, scopes)
    from ahvn_tools.execution import pipeline

    with _track(view, request.call, options):
        return pipeline.unwrap_result(request.call, pipeline.execute(*request))


async def acall(view: StoreView, name: str, arguments: Arguments | None, options: CallOptions) -> Any:
    """Return the value, or raise."""
    request = _prepare(view, name, arguments, options)
    if not isinstance(request, PipelineCall):
        plan, body, named, scopes = request
        return await direct_call.acall(plan, body, (), named, scopes)
    from ahvn_tools.execution import pipeline

    with _track(view, request.call, options):
        return pipeline.unwrap_result(request.call, await pipeline.aexecute(*request))


def execute(view: StoreView, name: str, arguments: Arguments | None, options: CallOptions) -> ToolResult:
    """Return a result, an error result for any Exception."""
    try:
        request = _prepare(view, name, arguments, options)
    except ToolCallError as error:
        return error_result(call_error_detail(error), perf_counter())
    if not isinstance(request, PipelineCall):
        plan, body, named, scopes = request
        return direct_call.execute(plan, body, (), named, scopes, view.store.masks_errors)
    from ahvn_tools.execution import pipeline

    with _track(view, request.call, options):
        return pipeline.execute(*request)


async def aexecute(view: StoreView, name: str, arguments: Arguments | None, options: CallOptions) -> ToolResult:
    """Return a result, an error result for any Exception."""
    try:
        request = _prepare(view, name, arguments, options)
    except ToolCallError as error:
        return error_result(call_error_detail(error), perf_counter())
    if not isinstance(request, PipelineCall):
        plan, body, named, scopes = request
        return await direct_call.aexecute(plan, body, (), named, scopes, view.store.masks_errors)
    from ahvn_tools.execution import pipeline

    with _track(view, request.call, options):
        return await pipeline.aexecute(*request)


def validate(view: StoreView, name: str, arguments: Arguments | None, options: CallOptions) -> ToolResult:
    """Return the result of `direct_call.validate`, or an error result for a tool that cannot be called."""
    try:
        _, plan, arguments = _find(view, name, arguments, options)
    except ToolCallError as error:
        return error_result(call_error_detail(error), perf_counter())
    return direct_call.validate(plan, (), arguments)


def stream(view: StoreView, name: str, arguments: Arguments | None, options: CallOptions) -> Generator[ToolResult]:
    """Yield the chunks, then the result."""
    from ahvn_tools.execution import pipeline

    try:
        middleware, call = _prepare_stream(view, name, arguments, options)
    except ToolCallError as error:
        yield error_result(call_error_detail(error), perf_counter())
        return
    with _track(view, call, options):
        yield from pipeline.stream(middleware, call)


async def astream(
    view: StoreView, name: str, arguments: Arguments | None, options: CallOptions
) -> AsyncGenerator[ToolResult]:
    """Yield the chunks, then the result."""
    from ahvn_tools.execution import pipeline

    try:
        middleware, call = _prepare_stream(view, name, arguments, options)
    except ToolCallError as error:
        yield error_result(call_error_detail(error), perf_counter())
        return
    results = pipeline.astream(middleware, call)
    with _track(view, call, options):
        try:
            async for result in results:
                yield result
        finally:
            await results.aclose()


def start(view: StoreView, name: str, arguments: Arguments | None, options: CallOptions) -> str:
    """Start a background call and return its id. Raises as `_find` and `BackgroundCalls.start` do."""
    from ahvn_tools.execution import pipeline
    from ahvn_tools.execution.runner import capture_outcome
    from ahvn_tools.middleware.pending import without_other_request
    from ahvn_tools.toolkit.background_calls import BackgroundCall

    middleware, call = _prepare_stream(view.without_session(), name, arguments, options)
    owners, store = view.session_states, view.store

    async def run(emit: EmitChunk) -> ToolResult:
        started = perf_counter()
        with store.active_calls.track(call.id, owners, call.scope):
            emitting = replace(call, emit=pipeline.make_emit(emit, call.id))
            outcome = await capture_outcome(pipeline.aexecute, middleware, emitting)
        if outcome.error is None:
            return without_other_request(outcome.value, call.secret_key)
        detail = body_error_detail(outcome.error, call.hidden_values(), tool=call.name, is_masked=call.masks_errors)
        return replace(error_result(detail, started), id=call.id)

    background = BackgroundCall(call.id, name, call.scope, run, call.hidden_values)
    view.background_calls.start(background, store.max_background)
    return call.id


def inner_values(view: StoreView, name: str, arguments: Arguments | None, scope: CallScope) -> dict[str, HiddenValues]:
    """Return what reports of a call mask that has made this one as a part of it: bound values and secrets, by name."""
    entry, context = view.store.entries.get(name), scope.context
    names = frozenset() if entry is None else view.compiled_tool(entry).plan.secret_names
    inner = () if context is None else context._inner_values  # noqa: SLF001  # of this package
    return find_secrets(arguments or {}, names, (*scope.bound_values.items(), *inner))


def explain(view: StoreView, name: str, arguments: Arguments | None) -> RuleDecision:
    """Return what would happen to a call. Raises as `_find` does, and InvalidParametersError."""
    from ahvn_tools.toolkit.call_rules import CallRules

    entry, plan, arguments = _find(view, name, arguments, DEFAULT_OPTIONS)
    return CallRules(view, entry, None).explain(plan, arguments, state_scopes(view, entry))


def _prepare(
    view: StoreView, name: str, arguments: Arguments | None, options: CallOptions
) -> DirectCall | PipelineCall:
    """Return the call, direct unless middleware, an id or an MCP client needs a pipeline. Raises as `_find` does."""
    entry, plan, arguments = _find(view, name, arguments, options)
    rules = _rules(view, entry, plan, options) if view.store.has_rules or entry.inner else None
    middleware = _middleware(view, entry, plan, rules, options)
    if rules is not None and middleware == rules.middleware and options is DEFAULT_OPTIONS and not plan.takes_context:
        allowed = rules.allowed_plan(plan, arguments)
        if allowed is not None:
            return allowed, entry.spec.body, arguments, state_scopes(view, entry)
    if rules is not None:
        plan = rules.guarded(plan)
    if middleware or (options is not DEFAULT_OPTIONS and (options.id is not None or options.is_served)):
        return PipelineCall(middleware, _make_call(view, entry, plan, arguments, options))
    return plan, entry.spec.body, arguments, state_scopes(view, entry)


def _prepare_stream(view: StoreView, name: str, arguments: Arguments | None, options: CallOptions) -> PipelineCall:
    """Return the call; a stream always has an id, by which it can be cancelled. Raises as `_find` does."""
    entry, plan, arguments = _find(view, name, arguments, options)
    rules = _rules(view, entry, plan, options) if view.store.has_rules or entry.inner else None
    middleware = _middleware(view, entry, plan, rules, options)
    if rules is not None:
        plan = rules.guarded(plan)
    return PipelineCall(middleware, _make_call(view, entry, plan, arguments, options))


def _find(
    view: StoreView, name: str, arguments: Arguments | None, options: CallOptions
) -> tuple[Entry, Plan, Arguments]:
    """Return the tool, its plan and the arguments by name.

    Raises ToolNotFoundError, ToolNotAvailableError, UnboundStateError and InvalidParametersError; ToolkitError for a
    timeout that cannot be enforced.
    """
    entry = find_entry(view, name, hides_unselected=options.is_served)
    if options.caller is not None and (refusal := entry.refuse_caller(options.caller)) is not None:
        raise ToolNotAvailableError(refusal, tool=name)
    compiled = view.compiled_tool(entry)
    plan = compiled.made_plan or compiled.plan
    if (unbound := plan.unbound_parameter) is not None:
        raise UnboundStateError(
            MISSING_VALUE, tool=name, parameter=unbound.name, key=unbound.name, explanation=plan.unbound_text
        )
    if arguments is None:
        arguments = {}
    elif not isinstance(arguments, dict):
        raise InvalidParametersError("Invalid arguments: they are not an object. Pass a dict by parameter.", tool=name)
    if options is not DEFAULT_OPTIONS:
        plan = _apply_options(plan, entry, options)
        if options.positional:
            arguments = plan.to_named_arguments(options.positional, arguments)
    if options.executor is not None or plan.isolation == "executor":
        plan = _with_executor(view, entry, plan, options)
    if view.store.has_structured_outputs and (structured_output := view.structured_output(entry)) is not None:
        structured_output.refuse_unknown(arguments, view.definition(entry))
        plan = plan.without_names(structured_output.field_names)
    if entry.find_secrets is not None:
        plan = plan.with_secrets(entry.find_secrets(view, arguments))
    return entry, plan, arguments


def _with_executor(view: StoreView, entry: Entry, plan: Plan, options: CallOptions) -> Plan:
    """Return the plan of a call in an executor; unchanged without one, so that the call says so."""
    executor = options.executor or view.store.executor or entry.executor
    return plan if executor is None else plan.with_executor(executor, view.store.secret_keys_for_executor())


def _apply_options(plan: Plan, entry: Entry, options: CallOptions) -> Plan:
    """Return the plan of a call with these options.

    Raises ToolkitError for a timeout that cannot be enforced, ToolChangedError for a tool that is no longer external.
    """
    if options.supplied is not None:
        _require_external(plan, entry)
    if options.timeout is not None:
        entry.refuse_uninterruptible(options.timeout)
        plan = plan.with_timeout(options.timeout)
    if options.seconds is not None:
        plan = plan.with_seconds(options.seconds)
    return plan if options.run_in_thread else plan.without_thread()


def _require_external(plan: Plan, entry: Entry) -> None:
    """Raise ToolChangedError for a tool that would run its body although a result was supplied."""
    from ahvn_tools.middleware.external import may_wait  # slow, and few tools are external

    if not may_wait(plan, entry.spec.body):
        raise ToolChangedError(f"The tool {entry.name!r} is no longer external.", tool=entry.name)


def find_entry(view: StoreView, name: str, *, hides_unselected: bool) -> Entry:
    """Return the tool to call. Raises ToolNotFoundError, or ToolNotAvailableError for one that is not visible.

    `hides_unselected`: an unselected tool is an unknown one, so that a caller cannot learn that it exists.
    """
    entry = view.store.entries.get(name)
    is_selected = entry is None or not (view.selections or entry.audience) or view.is_selected(entry)
    if entry is None or (hides_unselected and not is_selected):
        near = near_misses(str(name), [entry.name for entry in view.visible_entries()])
        raise ToolNotFoundError(f"There is no tool {quote_name(name)}. {near}", tool=name)
    if not is_selected:  # first: the group may have tools for other audiences only
        audiences = [selection.audience for selection in view.selections if selection.audience is not None]
        if not audiences and view.needs_audience() and view.store.audience is not None:
            audiences = [view.store.audience]
        audiences = [audience for audience in audiences if entry.audience and audience not in entry.audience]
        place = f"to the audience {audiences[-1]!r}" if audiences else "in this selection"
        if not audiences and view.with_all_audiences().is_selected(entry):
            place = "in this session, which names no audience: the host can use session(audience=…)"
        raise ToolNotAvailableError(f"The tool {name!r} is not available {place}.", tool=name)
    if entry.group != BASIC_GROUP and not view.is_active(entry.group):
        reason = f"its group {entry.group!r} is not active"
        raise ToolNotAvailableError(f"The tool {name!r} is not available: {reason}.", tool=name)
    if entry.is_imported and entry.is_blocked(view.store.bindings, view.store.timeout):
        from ahvn_tools.mcp.client.remote_server import tool_changed_error  # slow, and few toolkits import tools

        raise tool_changed_error(name)
    return entry


_REQUEST_FIELDS: Final = tuple(CallRequest.__dataclass_fields__)
_read_request = operator.attrgetter(*_REQUEST_FIELDS)
_read_state = operator.attrgetter("state")


def state_scopes(view: StoreView, entry: Entry) -> StateScopes:
    """Return the states that a call of a tool reads, in order of precedence."""
    states = view.session_states
    if len(states) == 1:  # the toolkit itself: half the time
        return (states[0].state, *entry.spec.state_scopes)
    return (*map(_read_state, states), *entry.spec.state_scopes)


def _make_call(view: StoreView, entry: Entry, plan: Plan, arguments: Arguments, options: CallOptions) -> Call:
    from ahvn_tools.execution.call import Call, CallScope

    here = view if options.roots is None else replace(view, roots=options.roots)
    scope = options.scope or CallScope()
    scope.answer_by = options.answer_by
    fields: dict[str, Any] = dict(zip(_REQUEST_FIELDS, _read_request(options), strict=True))
    fields |= {"positional": (), "roots": here.roots}
    return Call(
        **fields,
        id=options.id if options.id is not None else f"call_{secrets.token_hex(16)}",
        name=entry.name,
        arguments=arguments,
        session_id=view.session_state.session_id if len(view.session_states) > 1 else None,
        is_anonymous=options.is_served and view.session_state.switches.is_anonymous,
        masks_errors=view.store.masks_errors if options.masks_errors is None else options.masks_errors,
        secret_key=view.store.secret_key,
        approval_expiry=_approval_expiry(view, options.answer_by),
        open_toolkit=lambda: view.store.make_toolkit(here),
        plan=plan,
        body=entry.spec.body,
        state_scopes=state_scopes(view, entry),
        find_session_secrets=view.secret_values,
        describe=lambda: view.definition(entry),
        scope=scope,
    )


def _approval_expiry(view: StoreView, answer_by: float | None) -> float | None:
    """Return for how many seconds a request to approve a call can be approved: no longer than its caller waits."""
    own = view.store.approval_expiry
    if answer_by is None:
        return own
    left = answer_by - time() - 1  # requests expire at the next whole second
    return left if own is None else min(own, left)


def _rules(view: StoreView, entry: Entry, plan: Plan, options: CallOptions) -> CallRules | None:
    """Return the rules that decide about a call; None if each call runs of a tool that asks nothing itself."""
    if not view.has_rules(entry):
        return None
    from ahvn_tools.toolkit.call_rules import CallRules  # slow, and few toolkits have rules

    rules = CallRules(view, entry, options.roots)
    return None if rules.never_asks and not plan.takes_context else rules


def _middleware(
    view: StoreView, entry: Entry, plan: Plan, rules: CallRules | None, options: CallOptions
) -> tuple[Middleware, ...]:
    """Return the middleware of a call, outermost first."""
    shared, own = () if entry.delegates else view.store.middleware, entry.middleware
    if shared or own:
        shared, own = _active(shared), _active(own)
    if options.rejection is not None:
        from ahvn_tools.middleware.approve import RejectedCall

        return (*shared, RejectedCall(options.rejection))
    if view.store.has_structured_outputs and (structured_output := view.structured_output(entry)) is not None:
        own = (*own, structured_output.middleware)
    if plan.is_external or plan.takes_context:
        from ahvn_tools.middleware.external import may_wait, supply_result, waits_for_result

        wait = waits_for_result(view.store.approver)
        own = (wait, *own, supply_result) if may_wait(plan, entry.spec.body) else own
    if rules is not None:
        own = (*rules.middleware, *own)
    elif entry.requires_approval is not False or plan.takes_context:
        from ahvn_tools.middleware.approve import ApprovalMiddleware

        condition = entry.requires_approval
        when = condition if isinstance(condition, bool) else lambda call: entry.requires_approval_of(call.arguments)
        own = (ApprovalMiddleware(view.store.approver, when, lambda request: _remember(view, request)), *own)
    if options.middleware:
        shared = (*_active(options.middleware), *shared)
    return (*shared, *own) if shared else own


async def _remember(view: StoreView, request: ApprovalRequest) -> None:
    from ahvn_tools.toolkit.call_rules import aremember  # as in _rules

    await aremember(view, request)


def _active(middleware: tuple[Middleware, ...]) -> tuple[Middleware, ...]:
    """Return middleware without that which has nothing to do now: with no other, the call is direct."""
    return tuple(layer for layer in middleware if not getattr(layer, "is_idle", False))


def _track(view: StoreView, call: Call, options: CallOptions) -> AbstractContextManager[None]:
    """Return the context in which the call can be cancelled by its id."""
    if options.scope is not None:
        return contextlib.nullcontext()
    return view.store.active_calls.track(call.id, view.session_states, call.scope)
