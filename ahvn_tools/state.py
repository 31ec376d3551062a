"""Dotted keys: parsed once, read from state at each call, written when a default is stored."""

from __future__ import annotations

import copy
import functools
import re
from collections import UserDict, UserList, deque
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from ahvn_tools.errors import StateKeyError


class _Sentinel(Enum):
    """Singletons that survive copying and pickling."""

    MISSING = "missing"
    UNSET = "unset"

    def __repr__(self) -> str:
        return self.name


MISSING: Final = _Sentinel.MISSING
"""What a key reads as where the state has nothing under it (None is something)."""

UNSET: Final = _Sentinel.UNSET
"""An option that was not given (None is a value)."""


_TOKEN = re.compile(
    r"(?P<name>(?:\\[.\[\\]|[^.\[])+)|(?P<index>\[\s*-?[0-9]{1,18}\s*\])|(?P<dot>\.)|(?P<bad>.)", re.DOTALL
)
_ESCAPE = re.compile(r"\\([.\[\\])")
_SPECIAL = re.compile(r"[.\[\\]")


@dataclass(frozen=True, slots=True)
class StateKey:
    r"""A dotted key: `text` as it was written, `steps` as a call walks them.

    A step is a mapping key, a list index or a public attribute. `\.` and `\[` are literal:

    >>> StateKey.parse(r"users.items[0].first\.name").steps
    ('users', 'items', 0, 'first.name')
    """

    text: str
    steps: tuple[str | int, ...]

    @classmethod
    def parse(cls, text: str) -> StateKey:
        r"""Parse `a.b[0].c`. Raises StateKeyError for empty segments and for brackets without an integer."""
        if not isinstance(text, str):
            raise StateKeyError(f"A state key is a text like 'user.id', not {type(text).__name__}.")
        if text.isidentifier():
            return cls(text, (text,))
        return cls(text, tuple(_parse_steps(text)))

    @classmethod
    def from_name(cls, name: str) -> StateKey:
        r"""Return the key of one name, whatever is in it: `StateKey.from_name("user.id").text` is `user\.id`."""
        return cls(_SPECIAL.sub(r"\\\g<0>", name), (name,))

    def read(self, state: Any) -> Any:
        """Return what `state` holds under this key, or MISSING. Raises what a property on the way raises."""
        return self.find((state,))

    def find(self, scopes: Sequence[Any]) -> Any:
        """Return what the first layer that has this key holds under it, or MISSING."""
        for layer in scopes:
            here = layer
            for step in self.steps:
                here = here.get(step, MISSING) if type(here) is dict else _read_step(here, step)
                if here is MISSING:
                    break
            else:
                return here
        return MISSING

    def write(self, state: MutableMapping[str, Any], value: object) -> None:
        """Store `value` under this key, creating mappings on the way.

        Raises StateKeyError where something else than a mapping is in the way; the state is as it was then.
        """
        holder: Any = state
        for position, step in enumerate(self.steps[:-1]):
            inside = _read_step(holder, step)
            if inside is MISSING:
                self._put(holder, position, value)
                return
            holder = inside
        self._put(holder, len(self.steps) - 1, value)

    def _put(self, holder: Any, position: int, value: object) -> None:
        """Store what the steps after `position` lead to, in one piece, so that no reader sees a half of it."""
        first, *rest = self.steps[position:]
        for step in reversed(rest):
            if not isinstance(step, str):
                raise self._write_error(step, "nothing")
            value = {step: value}
        is_name = isinstance(first, str) and isinstance(holder, MutableMapping)
        is_place = isinstance(first, int) and isinstance(holder, list) and -len(holder) <= first < len(holder)
        if not (is_name or is_place):
            held = f"a {type(holder).__name__}" + (f" of {len(holder)}" if isinstance(holder, list) else "")
            raise self._write_error(first, held)
        holder[first] = value

    def _write_error(self, step: str | int, held: str) -> StateKeyError:
        return StateKeyError(
            f"Cannot store a default under {self.text!r}: the state holds {held} where step {step!r} is taken. "
            "Put the value into the state first, or bind without a default."
        )


def _parse_steps(text: str) -> list[str | int]:
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
            raise _malformed_key_error(text)
    if wants_name:
        raise _malformed_key_error(text)
    return steps


def _malformed_key_error(text: str) -> StateKeyError:
    return StateKeyError(
        f"Malformed state key {text!r}: write names joined by dots, each followed by [i] for a list index "
        r"('a.items[0].id'); a literal dot or bracket is '\.' or '\['."
    )


def _read_step(value: Any, step: str | int) -> Any:
    if isinstance(value, Mapping):
        if step not in value:  # asking first: reading would make a value in a defaultdict
            return MISSING
        try:
            return value[step]
        except KeyError:  # another thread has taken it out since
            return MISSING
    if isinstance(step, str):
        return MISSING if step.startswith("_") else _read_attribute(value, step)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        try:
            return value[step]
        except IndexError:
            return MISSING
    return MISSING


def _read_attribute(value: Any, name: str) -> Any:
    """Return an attribute, or MISSING; a property that fails with an AttributeError of its own is no missing one."""
    try:
        return getattr(value, name)
    except AttributeError:
        if isinstance(getattr(type(value), name, None), property | functools.cached_property):
            raise
        return MISSING


def copy_containers(value: Any, memo: dict[int, tuple[Any, Any]] | None = None) -> Any:
    """Return `value` with its dicts, lists, sets and tuples copied at any depth; what they hold is shared.

    Each container is copied in one piece before it is walked: other threads may be changing it.
    """
    if type(value) in _ATOMIC_TYPES:
        return value
    memo = {} if memo is None else memo
    if id(value) in memo:
        return memo[id(value)][1]
    if isinstance(value, dict | UserDict):
        mapping = copy.copy(value)
        memo[id(value)] = value, mapping
        for name, item in mapping.items():
            mapping[name] = copy_containers(item, memo)
        return mapping
    if isinstance(value, list | UserList | deque):
        sequence = copy.copy(value)
        memo[id(value)] = value, sequence
        for position, item in enumerate(sequence):
            sequence[position] = copy_containers(item, memo)
        return sequence
    if isinstance(value, MappingProxyType):
        return MappingProxyType(copy_containers(dict(value), memo))
    if isinstance(value, tuple):
        return _copy_tuple(value, memo)
    return copy.copy(value) if isinstance(value, set | bytearray) else value


def _copy_tuple(value: tuple[Any, ...], memo: dict[int, tuple[Any, Any]]) -> tuple[Any, ...]:
    items = [copy_containers(item, memo) for item in value]
    if all(item is own for item, own in zip(value, items, strict=True)):
        return value
    if hasattr(value, "_make"):
        made: tuple[Any, ...] = value._make(items)
        return made
    return tuple(items) if type(value) is tuple else value


_ATOMIC_TYPES = frozenset({str, int, float, bool, bytes, type(None)})


def copy_state(state: Mapping[str, Any]) -> MutableMapping[str, Any]:
    """Return a state of its own with what `state` holds now; a mapping of any other kind becomes a dict."""
    own: MutableMapping[str, Any] = copy_containers(state if isinstance(state, dict | UserDict) else dict(state))
    return own


def without_keys(state: Mapping[str, Any], keys: Iterable[StateKey]) -> dict[str, Any]:
    """Return a copy of `state` that holds nothing under any of `keys`.

    A key that leads through an object or a list takes the whole object or list out: what a pickle carries must not
    hold a secret in a corner that cannot be cut.
    """
    kept = copy_state(state)  # copied as it is: a state that holds itself must not bring a second copy along
    for key in keys:
        if _may_hold(kept, key):
            _delete_path(kept, key.steps)
    return dict(kept)


def _may_hold(state: Mapping[str, Any], key: StateKey) -> bool:
    try:
        return key.read(state) is not MISSING
    except Exception:  # noqa: BLE001  # a property may raise anything; what it would give may be in its object all the same
        return True


def _delete_path(state: MutableMapping[Any, Any], steps: tuple[str | int, ...]) -> None:
    holder, here = state, 0
    while here < len(steps) - 1 and type(holder[steps[here]]) is dict:
        holder = holder[steps[here]]
        here += 1
    del holder[steps[here]]
