"""ToolRules: the rules of a toolkit that are for one tool, and what they say about arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ahvn_tools.execution.plan import CompiledTool
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware.waiting import is_same_json
from ahvn_tools.schema.inputs import ParameterKind
from ahvn_tools.spec import ToolSpec
from ahvn_tools.state import UNSET
from ahvn_tools.toolkit.approval_rules import ApprovalRule, ApprovalRules, CallValues, Condition, Mode
from ahvn_tools.toolkit.entry import CODE_TOOL, ChangedSpec, Entry
from ahvn_tools.toolkit.rule_values import Kind, PathBase, fold, kind_of

_MODEL_TOOLS: Final = "ahvn_tools.toolkit.model_tools"
_PLAIN: Final = (str, int, float, bool, type(None))


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


_RANKS: Final = ("allow", "ask", "deny")


def strictest(decisions: Sequence[RuleDecision]) -> RuleDecision:
    """Return the first of the strictest decisions."""
    return max(decisions, key=lambda one: _RANKS.index(one.decision))


class ToolRules:
    """The rules of a toolkit that are for one tool."""

    def __init__(self, rules: ApprovalRules | None, entry: Entry, compiled: CompiledTool) -> None:
        """Select and prepare the rules."""
        self.rules, self.compiled, self.name = rules, compiled, entry.name
        self.server_names = _server_names(entry)
        names = (entry.name, entry.wire_name, *self.server_names)
        rules = rules or _NO_RULES
        self.denied = tuple(rule for rule in rules.denied if rule.is_for(names))
        self.asked = tuple(rule for rule in rules.asked if rule.is_for(names))
        self.allowed = tuple(rule for rule in rules.allowed if rule.may_allow(entry.name, self.server_names))
        self.selected = (*self.denied, *self.asked, *self.allowed)
        named = frozenset(name for rule in self.selected for name in rule.parameters)
        self.depends_on_arguments = bool(named)
        self._folded = frozenset(map(fold, named))
        self._read_parameters(compiled)
        self.bound = tuple(rule for rule in self.denied if not rule.parameters.isdisjoint(self.hidden))
        """The deny rules that name a bound parameter: its value is known when the call runs."""
        self._hints = trusted_annotations(entry)
        function = entry.spec.function
        self._is_of_toolkit = (
            getattr(function, CODE_TOOL, False) or getattr(function, "__module__", None) == _MODEL_TOOLS
        )

    def _read_parameters(self, compiled: CompiledTool) -> None:
        """Set what is known of the parameters: their names, defaults, and what their texts are."""
        from ahvn_tools.middleware.reporting import as_json  # slow, and few toolkits have rules

        parameters = compiled.template.inputs.parameters.values()
        properties = compiled.template.inputs.schema(frozenset(compiled.bindings)).get("properties") or {}
        self._property_names = {p.name: p.property_name for p in parameters}
        self._aliases = [
            (p.property_name, name) for p in parameters for name in {p.name, p.body_name or p.name} - {p.property_name}
        ]
        self._collected = next((p.name for p in parameters if p.kind is ParameterKind.VAR_KEYWORD), None)
        self.hidden = frozenset(
            name
            for p in parameters
            if p.name in compiled.bindings
            for name in (p.name, p.property_name, p.body_name)
            if name
        )
        self._named = frozenset(
            name
            for p in parameters
            if not self._folded.isdisjoint(map(fold, (p.name, p.property_name, p.body_name or p.name)))
            for name in (p.name, p.property_name)
        )
        """The names of the parameters that rules name."""
        self.parameters = frozenset(name for p in parameters for name in (p.name, p.property_name))
        """All names of parameters, those that are bound too."""
        self._kinds: dict[str, Kind] = {}
        self._defaults: JsonObject = {}
        for p in parameters:
            schema = properties.get(p.property_name)
            if p.name in self.hidden:
                continue
            for name in (p.name, p.property_name):
                self._kinds[name] = kind_of(name, schema)
            if p.default is not UNSET:
                self._defaults[p.property_name] = as_json(p.default)
            elif isinstance(schema, dict) and "default" in schema:
                self._defaults[p.property_name] = schema["default"]

    def mode_decision(self, mode: Mode) -> RuleDecision:
        """Return what happens to calls for which there is no rule."""
        if mode == "allow" or self._is_of_toolkit:
            what = "it only uses other tools, whose calls have their own" if self._is_of_toolkit else f"{mode!r}"
            return RuleDecision(
                decision="allow", why="mode", reason=f"No rule names it, and the mode is {mode}: {what}."
            )
        hints = self._hints
        if hints.get("readOnlyHint") is True and hints.get("destructiveHint") is not True:
            return RuleDecision(decision="allow", why="annotation", reason=f"The mode is {mode}, and it only reads.")
        if mode == "accept_edits" and (hints.get("destructiveHint") is False or hints.get("openWorldHint") is False):
            reason = "The mode is accept_edits, and it only adds, or changes nothing outside."
            return RuleDecision(decision="allow", why="annotation", reason=reason)
        reason = f"No rule names it, and the mode is {mode}."
        return RuleDecision(decision="deny" if mode == "read_only" else "ask", why="mode", reason=reason)

    def find_denial(self, mode: Mode) -> bool:
        """Return whether each call is denied, whatever its arguments are."""
        if any(not rule.conditions for rule in self.denied):
            return True
        return not (self.asked or self.allowed) and self.mode_decision(mode).decision == "deny"

    def may_ask(self, mode: Mode) -> bool:
        """Return whether a call of the tool may need an approval because of the rules or the mode."""
        if all(rule.conditions for rule in self.allowed) and self.mode_decision(mode).decision == "ask":
            return not self.find_denial(mode)
        return bool(self.asked)

    def judge(
        self, forms: Sequence[Mapping[str, Any]], place: PathBase, mode: Mode, *, requires_approval: bool
    ) -> RuleDecision:
        """Return the decision about arguments, in the forms in which they are known: as sent and as validated."""
        known = self._read(forms, place) if self.depends_on_arguments else [CallValues({}, {}, place)]
        unclear: ApprovalRule | None = None
        for rule in self.denied:
            verdict = self._names(rule, known)
            if verdict is True:
                return self._by(rule, "deny", "denies it")
            unclear = unclear or (rule if verdict is None else None)
        asked = next((rule for rule in self.asked if self._names(rule, known, bound=True) is not False), None)
        allowed = None if asked or unclear else next((r for r in self.allowed if self._allows(r, known)), None)
        by_mode = self.mode_decision(mode)
        if not (asked or unclear or allowed) and by_mode.decision == "deny":
            return by_mode
        if asked is not None:
            return self._by(asked, "ask", "asks for it")
        if unclear is not None:
            return self._by(unclear, "ask", "may deny it: its command line cannot be read")
        if requires_approval:
            return RuleDecision(decision="ask", why="requires_approval", reason="The tool itself requires an approval.")
        return by_mode if allowed is None else self._by(allowed, "allow", "allows it")

    def find_bound_denial(
        self, values: Mapping[str, Any], place: PathBase, unknown: frozenset[str] = frozenset()
    ) -> RuleDecision | None:
        """Return the decision of a deny rule about the values of all parameters, bound ones too.

        A rule about a value that is missing denies; rules about the `unknown` parameters are left out.
        """
        known = self._read([values], place)
        rules = [rule for rule in self.bound if rule.parameters.isdisjoint(unknown)]
        found = next((rule for rule in rules if self._names(rule, known, bound=True) is not False), None)
        return None if found is None else self._by(found, "deny", "denies it")

    def _by(self, rule: ApprovalRule, decision: Literal["allow", "ask", "deny"], what: str) -> RuleDecision:
        text = rule.shown(self.hidden)
        return RuleDecision(decision=decision, why="rule", rule=text, reason=f"The rule {text} {what}.")

    def _read(self, forms: Sequence[Mapping[str, Any]], place: PathBase) -> list[CallValues]:
        """Return the forms of the arguments that differ."""
        known: list[JsonObject] = []
        for form in map(self.named_arguments, forms):
            if not any(is_same_json(form, other) for other in known):
                known.append(form)
        return [CallValues(form, self._kinds, place) for form in known]

    def _names(self, rule: ApprovalRule, forms: Sequence[CallValues], *, bound: bool = False) -> bool | None:
        """Return whether a deny or ask rule is for a call in any form; without `bound` never by a bound parameter."""
        if not bound and self.hidden and not rule.parameters.isdisjoint(self.hidden):
            return False
        verdict: bool | None = False
        for form in forms:
            found: bool | None = True
            for condition in rule.conditions:
                one = self._condition_names(condition, form) if bound else condition.names(form)
                if one is False:
                    found = False
                    break
                found = None if one is None else found
            if found is True:
                return True
            verdict = None if found is None else verdict
        return verdict

    def _condition_names(self, condition: Condition, call: CallValues) -> bool | None:
        name = condition.path[0]
        if name in self.hidden and name not in call.arguments:  # its value is not known yet, or missing
            return True
        return condition.names(call)

    def _allows(self, rule: ApprovalRule, forms: Sequence[CallValues]) -> bool:
        if not rule.parameters.isdisjoint(self.hidden):
            return False
        return all(condition.allows(form) for condition in rule.conditions for form in forms)

    def named_arguments(self, arguments: Mapping[str, Any]) -> JsonObject:
        """Return the arguments that rules name, as JSON and with defaults, under each name that a parameter has."""
        return self._to_json(arguments, only_named=True)

    def exact_arguments(self, values: Mapping[str, Any]) -> JsonObject:
        """Return all validated arguments as JSON, with defaults, by the names in the schema."""
        form = self._to_json(values, only_named=False)
        return {name: form[name] for name in dict.fromkeys((*self._property_names.values(), *form)) if name in form}

    def _to_json(self, arguments: Mapping[str, Any], *, only_named: bool) -> JsonObject:
        form = {**self._defaults}
        for name, value in self._flat(arguments):
            if not only_named or name in self._named or (name not in self.parameters and fold(name) in self._folded):
                plain = value if type(value) in _PLAIN else _as_json(value)
                if plain is not UNSET:
                    form[self._property_names.get(name, name)] = plain
        for property_name, name in self._aliases if only_named else ():
            if property_name in form:
                form.setdefault(name, form[property_name])
        return form

    def _flat(self, arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for name, value in arguments.items():
            if name == self._collected and isinstance(value, Mapping):
                yield from value.items()
            else:
                yield name, value


def _as_json(value: Any) -> Any:
    """Return a value as JSON, secrets included; UNSET for an iterator, which can be read only once."""
    from ahvn_tools.middleware.reporting import received_as_json  # as above

    return received_as_json(value, UNSET)


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
