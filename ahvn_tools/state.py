"""State keys (`user.id`, `items[0].name`), and copies of state. A key is parsed once and read at each call."""

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
    """Singletons that remain identical when copied or pickled."""

    MISSING = "missing"
    UNSET = "unset"

    def __repr__(self) -> str:
        return self.name


MISSING: Final = _Sentinel.MISSING
"""The result of reading a key that has no value in the state (None is a value)."""

UNSET: Final = _Sentinel.UNSET
"""The default of an option for which None is a value."""

_NAME = r"((?:\\[.\[\\]|(?!\\[.\[\\])[^.\[])+)"
"""Any text; backslashes escape dots, opening brackets and backslashes."""

_INDEX = r"\[\s*(-?[0-9]{1,18})\s*\]"
_KEY = rf"{_NAME}(?:{_INDEX})*(?:\.{_NAME}(?:{_INDEX})*)*"
"""A pattern that `re` compiles at its first use: that is slow, and a tool without bindings does not need it."""

_STEP = rf"{_NAME}|{_INDEX}"
"""As `_KEY`."""

_ESCAPE = re.compile(r"\\([.\[\\])")
_SPECIAL = re.compile(r"[.\[\\]")


@dataclass(frozen=True, slots=True)
class StateKey:
    r"""A dotted key: `text` as written, `steps` in the order of the lookup.

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
            raise StateKeyError(f"A state key must be a str such as 'user.id', not {type(text).__name__}.")
        if text.isidentifier():
            return cls(text, (text,))
        if not re.fullmatch(_KEY, text):
            raise StateKeyError(
                f"Malformed state key {text!r}: write names joined by dots, each followed by [i] for a list index "
                r"('a.items[0].id'); a literal dot or bracket is '\.' or '\['."
            )
        steps = re.findall(_STEP, text)
        return cls(text, tuple(int(index) if index else _ESCAPE.sub(r"\1", name) for name, index in steps))

    @classmethod
    def from_name(cls, name: str) -> StateKey:
        r"""Return the key of one name with any characters: `StateKey.from_name("user.id").text` is `user\.id`."""
        return cls(_SPECIAL.sub(r"\\\g<0>", name), (name,))

    def read(self, state: Any) -> Any:
        """Return the value under this key, or MISSING. Raises what a property in the path raises."""
        return self.find((state,))

    def find(self, scopes: Sequence[Any]) -> Any:
        """Return the value of the first state that has this key, or MISSING."""
        for scope in scopes:
            here: Any = scope
            for step in self.steps:
                here = here.get(step, MISSING) if type(here) is dict else _read_step(here, step)
                if here is MISSING:
                    break
            else:
                return here
        return MISSING

    def write(self, state: MutableMapping[str, Any], value: object) -> None:
        """Store `value` under this key, and create missing mappings.

        Raises StateKeyError, without a change of the state, if the path leads through another kind of object.
        """
        holder: Any = state
        first, *rest = self.steps
        while rest and (member := _read_step(holder, first)) is not MISSING:
            holder = member
            first, *rest = rest
        for step in reversed(rest):
            if not isinstance(step, str):
                raise self._write_error(step, "nothing")
            value = {step: value}
        is_name = isinstance(first, str) and isinstance(holder, MutableMapping)
        is_index = isinstance(first, int) and isinstance(holder, list) and -len(holder) <= first < len(holder)
        if not (is_name or is_index):
            size = f" of {len(holder)}" if isinstance(holder, list) else ""
            raise self._write_error(first, f"a {type(holder).__name__}{size}")
        holder[first] = value  # the only assignment, so that no other thread sees a part of the path

    def _write_error(self, step: str | int, holder: str) -> StateKeyError:
        wanted = "a dict or another mutable mapping" if isinstance(step, str) else "a list with that item"
        return StateKeyError(
            f"Cannot store a default under {self.text!r}: the state has {holder} where step {step!r} needs {wanted}. "
            "Set the value in the state first, or bind without a default."
        )


def _read_step(value: Any, step: str | int) -> Any:
    if isinstance(value, Mapping):
        if step not in value:  # checked first: reading would create a value in a defaultdict
            return MISSING
        try:
            return value[step]
        except KeyError:  # another thread has removed it since
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
    """Return an attribute, or MISSING. Raises the AttributeError of a property, which is not a missing attribute."""
    try:
        return getattr(value, name)
    except AttributeError:
        if isinstance(getattr(type(value), name, None), property | functools.cached_property):
            raise
        return MISSING


def copy_containers(value: Any, memo: dict[int, tuple[Any, Any]] | None = None) -> Any:
    """Return `value` with its dicts, lists, sets and tuples copied at any depth; other objects are shared.

    Each container is copied at once before its items are read, because other threads may change it.
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
    if all(item is copied for item, copied in zip(value, items, strict=True)):
        return value
    if hasattr(value, "_make"):
        return value._make(items)  # type: ignore[no-any-return]  # a named tuple
    return tuple(items) if type(value) is tuple else value


_ATOMIC_TYPES = frozenset({str, int, float, bool, bytes, type(None)})


def copy_state(state: Mapping[str, Any]) -> MutableMapping[str, Any]:
    """Return a separate state with the current values; a mapping of any other kind becomes a dict."""
    copied: MutableMapping[str, Any] = copy_containers(state if isinstance(state, dict | UserDict) else dict(state))
    return copied


def without_keys(state: Mapping[str, Any], keys: Iterable[StateKey]) -> dict[str, Any]:
    """Return a copy of `state` without the values under `keys`.

    A key that leads through an object or a list removes that whole object or list, so that a pickle cannot contain a
    secret inside of it.
    """
    result = copy_state(state)  # also of a state that contains itself
    for key in keys:
        if may_have(result, key):
            _delete_path(result, key.steps)
    return dict(result)


def may_have(state: Mapping[str, Any], key: StateKey) -> bool:
    """Return whether there is a value under a key, or reading it raises."""
    try:
        return key.read(state) is not MISSING
    except Exception:  # noqa: BLE001  # a property may raise anything: its object may contain the value
        return True


def _delete_path(state: MutableMapping[Any, Any], steps: tuple[str | int, ...]) -> None:
    position, holder = 0, state
    while position < len(steps) - 1 and type(holder[steps[position]]) is dict:
        holder = holder[steps[position]]
        position += 1
    del holder[steps[position]]
