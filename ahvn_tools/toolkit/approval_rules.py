"""ApprovalRules: which calls run, ask for an approval or are denied, as texts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Final, Literal, get_args

from ahvn_tools import invisible
from ahvn_tools.errors import DefinitionError, near_misses
from ahvn_tools.registry import ArgumentKind
from ahvn_tools.state import UNSET
from ahvn_tools.toolkit.rule_values import (
    PathBase,
    Reading,
    ValuePattern,
    fits,
    fold,
    kind_of,
    parsed,
    scalar_text,
    texts_of,
    to_json,
)

Mode = Literal["read_only", "ask", "accept_edits", "allow"]
"""What happens to calls without a rule."""

MODES: Final[tuple[Mode, ...]] = get_args(Mode)

_EXAMPLE: Final = 'Write a rule as in git_*, notes/find or shell_exec(cmd: "git status*").'
_TOOL: Final = re.compile(r"\s*([^\s()\"',:]+)\s*")
_PARAMETER: Final = re.compile(r"\s*([^\s()\"',:]+)\s*:\s*")


class CallValues:
    """The arguments of a call as rules compare them, in all forms in which they are known."""

    def __init__(self, forms: Sequence[Mapping[str, Any]], kinds: Mapping[str, ArgumentKind], base: PathBase) -> None:
        """`forms` are such as the arguments that were sent, and the validated ones; `kinds` are of known names."""
        self._forms, self._kinds, self._base = forms, kinds, base
        self._found: dict[tuple[str, ...], list[Reading]] = {}
        self._readings: dict[tuple[str, ArgumentKind], Reading] = {}

    def all_readings(self, path: tuple[str, ...]) -> list[Reading]:
        """Return each text at a path in any form, also below names that look alike."""
        if (known := self._found.get(path)) is None:
            kind = self._kinds.get(path[-1]) or kind_of(path[-1], None)
            texts = {text for form in self._forms for value in _find(form, path) for text in texts_of(value, kind)}
            known = self._found[path] = [self._reading(text, kind) for text in texts]
        return known

    def exact_readings(self, path: tuple[str, ...]) -> list[Reading]:
        """Return each text at a path; none if one of the forms has none there, or an object."""
        kind = self._kinds.get(path[-1]) or kind_of(path[-1], None)
        texts: list[str] = []
        for form in self._forms:
            if not (found := _find_exact(form, path)):
                return []
            texts += found
        return [self._reading(text, kind) for text in texts]

    def has_default(self, name: str, default: Any) -> bool:
        """Return whether a parameter has its default in each form; UNSET: no value."""
        return all(form.get(name, UNSET) is UNSET or to_json(form[name]) == default for form in self._forms)

    def _reading(self, text: str, kind: ArgumentKind) -> Reading:
        key = text, kind
        if key not in self._readings:
            self._readings[key] = Reading(text, kind, self._base)
        return self._readings[key]


@dataclass(frozen=True)
class Condition:
    """What a rule says about one argument, or about a member of it."""

    path: tuple[str, ...]
    """The parameter, and the names of the members that lead from it to the value."""
    pattern: ValuePattern

    def allows(self, call: CallValues) -> bool:
        """Return whether an allow rule fits: the value is there, and fits in every reading."""
        readings = call.exact_readings(self.path)
        return bool(readings) and all(map(self.pattern.allows, readings))

    def names(self, call: CallValues) -> bool | None:
        """Return whether a deny or ask rule fits: any value there fits in any reading; None if it cannot be read."""
        verdict: bool | None = False
        for reading in call.all_readings(self.path):
            if (one := self.pattern.names(reading)) is True:
                return True
            verdict = None if one is None else verdict
        return verdict


def _find(value: Any, path: Sequence[str]) -> Iterator[Any]:
    """Yield the values to which names lead, also through lists, JSON texts and names that look alike."""
    value = to_json(value) if not path or not isinstance(value, Mapping) else value
    if not path:
        yield value
    elif isinstance(value := parsed(value), list):
        for item in value:
            yield from _find(item, path)
    elif isinstance(value, Mapping):
        wanted = fold(path[0])
        for name, inner in value.items():
            if name == path[0] or fold(name) == wanted:
                yield from _find(inner, path[1:])


def _find_exact(value: Any, path: Sequence[str]) -> list[str]:
    """Return the texts to which names lead; none unless each item of each list on the way has some."""
    if not isinstance(value, Mapping):
        value = to_json(value)
        value = parsed(value) if path else value
    if isinstance(value, list):
        found = [_find_exact(item, path) for item in value]
        return [text for texts in found for text in texts] if all(found) else []
    if path:
        return _find_exact(value[path[0]], path[1:]) if isinstance(value, Mapping) and path[0] in value else []
    return [] if isinstance(value, Mapping) else [scalar_text(value)]


@dataclass(frozen=True)
class ApprovalRule:
    """One rule: a pattern of tools, and patterns of arguments."""

    text: str
    tool: str
    conditions: tuple[Condition, ...]

    @classmethod
    def parse(cls, text: Any) -> ApprovalRule:
        """Return the rule that a text describes. Raises DefinitionError."""
        match = _TOOL.match(text) if isinstance(text, str) and not invisible.find(text) else None
        if match is None:
            raise DefinitionError(f"{text!r} is no rule. {_EXAMPLE}")
        rest = text[match.end() :].rstrip()
        if rest and not (rest.startswith("(") and rest.endswith(")")):
            raise DefinitionError(f"{text!r} is no rule: conditions on arguments are in parentheses. {_EXAMPLE}")
        return cls(text.strip(), match[1], tuple(_parse_conditions(text, rest[1:-1])) if rest else ())

    @property
    def parameters(self) -> frozenset[str]:
        """The parameters that it names."""
        return frozenset(condition.path[0] for condition in self.conditions)

    def is_for(self, names: Iterable[str]) -> bool:
        """Return whether a deny or ask rule is for a tool with one of these names."""
        pattern = fold(self.tool)
        return any(fits(pattern, fold(name)) for name in names)

    def may_allow(self, name: str, server_names: Sequence[str]) -> bool:
        """Return whether an allow rule is for a tool. A * is for the tools of a server if the rule names the server."""
        if not server_names or not ("*" in self.tool or "/" in self.tool):
            return fits(self.tool, name)
        return "*" not in self.tool.partition("/")[0] and any(fits(self.tool, one) for one in server_names)

    def shown(self, hidden: Iterable[str]) -> str:
        """Return the text, without the patterns of bound parameters."""
        if self.parameters.isdisjoint(hidden):
            return self.text
        parts = (
            f"{'.'.join(one.path)}: {'***' if one.path[0] in hidden else json.dumps(one.pattern.text)}"
            for one in self.conditions
        )
        return f"{self.tool}({', '.join(parts)})"


def _parse_conditions(text: str, inner: str) -> Iterator[Condition]:
    """Yield the conditions of a rule. Raises DefinitionError."""
    position = 0
    while match := _PARAMETER.match(inner, position):
        try:
            value, position = json.JSONDecoder().raw_decode(inner, match.end())
        except (ValueError, RecursionError):
            break
        if not isinstance(value, str | int | float | None) or value in (float("inf"), float("-inf")) or value != value:  # noqa: PLR0124  # NaN
            break
        yield Condition(tuple(match[1].split(".")), ValuePattern(scalar_text(value)))
        end = inner[position:].lstrip()
        if not end:
            return
        if not end.startswith(","):
            break
        position = inner.index(",", position) + 1
    raise DefinitionError(
        f"{text!r} is no rule: it has a parameter, a colon and a JSON text or number for each condition, with commas "
        f"between them. {_EXAMPLE}"
    )


@dataclass(frozen=True, kw_only=True)
class ApprovalRules:
    """Rules about calls: deny beats ask, ask beats allow, and the mode decides about calls without a rule.

    `allow`, `ask`, `deny`: rules such as `"git_*"`, `"notes/find"` (of the MCP server `notes`) and
    `'shell_exec(cmd: "git status*")'`.
    `mode`: `"read_only"` denies what does not only read; `"ask"` asks for it; `"accept_edits"` runs what only adds or
    changes nothing outside, too; `"allow"` runs all. Annotations of an MCP server count only if the host has set them.
    `remember`: a file that keeps the rules of approvers who answer "always"; by default a session keeps its own. It
    needs the toolkit's `secret_key`, and is for one user.

    Raises DefinitionError for what is no rule, mode or path.

    >>> rules = ApprovalRules(mode="ask", allow=["find"], deny=['remove(path: "contracts/**")'])
    >>> [rule.text for rule in rules.denied]
    ['remove(path: "contracts/**")']
    """

    mode: Mode = "ask"
    allow: Sequence[str] = ()
    ask: Sequence[str] = ()
    deny: Sequence[str] = ()
    remember: str | PathLike[str] | None = None
    allowed: tuple[ApprovalRule, ...] = field(init=False, repr=False, compare=False)
    """The rules of `allow`."""
    asked: tuple[ApprovalRule, ...] = field(init=False, repr=False, compare=False)
    """The rules of `ask`."""
    denied: tuple[ApprovalRule, ...] = field(init=False, repr=False, compare=False)
    """The rules of `deny`."""

    def by_option(self) -> dict[str, tuple[ApprovalRule, ...]]:
        """Return the rules by the name of their option."""
        return {"allow": self.allowed, "ask": self.asked, "deny": self.denied}

    def __post_init__(self) -> None:
        validate_mode(self.mode)
        for option, parsed_name in (("allow", "allowed"), ("ask", "asked"), ("deny", "denied")):
            rules = getattr(self, option)
            if isinstance(rules, str) or not isinstance(rules, Iterable):
                raise DefinitionError(f"`{option}` is a list of rules, not {rules!r}. {_EXAMPLE}")
            object.__setattr__(self, option, tuple(rules))
            object.__setattr__(self, parsed_name, tuple(map(ApprovalRule.parse, getattr(self, option))))
        if not isinstance(self.remember, str | PathLike | None):
            raise DefinitionError(f"`remember` is the path of a file, not a {type(self.remember).__name__}.")


def validate_mode(mode: Any) -> Mode:
    """Return a mode. Raises DefinitionError."""
    if mode not in MODES:
        raise DefinitionError(f"A mode is one of {', '.join(MODES)}, not {mode!r}. {near_misses(str(mode), MODES)}")
    return mode  # type: ignore[no-any-return]  # it is one of them
