"""ToolRules: the rules of a toolkit that are for one tool, and what they say about arguments."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from ahvn_tools.execution.compiled_tool import CompiledTool
from ahvn_tools.json_types import JsonObject
from ahvn_tools.registry import ToolRegistry
from ahvn_tools.schema.inputs import Parameter, ParameterKind
from ahvn_tools.spec import ToolSpec
from ahvn_tools.state import UNSET
from ahvn_tools.toolkit.approval_rules import ApprovalRule, ApprovalRules, CallValues, Condition, Mode
from ahvn_tools.toolkit.entry import CODE_TOOL, ChangedSpec, Entry
from ahvn_tools.toolkit.rule_values import PathBase, kind_of, to_json

_MODULES: Final = ("ahvn_tools.toolkit.model_tools", "ahvn_tools.middleware.keep_large")
"""Those of the tools by which a model uses the toolkit itself."""


@dataclass(frozen=True, kw_only=True)
class RuleDecision:
    """What happens to a call, and why."""

    decision: Literal["allow", "ask", "deny"]
    why: Literal["rule", "remembered", "requires_approval", "mode", "annotation"]
    """What decides: a rule, one that an approver wants to be remembered, what the tool itself requires, the mode, or
    the mode together with the annotations of the tool."""
    rule: str | None = None
    """The text of the rule that decides, without the patterns of bound parameters."""
    reason: str
    """The same in words, for the host."""


_REQUIRED: Final = RuleDecision(decision="ask", why="requires_approval", reason="The tool itself requires an approval.")

_RANKS: Final = ("allow", "ask", "deny")


def strictest(decisions: Sequence[RuleDecision]) -> RuleDecision:
    """Return the first of the strictest decisions, a rule before a mode."""
    return max(decisions, key=lambda one: (_RANKS.index(one.decision), one.why == "rule"))


class ToolRules:
    """The rules of a toolkit that are for one tool."""

    def __init__(self, rules: ApprovalRules | None, entry: Entry, compiled: CompiledTool) -> None:
        """Select and prepare the rules."""
        self.rules, self.compiled, self.name = rules, compiled, entry.name
        self.server_names = _server_names(entry)
        names = (entry.name, entry.wire_name, *self.server_names)
        parameters = self._read_parameters(compiled, entry.spec.function)
        self._conditions: dict[Condition, Condition] = {}
        rules = rules or _NO_RULES
        denied = tuple(rule for rule in rules.denied if rule.is_for(names))
        self.asked = tuple(rule for rule in rules.asked if rule.is_for(names))
        self.allowed = tuple(rule for rule in rules.allowed if rule.may_allow(entry.name, self.server_names))
        self.selected = (*denied, *self.asked, *self.allowed)
        function = entry.spec.function
        self._only_reads = _owner_table(function, "reading_calls").get(getattr(function, "__name__", ""))
        self.depends_on_arguments = self._only_reads is not None or any(rule.conditions for rule in self.selected)
        self.hidden = frozenset(name for p in parameters if p.name in compiled.bindings for name in _names_of(p))
        """The names of the bound parameters."""
        self.bound = tuple(rule for rule in denied if rule.parameters & self.hidden)
        """The deny rules that name a bound parameter: its value is known when the call runs."""
        self.denied = tuple(rule for rule in denied if rule not in self.bound)
        self._hints = trusted_annotations(entry)
        module = getattr(function, "__module__", None)
        self._is_of_toolkit = getattr(function, CODE_TOOL, False) or module in _MODULES

    def _read_parameters(self, compiled: CompiledTool, function: Any) -> Collection[Parameter]:
        """Set what is known of the parameters: their names, defaults, and what their texts are; return them."""
        parameters = compiled.template.inputs.parameters.values()
        properties = compiled.template.inputs.schema(frozenset(compiled.bindings)).get("properties") or {}
        self._property_names = {name: p.property_name for p in parameters for name in _names_of(p)}
        self._property_names |= {p.property_name: p.property_name for p in parameters}
        self.parameters = frozenset(self._property_names)
        """All names of parameters, those that are bound too."""
        self._collected = next((p.name for p in parameters if p.kind is ParameterKind.VAR_KEYWORD), None)
        declared = _owner_table(function, "argument_kinds")
        self._kinds = {
            name: declared.get(p.body_name or p.name) or kind_of(name, properties.get(p.property_name))
            for p in parameters
            for name in _names_of(p)
        }
        visible = {p.property_name: p.default for p in parameters if p.name not in compiled.bindings}
        self._defaults = {name: value for name, value in visible.items() if value is not UNSET}
        for name in visible.keys() & properties.keys() - self._defaults.keys():
            if isinstance(schema := properties[name], dict) and "default" in schema:
                self._defaults[name] = schema["default"]
        self._reaching = {
            name: self._defaults.get(name, UNSET)
            for name in visible
            if self._kinds[name] != "text" and _takes_any_text(properties.get(name))
        }
        """The defaults of the parameters that say what a call reaches: paths, commands, code."""
        return parameters

    def mode_decision(self, mode: Mode) -> RuleDecision:
        """Return what happens to calls for which there is no rule."""
        if self._is_of_toolkit:
            return RuleDecision(decision="allow", why="mode", reason="The calls that it makes follow the rules.")
        if mode == "allow":
            return RuleDecision(decision="allow", why="mode", reason="No rule names it, and the mode is allow.")
        hints = self._hints
        if hints.get("readOnlyHint") is True and hints.get("destructiveHint") is not True:
            return RuleDecision(decision="allow", why="annotation", reason=f"The mode is {mode}, and it only reads.")
        if mode == "accept_edits" and (hints.get("destructiveHint") is False or hints.get("openWorldHint") is False):
            reason = "The mode is accept_edits, and it only adds, or changes nothing outside."
            return RuleDecision(decision="allow", why="annotation", reason=reason)
        reason = f"No rule names it, and the mode is {mode}."
        return RuleDecision(decision="deny" if mode == "read_only" else "ask", why="mode", reason=reason)

    def _decide_by_mode(self, forms: Sequence[Mapping[str, Any]], mode: Mode) -> RuleDecision:
        """Return what happens to a call without a rule: one that only reads runs, if the tool knows that."""
        decision = self.mode_decision(mode)
        if decision.decision == "allow" or self._only_reads is None or not all(map(self._only_reads, forms)):
            return decision
        return RuleDecision(decision="allow", why="annotation", reason=f"The mode is {mode}, and this call only reads.")

    def find_denial(self, mode: Mode) -> bool:
        """Return whether each call is denied, whatever its arguments are."""
        if any(not rule.conditions for rule in self.denied):
            return True
        if self._only_reads is not None:
            return False
        return not (self.asked or self.allowed) and self.mode_decision(mode).decision == "deny"

    def may_ask(self, mode: Mode) -> bool:
        """Return whether a call of the tool may need an approval because of the rules or the mode."""
        if all(rule.conditions for rule in self.allowed) and self.mode_decision(mode).decision == "ask":
            return not self.find_denial(mode)
        return bool(self.asked)

    def judge(
        self, forms: Sequence[Mapping[str, Any]], base: PathBase, mode: Mode, *, requires_approval: bool
    ) -> RuleDecision:
        """Return the decision about arguments, in the forms in which they are known: as sent and as validated."""
        call = CallValues([*map(self._by_property, forms)] if self.depends_on_arguments else [], self._kinds, base)
        unclear: ApprovalRule | None = None
        for rule in self.denied:
            verdict = self._names(rule, call)
            if verdict is True:
                return self._by(rule, "deny", "denies it")
            unclear = unclear or (rule if verdict is None else None)
        asked = next((rule for rule in self.asked if self._names(rule, call, unknown=self.hidden) is not False), None)
        allowed = None if asked or unclear else next((rule for rule in self.allowed if self._allows(rule, call)), None)
        by_mode = self._decide_by_mode(forms, mode)
        if not (asked or unclear or allowed) and by_mode.decision == "deny":
            return by_mode
        if asked is not None:
            return self._by(asked, "ask", "asks for it")
        if unclear is not None:
            return self._by(unclear, "ask", "may deny it: its command line cannot be read")
        if requires_approval:
            return _REQUIRED
        return by_mode if allowed is None else self._by(allowed, "allow", "allows it")

    def decision_without_rules(self, requires_approval: bool) -> RuleDecision:
        """Return the decision on all calls in a toolkit that has no rules."""
        return _REQUIRED if requires_approval else self.mode_decision("allow")

    def find_bound_denial(
        self, values: Mapping[str, Any], base: PathBase, unknown: frozenset[str] = frozenset()
    ) -> RuleDecision | None:
        """Return the decision of a deny rule about the values of all parameters, bound ones too.

        A rule about a value that is missing denies; rules about the `unknown` parameters are left out.
        """
        form = self._by_property(values)
        call, missing = CallValues([form], self._kinds, base), self.parameters - form.keys()
        rules = [rule for rule in self.bound if rule.parameters.isdisjoint(unknown)]
        found = next((rule for rule in rules if self._names(rule, call, unknown=missing) is not False), None)
        return None if found is None else self._by(found, "deny", "denies it")

    def _by(self, rule: ApprovalRule, decision: Literal["allow", "ask", "deny"], what: str) -> RuleDecision:
        text = rule.shown(self.hidden)
        return RuleDecision(decision=decision, why="rule", rule=text, reason=f"The rule {text} {what}.")

    def _names(self, rule: ApprovalRule, call: CallValues, *, unknown: Collection[str] = frozenset()) -> bool | None:
        """Return whether a deny or ask rule is for a call, with any value of `unknown` ones; None if it may be."""
        verdict: bool | None = True
        for condition in rule.conditions:
            if (name := condition.path[0]) in unknown and self._property_names[name] in unknown:
                continue
            one = self._with_property(condition).names(call)
            if one is False:
                return False
            verdict = None if one is None else verdict
        return verdict

    def _allows(self, rule: ApprovalRule, call: CallValues) -> bool:
        if not rule.parameters.isdisjoint(self.hidden):
            return False
        left = self._unnamed(rule) if rule.conditions else ()
        if not all(call.has_default(name, self._reaching[name]) for name in left):
            return False
        return all(self._with_property(condition).allows(call) for condition in rule.conditions)

    def _unnamed(self, rule: ApprovalRule) -> list[str]:
        """Return the paths, commands and code that a rule does not name: it allows their defaults only."""
        named = {self._property_names.get(name, name) for name in rule.parameters}
        return [name for name in self._reaching if name not in named]

    def explain_unused(self, rule: ApprovalRule) -> str | None:
        """Return why an allow rule allows no call of this tool, or None."""
        if not rule.conditions:
            return None
        if missing := [name for name in self._unnamed(rule) if self._reaching[name] is UNSET]:
            return f"it does not name {', '.join(map(repr, missing))}"
        for condition in map(self._with_property, rule.conditions):
            kind = self._kinds.get(condition.path[-1])
            if kind in {"command", "git"} and (reason := condition.pattern.explain_no_command()) is not None:
                return reason
        return None

    def _with_property(self, condition: Condition) -> Condition:
        """Return a condition that names its parameter as the schema does; for the arguments of git, with `git`."""
        if (known := self._conditions.get(condition)) is None:
            first, *others = condition.path
            name = self._property_names.get(first, first)
            known = replace(condition, path=(name, *others)) if name != first else condition
            if self._kinds.get(name) == "git" and not others:
                known = replace(known, pattern=known.pattern.of_git())
            self._conditions[condition] = known
        return known

    def exact_arguments(self, values: Mapping[str, Any]) -> JsonObject:
        """Return all validated arguments as JSON, with defaults, by the names in the schema."""
        form = self._by_property(values)
        names = dict.fromkeys((*self._property_names.values(), *form))
        return {name: to_json(form[name]) for name in names if name in form}

    def _by_property(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments by their names in the schema, with defaults."""
        form = {**self._defaults}
        for name, value in arguments.items():
            if name == self._collected and isinstance(value, Mapping):
                form.update(value)
            else:
                form[self._property_names.get(name, name)] = value
        return form


def _takes_any_text(schema: Any) -> bool:
    """Return whether a parameter may have any text: it is no number, no boolean and no choice."""
    return not isinstance(schema, dict) or not (
        schema.keys() & {"enum", "const"} or schema.get("type") in {"boolean", "integer", "number"}
    )


def _owner_table(function: Any, name: str) -> Mapping[str, Any]:
    """Return what the ToolRegistry of a method says about its tools; nothing for another function."""
    owner = getattr(function, "__self__", None)
    return getattr(owner, name) if isinstance(owner, ToolRegistry) else {}


def _names_of(parameter: Parameter) -> set[str]:
    return {parameter.name, parameter.property_name, parameter.body_name or parameter.name}


_NO_RULES: Final = ApprovalRules(mode="allow")


def _server_names(entry: Entry) -> tuple[str, ...]:
    """Return the names of a tool of an MCP server after the server's name: its name here, and its own."""
    if entry.server_access is None:
        return ()
    body = entry.spec.body
    server = entry.server_name or getattr(getattr(body, "server", None), "name", None)
    return tuple(f"{server}/{name}" for name in dict.fromkeys((entry.name, getattr(body, "name", entry.name))))


def trusted_annotations(entry: Entry) -> Mapping[str, Any]:
    """Return the annotations of a tool that its host has written: those of a server are what the server says."""
    spec: ToolSpec = entry.spec
    while entry.server_access is not None:
        if isinstance(spec, ChangedSpec):
            if "annotations" in spec.changes:
                return spec.changes["annotations"] or {}
            spec = spec.original
        elif (inner := getattr(spec, "_entry", None)) is not None:  # a tool of another toolkit
            spec = inner.spec
        else:
            return {}
    return entry.spec.compiled.template.annotations or {}
