"""Settings of the whole suite: Hypothesis has no deadlines, since they depend on the machine; Ctrl-C works."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("suite", deadline=None, max_examples=20)
settings.register_profile("exhaustive", deadline=None, max_examples=50)
settings.load_profile("suite")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a background job of a shell; child processes inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

if sys.dont_write_bytecode:  # each of the many processes that tests start would compile the package again
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

os.environ.pop("PYTEST_ADDOPTS", None)  # options of this run alone, which .ci/run adds: not of those that tests start


def pytest_configure(config: pytest.Config) -> None:
    """Use more examples in `-m exhaustive`."""
    if config.option.markexpr == "exhaustive":
        settings.load_profile("exhaustive")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Divide the cases between the default run and `-m exhaustive`; property tests are in both."""
    repeats_properties = config.option.markexpr == "exhaustive"
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if repeats_properties and getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.exhaustive)
        elif hasattr(item, "callspec") and item.get_closest_marker("exhaustive") is None:
            cases[item.nodeid.partition("[")[0]].append(item)
    for items_of_test in cases.values():
        for item in select_exhaustive(items_of_test):
            item.add_marker(pytest.mark.exhaustive)
    for item in items:
        if item.get_closest_marker("exhaustive") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(300))  # these do much, and wait for each other on a small machine


def select_exhaustive(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the cases that the default run omits: of crossed parameters, it has each value of each one once."""
    count = items[0].get_closest_marker("default_cases")
    if count is not None:
        return items[count.args[0] :]
    axes = {item.nodeid: get_axes(item) for item in items}
    kept: set[str] = set()
    seen: set[Any] = set()
    for is_diagonal in (True, False):  # first the cases that have only new values
        for nodeid, values in axes.items():
            if nodeid not in kept and not (values & seen if is_diagonal else values <= seen):
                kept.add(nodeid)
                seen |= values
    return [item for item in items if item.nodeid not in kept]


def get_axes(item: Any) -> set[Any]:
    """Return the values of a case, those of one `parametrize` together."""
    parameters = dict(item.callspec.params)
    values = set()
    for mark in item.iter_markers("parametrize"):
        named = mark.args[0] if mark.args else mark.kwargs["argnames"]
        names = [name.strip() for name in named.split(",")] if isinstance(named, str) else named
        values.add(tuple((name, id(parameters.pop(name))) for name in names if name in parameters))
    return {value for value in values if value} | {((name, id(value)),) for name, value in parameters.items()}


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect the tests without the garbage collector, and take them out of it, so that it is fast in a test."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
