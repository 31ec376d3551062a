"""Settings of the whole suite: Hypothesis has no deadlines, since they depend on the machine; Ctrl-C works."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("suite", deadline=None, max_examples=20)
settings.register_profile("exhaustive", deadline=None)
settings.load_profile("suite")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a background job of a shell; child processes inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

if sys.dont_write_bytecode:  # each of the many processes that tests start would compile the package again
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

os.environ.pop("PYTEST_ADDOPTS", None)  # options of this run alone, which .ci/run adds: not of those that tests start


def pytest_configure(config: pytest.Config) -> None:
    """Use as many examples in `-m exhaustive` as Hypothesis does by itself."""
    if config.option.markexpr == "exhaustive":
        settings.load_profile("exhaustive")


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Iterator[None]:
    """Divide the cases between the default run and `-m exhaustive`; property tests are in both.

    Each of these runs makes tests of its own cases alone: a test that is made and left out takes as long to collect.
    """
    yield
    selection = metafunc.config.option.markexpr
    calls = metafunc._calls
    if getattr(metafunc.function, "is_hypothesis_test", False) and selection == "exhaustive":
        return
    if not metafunc.definition.get_closest_marker("exhaustive"):
        for call in select_exhaustive(metafunc):
            call.marks.append(pytest.mark.exhaustive.mark)
        wanted = [call for call in calls if is_exhaustive(call) == (selection == "exhaustive")]
    else:
        wanted = calls if selection == "exhaustive" else []
    if selection in {"exhaustive", "not exhaustive"}:
        calls[:] = wanted or calls[:1]  # without any, the test would run without parameters


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add property tests to `-m exhaustive`, and give the tests there time: they wait for each other."""
    for item in items:
        if config.option.markexpr == "exhaustive" and getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.exhaustive)
        if item.get_closest_marker("exhaustive") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(300))


def is_exhaustive(call: Any) -> bool:
    """Return whether a case of a parametrized test has the mark `exhaustive`."""
    return any(mark.name == "exhaustive" for mark in call.marks)


def select_exhaustive(metafunc: pytest.Metafunc) -> list[Any]:
    """Return the cases that the default run omits: of crossed parameters, it has each value of each one once."""
    calls = [call for call in metafunc._calls if not is_exhaustive(call)]
    count = metafunc.definition.get_closest_marker("default_cases")
    if count is not None:
        return calls[count.args[0] :]
    crossed = [get_names(mark) for mark in metafunc.definition.iter_markers("parametrize")]
    axes = [get_axes(call.params, crossed) for call in calls]
    kept: set[int] = set()
    seen: set[Any] = set()
    for is_diagonal in (True, False):  # first the cases that have only new values
        for index, values in enumerate(axes):
            if index not in kept and not (values & seen if is_diagonal else values <= seen):
                kept.add(index)
                seen |= values
    return [call for index, call in enumerate(calls) if index not in kept]


def get_names(mark: pytest.Mark) -> list[str]:
    """Return the names of the parameters of one `parametrize`."""
    named = mark.args[0] if mark.args else mark.kwargs["argnames"]
    return [name.strip() for name in named.split(",")] if isinstance(named, str) else list(named)


def get_axes(params: Mapping[str, object], crossed: list[list[str]]) -> set[Any]:
    """Return the values of a case, those of one `parametrize` together."""
    parameters = dict(params)
    values = {tuple((name, id(parameters.pop(name))) for name in names if name in parameters) for names in crossed}
    return {value for value in values if value} | {((name, id(value)),) for name, value in parameters.items()}


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without the garbage collector, which finds nothing here, and take the tests out of it.

    Each collection in a test is fast then.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
