"""Read-only exports: JSON data that its callers share, and that refuses every change."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, NoReturn

from ahvn_tools import formats
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.json_types import JsonObject

MAX_EXPORTS: Final = 32
"""How many exports of lists of tools are kept: one for each format, set of options and list …"""

MAX_TOOLS: Final = 20_000
"""… and how many tools they contain together; the latest export is always kept."""

_SCALAR_TYPES = (str, bytes, int, float, type(None))


def _refuse(*_args: Any, **_kwargs: Any) -> NoReturn:
    raise TypeError(
        "This export is read-only, because all callers share it. Change a copy, copy.deepcopy(export), "
        "or export without read_only=True."
    )


class ReadOnlyDict(dict[str, Any]):
    """A dict that refuses changes. Copies and pickles of it are plain dicts."""

    __slots__ = ()

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce_ex__(self, protocol: Any) -> Any:
        return dict, (), None, None, iter(self.items())


class ReadOnlyList(list[Any]):
    """A list that refuses changes. Copies and pickles of it are plain lists."""

    __slots__ = ()

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = pop = remove = clear = sort = reverse = _refuse

    def __reduce_ex__(self, protocol: Any) -> Any:
        return list, (), None, iter(self)


def to_read_only(value: Any) -> Any:
    """Return a read-only copy of JSON data, at any depth. Raises ToolSpecError for other objects."""
    if isinstance(value, _SCALAR_TYPES):
        return value
    if isinstance(value, dict):
        return ReadOnlyDict((key, to_read_only(item)) for key, item in value.items())
    if isinstance(value, list):
        return ReadOnlyList(map(to_read_only, value))
    if isinstance(value, tuple):
        return tuple(map(to_read_only, value))
    raise ToolSpecError(
        f"The export contains a {type(value).__name__}, and only JSON data can be read-only. Leave out read_only=True."
    )


def options_key(options: Mapping[str, Any]) -> Hashable:
    """Return a key that is the same for equal options. Raises ToolSpecError for an option that is not plain data."""
    return tuple([(name, _value_key(name, options[name])) for name in sorted(options)])


def _value_key(option: str, value: Any) -> Hashable:
    if isinstance(value, _SCALAR_TYPES):
        return type(value), value  # True == 1 == 1.0
    if isinstance(value, list | tuple):
        return list, tuple(_value_key(option, item) for item in value)
    if isinstance(value, set | frozenset):
        return set, frozenset(_value_key(option, item) for item in value)
    if isinstance(value, Mapping):
        return dict, tuple((_value_key(option, key), _value_key(option, item)) for key, item in value.items())
    raise ToolSpecError(
        f"A read-only export cannot tell whether its option {option!r} has changed: it is a {type(value).__name__}. "
        "Pass texts, numbers, lists and dicts, or leave out read_only=True."
    )


class ReadOnlyExports:
    """The latest read-only exports of lists of tools. One is dropped as soon as a definition of its list is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._exports: dict[tuple[Hashable, ...], tuple[list[JsonObject], tuple[weakref.ref[ToolDefinition], ...]]] = {}

    def export(
        self,
        format: str,  # noqa: A002  # the word for it
        definitions: Sequence[ToolDefinition],
        options: Mapping[str, Any],
    ) -> list[JsonObject]:
        """Return the read-only export of these tools: the same object as before if it is still kept."""
        key = format, options_key(options) if options else (), *map(id, definitions)
        known = self._exports.get(key)
        if known is None:
            exported: list[JsonObject] = to_read_only(formats.export(format, definitions, options))
            known = self._keep(key, exported, definitions)
        return known[0]

    def _keep(
        self, key: tuple[Hashable, ...], exported: list[JsonObject], definitions: Sequence[ToolDefinition]
    ) -> tuple[list[JsonObject], Any]:
        """Keep an export until one of its definitions is gone, whose id another object may get then."""
        drop: Callable[[Any], Any] = functools.partial(_drop, self._exports, key)
        references = tuple(weakref.ref(definition, drop) for definition in definitions)
        with self._lock:
            known = self._exports.setdefault(key, (exported, references))
            self._drop_oldest()
        return known

    def _drop_oldest(self) -> None:
        """Keep the latest exports that are within the limits. Others may be dropped at any time, also in this loop."""
        kept = list(self._exports)
        while len(kept) > MAX_EXPORTS or (len(kept) > 1 and sum(map(_count_tools, kept)) > MAX_TOOLS):
            self._exports.pop(kept.pop(0), None)


def _count_tools(key: tuple[Hashable, ...]) -> int:
    _format, _options, *tools = key
    return len(tools)


def _drop(exports: dict[tuple[Hashable, ...], Any], key: tuple[Hashable, ...], _reference: Any) -> None:
    exports.pop(key, None)
