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
from ahvn_tools.toolkit.rule_values import (
    Kind,
    PathBase,
    Reading,
    ValuePattern,
    fits,
    fold,
    kind_of,
    parsed,
    scalar_text,
    texts_of,
)

Mode = Literal["read_only", "ask", "accept_edits", "allow"]
"""What happens to calls without a rule."""

MODES: Final[tuple[Mode, ...]] = get_args(Mode)

_EXAMPLE: Final = 'Write a rule as in git_*, notes/find or shell_exec(cmd: "git status*").'
_TOOL: Final = re.compile(r"\s*([^\s()\"',:]+)\s*")
_PARAMETER: Final = re.compile(r"\s*([^\s()\"',:]+)\s*:\s*")


class CallValues:
    """The arguments of a call as rules compare them."""

    def __init__(self, arguments: Mapping[str, Any], kinds: Mapping[str, Kind], place: PathBase) -> None:
        """`kinds` are those of known names."""
        self.arguments, self.place = arguments, place
        self._kinds = kinds
        self._readings: dict[tuple[str, ...], list[Reading]] = {}

    def kind(self, path: tuple[str, ...]) -> Kind:
        """Return what the texts at a path are."""
        return self._kinds.get(path[-1]) or kind_of(path[-1], None)

    def readings(self, path: tuple[str, ...]) -> list[Reading]:
        """Return each text at a path, also below names that look alike."""
        if (known := self._readings.get(path)) is None:
            kind = self.kind(path)
            texts = {text for value in _find(self.arguments, path) for text in texts_of(value, kind)}
            known = self._readings[path] = [Reading(text, kind, self.place) for text in texts]
        return known


@dataclass(frozen=True)
class Condition:
    """What a rule says about one argument, or about a member of it."""

    path: tuple[str, ...]
    """The parameter, and the names of the members that lead from it to the value."""
    pattern: ValuePattern

    def allows(self, call: CallValues) -> bool:
        """Return whether an allow rule fits: the value is there, and fits in every reading."""
        values: list[Any] = [call.arguments]
        for name in self.path:
            inner: list[Any] = []
            for value in values:
                items = value if isinstance(value, list) else [value]
                for item in map(parsed, items):
                    if not isinstance(item, Mapping) or name not in item:
                        return False
                    inner.append(item[name])
            values = inner
        kind = call.kind(self.path)
        return bool(values) and all(self.pattern.allows(value, kind, call.place) for value in values)

    def names(self, call: CallValues) -> bool | None:
        """Return whether a deny or ask rule fits: any value there fits in any reading; None if it cannot be read."""
        verdict: bool | None = False
        for reading in call.readings(self.path):
            if (one := self.pattern.names(reading)) is True:
                return True
            verdict = None if one is None else verdict
        return verdict


def _find(value: Any, path: Sequence[str]) -> Iterator[Any]:
    """Yield the values to which names lead, also through lists, JSON texts and names that look alike."""
    if not path:
        yield value
        return
    value = parsed(value)
    if isinstance(value, list):
        for item in value:
            yield from _find(item, path)
    elif isinstance(value, Mapping):
        wanted = fold(path[0])
        for name, inner in value.items():
            if name == path[0] or fold(name) == wanted:
                yield from _find(inner, path[1:])


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
        if "*" in self.tool and server_names:
            return "*" not in self.tool.partition("/")[0] and any(fits(self.tool, one) for one in server_names)
        return any(fits(self.tool, one) for one in (name, *server_names))

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
