"""Dotted keys: parsed once, read from state at each call, written when a default is stored."""

from __future__ import annotations

import copy
import re
from collections import deque
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal

from ahvn_tools.errors import StateKeyError


class _Mark(Enum):
    """Singletons that survive copying and pickling."""

    MISSING = "missing"
    UNSET = "unset"

    def __repr__(self) -> str:
        return self.name


MISSING: Final = _Mark.MISSING
"""What a key reads as where the state has nothing under it (None is something)."""

UNSET: Final = _Mark.UNSET
"""An option that was not given (None is a value)."""

Missing = Literal[_Mark.MISSING]
Unset = Literal[_Mark.UNSET]

_TOKEN = re.compile(r"(?P<name>(?:\\[.\[\\]|[^.\[])+)|(?P<index>\[\s*-?\d+\s*\])|(?P<dot>\.)|(?P<bad>.)", re.DOTALL)
_ESCAPE = re.compile(r"\\([.\[\\])")


@dataclass(frozen=True, slots=True)
class Key:
    r"""A dotted key: `text` as it was written, `steps` as a call walks them.

    A step is a mapping key, a list index or a public attribute. `\.` and `\[` are literal:

    >>> Key.parse(r"users.items[0].first\.name").steps
    ('users', 'items', 0, 'first.name')
    """

    text: str
    steps: tuple[str | int, ...]

    @classmethod
    def parse(cls, text: str) -> Key:
        r"""Parse `a.b[0].c`. Raises StateKeyError for empty segments and for brackets without an integer."""
        if not isinstance(text, str):
            raise StateKeyError(f"A state key is a text like 'user.id', not {type(text).__name__}.")
        if text.isidentifier():
            return cls(text, (text,))
        return cls(text, tuple(_steps(text)))

    def read(self, state: Any) -> Any:
        """Return what `state` holds under this key, or MISSING. Raises what a property on the way raises."""
        for step in self.steps:
            if type(state) is dict:
                state = state.get(step, MISSING)
            else:
                state = _read_step(state, step)
            if state is MISSING:
                return MISSING
        return state

    def write(self, state: MutableMapping[str, Any], value: object) -> None:
        """Store `value` under this key, creating mappings on the way. Raises StateKeyError where a non-mapping is."""
        here: Any = state
        for position, step in enumerate(self.steps):
            is_last = position == len(self.steps) - 1
            self._refuse_unwritable(here, step)
            if is_last:
                here[step] = value
            elif isinstance(step, str):
                here = here.setdefault(step, {})
            else:
                here = here[step]

    def _refuse_unwritable(self, here: Any, step: str | int) -> None:
        if isinstance(step, str) and isinstance(here, MutableMapping):
            return
        if isinstance(step, int) and isinstance(here, list) and -len(here) <= step < len(here):
            return
        holder = f"a {type(here).__name__}" + (f" of {len(here)}" if isinstance(here, list) else "")
        raise StateKeyError(
            f"Cannot store a default under {self.text!r}: the state holds {holder} where step {step!r} is taken. "
            "Put the value into the state first, or bind without a default."
        )


def _steps(text: str) -> list[str | int]:
    steps: list[str | int] = []
    wants_name = True
    for token in _TOKEN.finditer(text):
        if token["name"] is not None and wants_name:
            steps.append(_ESCAPE.sub(r"\1", token["name"]))
            wants_name = False
        elif token["index"] is not None and steps and not wants_name:
            steps.append(int(token["index"][1:-1]))
        elif token["dot"] is not None and not wants_name:
            wants_name = True
        else:
            raise _malformed(text)
    if wants_name:
        raise _malformed(text)
    return steps


def _malformed(text: str) -> StateKeyError:
    return StateKeyError(
        f"Malformed state key {text!r}: write names joined by dots, each followed by [i] for a list index "
        r"('a.items[0].id'); a literal dot or bracket is '\.' or '\['."
    )


def _read_step(value: Any, step: str | int) -> Any:
    if isinstance(value, Mapping):
        return value[step] if step in value else MISSING  # noqa: SIM401  # `get` of a foreign mapping may make values
    if isinstance(step, str):
        return MISSING if step.startswith("_") else getattr(value, step, MISSING)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return value[step] if -len(value) <= step < len(value) else MISSING
    return MISSING


def own_containers(value: Any, memo: dict[int, Any] | None = None) -> Any:
    """Return `value` with its dicts, lists, sets and tuples copied at any depth; what they hold is shared."""
    memo = {} if memo is None else memo
    if id(value) in memo:
        return memo[id(value)]
    if isinstance(value, dict):
        memo[id(value)] = mapping = copy.copy(value)
        for name, item in value.items():
            mapping[name] = own_containers(item, memo)
        return mapping
    if isinstance(value, list | deque):
        memo[id(value)] = sequence = copy.copy(value)
        for position, item in enumerate(value):
            sequence[position] = own_containers(item, memo)
        return sequence
    if isinstance(value, tuple):
        items = [own_containers(item, memo) for item in value]
        return value._make(items) if hasattr(value, "_make") else tuple(items)
    if isinstance(value, set | bytearray):
        return copy.copy(value)
    return value


def without_keys(state: Mapping[str, Any], keys: Sequence[Key]) -> dict[str, Any]:
    """Return a copy of `state` that holds nothing under any of `keys`.

    A key that leads through an object or a list takes the whole object or list out: what a pickle carries must not
    hold a secret in a corner that cannot be cut.
    """
    kept: dict[str, Any] = own_containers(dict(state))
    for key in keys:
        if key.read(kept) is not MISSING:
            _cut(kept, key.steps)
    return kept


def _cut(state: dict[str, Any], steps: tuple[str | int, ...]) -> None:
    holder, here = state, 0
    while here < len(steps) - 1 and type(holder[steps[here]]) is dict:  # type: ignore[index]  # a dict's step is its key
        holder = holder[steps[here]]  # type: ignore[index]  # as above
        here += 1
    del holder[steps[here]]  # type: ignore[arg-type]  # as above
