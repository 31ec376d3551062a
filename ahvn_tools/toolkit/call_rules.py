"""What the rules of a toolkit say about its calls: the check of each call, its explanation, and remembered rules."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ahvn_tools.binding import StateScopes
from ahvn_tools.errors import CallRejectedError, ToolCallError, ToolError, ToolkitError, ToolLookupError, near_misses
from ahvn_tools.execution.call import Call, Middleware, Next
from ahvn_tools.execution.plan import Plan
from ahvn_tools.execution.threads import call_in_thread
from ahvn_tools.middleware.approve import ApprovalMiddleware, rejection_text
from ahvn_tools.middleware.pending import ApprovalRequest
from ahvn_tools.results import ToolResult
from ahvn_tools.state import MISSING
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.remembered_rules import RememberedRule
from ahvn_tools.toolkit.rule_values import PathBase
from ahvn_tools.toolkit.tool_rules import RuleDecision, ToolRules, strictest
from ahvn_tools.toolkit.visibility import StoreView

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Layer:
    """The rules of one toolkit for a tool: of the one that is called, or of one that the tool comes from."""

    rules: ToolRules
    view: StoreView
    names: Mapping[str, str]
    """The tool's names of the arguments there, by those of the caller, where they differ."""


@runtime_checkable
class CallFolders(Protocol):
    """The folders of a tool that has its own, such as those of a workspace."""

    @property
    def roots(self) -> tuple[Path, ...]:
        """The folders."""

    @property
    def base(self) -> Path:
        """The folder in which relative paths begin. Raises ToolError if there is none."""

    def for_roots(self, roots: tuple[Path, ...]) -> CallFolders:
        """Return the folders that a call with these roots may use."""


class CallRules:
    """Decides about the calls of one tool, as a middleware and before a call that needs none."""

    def __init__(self, view: StoreView, entry: Entry, roots: tuple[Path, ...] | None) -> None:
        """Decide for a view; `roots` are those of the call, None: those of the view."""
        self._view, self._entry = view, entry
        self._layers = tuple(_layers(view, entry))
        self._base = self._find_base(view.roots if roots is None else roots)

    @functools.cached_property
    def middleware(self) -> tuple[Middleware, ...]:
        """What decides about a call in the pipeline, outermost first."""
        remember = functools.partial(aremember, self._view)
        return self, ApprovalMiddleware(self._view.store.approver, self.asks, remember)

    def _find_base(self, roots: tuple[Path, ...] | None) -> PathBase:
        """Return where paths begin in a call with these roots: those of a tool with its own folders in these."""
        folders = getattr(getattr(self._entry.spec.function, "__self__", None), "folders", None)
        places = [*(roots or ())]
        own: list[Path] = []
        if isinstance(folders, CallFolders):
            own = [*folders.roots]
            with contextlib.suppress(ToolError):  # no folder that the call may use
                here = folders if roots is None else folders.for_roots(roots)
                places = [here.base, *here.roots, *own]
        rule_roots = [*own, *places, *(root for layer in self._layers for root in layer.view.store.roots)]
        return PathBase(places, rule_roots)

    @property
    def never_asks(self) -> bool:
        """Whether each call runs, whatever its arguments are."""
        return self._entry.requires_approval is False and all(
            not (layer.rules.depends_on_arguments or layer.rules.asked)
            and not layer.rules.find_denial(layer.view.approval_mode)
            and (layer.rules.allowed or layer.rules.mode_decision(layer.view.approval_mode).decision == "allow")
            for layer in self._layers
        )

    def judge(self, plan: Plan, *forms: Mapping[str, Any], requires_approval: bool) -> RuleDecision:
        """Return the decision about arguments, in the forms in which they are known; no bound value counts."""
        decision = self._judge_by_rules(*forms, requires_approval=requires_approval)
        if decision.decision != "ask" or (rule := self._find_remembered(plan, forms[0])) is None:
            return decision
        reason = f"An approver has approved {rule.text} for always."
        return RuleDecision(decision="allow", why="remembered", rule=rule.text, reason=reason)

    def _judge_by_rules(self, *forms: Mapping[str, Any], requires_approval: bool = False) -> RuleDecision:
        decisions = []
        for layer in self._layers:
            renamed, mode = [_renamed(form, layer.names) for form in forms], layer.view.approval_mode
            decisions.append(layer.rules.judge(renamed, self._base, mode, requires_approval=requires_approval))
        return strictest(decisions)

    def decision_on_all_calls(self) -> RuleDecision | None:
        """Return the decision on each call, whatever its arguments are; None if it depends on them."""
        depends = callable(self._entry.requires_approval) or any(one.rules.depends_on_arguments for one in self._layers)
        if depends and not any(one.rules.find_denial(one.view.approval_mode) for one in self._layers):
            return None
        return self._judge_by_rules({}, requires_approval=self._entry.requires_approval is True)

    def explain(self, plan: Plan, arguments: dict[str, Any], scopes: StateScopes) -> RuleDecision:
        """Return the decision about a call that is not made, with the bound values that need no resolver.

        Raises InvalidParametersError.
        """
        values = plan.validate(arguments)
        exact = self._layers[0].rules.exact_arguments(values)
        received = {**arguments, **{name: value for name, value in exact.items() if name in arguments}}
        requires_approval = any(map(self._entry.requires_approval_of, (arguments, received)))
        found = self._find_known_denial(plan, values, scopes)
        return found or self.judge(plan, arguments, values, requires_approval=requires_approval)

    def _find_known_denial(self, plan: Plan, arguments: Mapping[str, Any], scopes: StateScopes) -> RuleDecision | None:
        """Return the decision of a deny rule about bound values that need no resolver."""
        if not any(layer.rules.bound for layer in self._layers):
            return None
        known, unknown = dict(arguments), set[str]()
        for bound in plan.bound_parameters:
            value = MISSING
            if bound.binding.resolver is None:
                with contextlib.suppress(ToolCallError):
                    value = bound.read_validated(scopes)
            if value is MISSING:
                unknown |= {bound.parameter.name, bound.parameter.property_name}
            else:
                known[bound.parameter.name] = value
        return self.find_bound_denial(known, frozenset(unknown))

    def find_bound_denial(
        self, values: Mapping[str, Any], unknown: frozenset[str] = frozenset()
    ) -> RuleDecision | None:
        """Return the decision of a deny rule about the arguments of the body, bound ones too, except `unknown` ones."""
        for layer in self._layers:
            if layer.rules.bound:
                arguments = _renamed(values, layer.names)
                if (found := layer.rules.find_bound_denial(arguments, self._base, unknown)) is not None:
                    return found
        return None

    def _find_remembered(self, plan: Plan, arguments: Mapping[str, Any]) -> RememberedRule | None:
        rules = [rule for rule in remembered_rules(self._view) if rule.tool == self._entry.name]
        if not rules:
            return None
        try:
            exact = self._layers[0].rules.exact_arguments(plan.validate(dict(arguments)))
        except ToolCallError:
            return None
        fingerprint = self._view.definition(self._entry).fingerprint
        return next((rule for rule in rules if rule.is_for(self._entry.name, fingerprint, exact)), None)

    async def __call__(self, call: Call, next: Next) -> ToolResult:  # noqa: A002  # that of a middleware
        """Run a call whose arguments are not denied as they were sent; `guarded` is for those that the body gets."""
        self._raise(self._judge_by_rules(call.arguments))
        self._raise(self._find_known_denial(call.plan, call.arguments, call.state_scopes))
        return await next(call)

    def guarded(self, plan: Plan) -> Plan:
        """Return the plan of a call that refuses denied arguments, also those that an approver or a middleware sets."""
        return self._with_bound_check(plan.with_check(lambda values: self._raise(self._judge_by_rules(values))))

    def asks(self, call: Call) -> bool:
        """Return whether a call needs an approval."""
        requires_approval = self._entry.requires_approval_of(call.arguments)
        decision = self.judge(call.plan, call.arguments, requires_approval=requires_approval)
        is_allowed = decision.decision == "allow"  # asked last about the arguments that the body receives
        call.scope.is_allowed_by_rule = is_allowed and decision.why in {"rule", "remembered"}
        call.scope.asked_by = None if is_allowed else decision.reason
        call.scope.is_for_client = not is_allowed and self._entry.requires_approval is False
        return not is_allowed

    def allowed_plan(self, plan: Plan, arguments: dict[str, Any]) -> Plan | None:
        """Return the plan of a call that runs without an approval; None: the middleware decides on the call."""
        if self._entry.requires_approval is not False:
            return None
        try:
            values = plan.validate(arguments)
        except (ToolCallError, RecursionError):
            return None
        if self.judge(plan, arguments, values, requires_approval=False).decision != "allow":
            return None
        return self._with_bound_check(plan.with_validated(values))

    def _with_bound_check(self, plan: Plan) -> Plan:
        if not any(layer.rules.bound for layer in self._layers):
            return plan
        return plan.with_bound_check(lambda values: self._raise(self.find_bound_denial(values)))

    def _raise(self, decision: RuleDecision | None) -> None:
        """Raise CallRejectedError for a call that is denied. The model reads no rule: it may name what is bound."""
        if decision is not None and decision.decision == "deny":
            reason = (
                "the rules of its host do not allow it" if decision.why == "rule" else "only tools that read may run"
            )
            raise CallRejectedError(rejection_text(self._entry.name, f"{reason}."), tool=self._entry.name)


def _layers(view: StoreView, entry: Entry, names: Mapping[str, str] | None = None) -> Iterator[_Layer]:
    """Yield the rules for a tool, those of the toolkits that it comes from, too."""
    yield _Layer(view.rules_for(entry), view, names or {})
    if entry.inner is not None and entry.inner[0].has_rules(entry.inner[1]):
        parameters = view.compiled_tool(entry).template.inputs.parameters.values()
        inner = {p.property_name: p.body_name or p.name for p in parameters} | {
            p.name: p.body_name for p in parameters if p.body_name is not None
        }
        yield from _layers(
            *entry.inner, {**inner, **{name: inner.get(new, new) for name, new in (names or {}).items()}}
        )


def _renamed(arguments: Mapping[str, Any], names: Mapping[str, str]) -> Mapping[str, Any]:
    return {names.get(name, name): value for name, value in arguments.items()} if names else arguments


def remembered_rules(view: StoreView) -> Sequence[RememberedRule]:
    """Return the rules that are remembered in the file, or in the session; none of a file that is not valid."""
    file = view.store.rule_file
    if file is None:
        return view.session_state.switches.remembered_rules
    try:
        return file.read()
    except ToolkitError as error:
        log.warning("%s Calls need their approvals again.", error)
        return ()


def remember(view: StoreView, request: ApprovalRequest) -> None:
    """Remember the call of a request: from now on the toolkit has rules.

    An error of the file is logged: the call is approved nevertheless.
    """
    entry = view.store.entry(request.tool)
    plan = view.compiled_tool(entry).plan
    exact = view.rules_for(entry).exact_arguments(plan.validate(dict(request.arguments)))
    rule = RememberedRule(tool=request.tool, fingerprint=request.fingerprint, arguments=exact)
    if view.store.rule_file is not None:
        try:
            view.store.rule_file.add(rule)
        except ToolkitError as error:
            log.warning("%s The approval is not remembered.", error)
        return
    switches, view.store.has_rules = view.session_state.switches, True
    switches.remembered_rules = (*(one for one in switches.remembered_rules if one != rule), rule)


async def aremember(view: StoreView, request: ApprovalRequest) -> None:
    """Remember the call of a request; in a thread if a file is written."""
    if view.store.rule_file is None:
        remember(view, request)
    else:
        await call_in_thread(remember, view, request)


def forget(view: StoreView, text: str) -> None:
    """Forget a remembered rule. Raises ToolLookupError for a text that is none."""
    known = [rule.text for rule in remembered_rules(view)]
    if text not in known:
        raise ToolLookupError(f"There is no remembered rule {text!r}. {near_misses(text, known)}")
    if view.store.rule_file is not None:
        view.store.rule_file.remove(text)
        return
    switches = view.session_state.switches
    switches.remembered_rules = tuple(rule for rule in switches.remembered_rules if rule.text != text)
