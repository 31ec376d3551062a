"""What a package does in a call and in an export, found by calls and not by its documentation."""

from __future__ import annotations

import contextlib
import datetime as dt
import inspect
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tests.benchmarks.peers.worker.adapter import Call, NotOfferedError, PackageAdapter, run, value_of
from tests.benchmarks.peers.worker.subjects import ARGUMENTS, add, add_later, fresh_function

FIRST_NUMBER = "The first number."
"""The docstring's text about a parameter of `add`."""

_seen: list[tuple[Any, Any]] = []
_threads: list[int] = []


def observed(left: int, right: int = 2) -> int:
    """Keep what the function gets.

    Args:
        left: The first number.
        right: The second number.
    """
    _seen.append((left, right))
    _threads.append(threading.get_ident())
    return 3


def dated(left: int, right: int = 2) -> dt.date:
    """Return a date.

    Args:
        left: The first number.
        right: The second number.
    """
    return dt.date(2024, 2, 29)


def broken(left: int, right: int = 2) -> int:
    """Raise an exception.

    Args:
        left: The first number.
        right: The second number.
    """
    raise ValueError("broken")


def probe(adapter: PackageAdapter) -> dict[str, bool]:
    """Return what the package does, by the names of FEATURES in `features.py`."""
    call = _call_of(adapter, observed)
    if _observed(call, ARGUMENTS) != [(1, 2)]:
        raise AssertionError("The adapter's call does not reach the function with its arguments.")
    return {
        "validates": not _observed(call, {"left": "many", "right": 2}),
        "converts": _observed(call, {"left": "5", "right": 2}) == [(5, 2)],
        "refuses_unknown": not _observed(call, {**ARGUMENTS, "other": 3}),
        "gives_json": _gives_json(adapter),
        "gives_errors": _gives_errors(adapter),
        "is_async": _is_async(adapter),
        "leaves_loop": _leaves_loop(adapter),
        "describes": _describes(adapter),
        "copies": not _shared(adapter),
    }


def _call_of(adapter: PackageAdapter, function: Callable[..., Any]) -> Call:
    tool = adapter.create(function)
    try:
        return adapter.async_call(tool)
    except NotOfferedError:
        return adapter.sync_call(tool)


def _run(call: Call, arguments: dict[str, Any]) -> Any:
    async def later() -> Any:
        result = call(dict(arguments))
        return await result if inspect.isawaitable(result) else result

    return run(later())


def _observed(call: Call, arguments: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Call the tool, and return what the function got."""
    _seen.clear()
    with contextlib.suppress(Exception):  # how a package refuses is its own; that the function did not run counts
        _run(call, arguments)
    return list(_seen)


def _gives_json(adapter: PackageAdapter) -> bool:
    """Tell whether a date comes back as JSON."""
    try:
        result = _run(_call_of(adapter, dated), ARGUMENTS)
        json.dumps(getattr(result, "structured_content", result))
    except (NotOfferedError, TypeError):
        return False
    return True


def _gives_errors(adapter: PackageAdapter) -> bool:
    """Tell whether a result says that a function raised, instead of the exception."""
    try:
        _run(adapter.result_call(adapter.create(broken)), ARGUMENTS)
    except Exception:
        return False
    return True


def _is_async(adapter: PackageAdapter) -> bool:
    try:
        adapter.async_call(adapter.create(add_later))
    except NotOfferedError:
        return False
    return True


def _leaves_loop(adapter: PackageAdapter) -> bool:
    """Tell whether a sync function that is called from async code runs in another thread."""
    _threads.clear()
    try:
        _run(adapter.async_call(adapter.create(observed)), ARGUMENTS)
    except NotOfferedError:
        return False
    return _threads != [threading.get_ident()]


def _describes(adapter: PackageAdapter) -> bool:
    """Tell whether the export has the docstring's text about a parameter at the parameter."""
    text = str(value_of(adapter.exporter(adapter.create(fresh_function()))()))
    return FIRST_NUMBER in text and "Args:" not in text


def _shared(adapter: PackageAdapter) -> bool:
    """Tell whether two exports have a dict or list in common, so that a change of one reaches the other."""
    export = adapter.exporter(adapter.create(add))
    first, second = value_of(export()), value_of(export())
    return bool({id(part) for part in _parts(first)} & {id(part) for part in _parts(second)})


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from _parts(item)
    elif isinstance(value, list):
        yield value
        for item in value:
            yield from _parts(item)
    elif hasattr(value, "__dict__"):
        yield from _parts(dict(vars(value)))
