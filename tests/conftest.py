"""Settings of the whole suite: Hypothesis has no deadlines, since they depend on the machine; Ctrl-C works."""

from __future__ import annotations

import gc
import os
import signal
import sys

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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run property tests again in `-m exhaustive`, with more examples."""
    if config.option.markexpr == "exhaustive":
        for item in items:
            if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
                item.add_marker(pytest.mark.exhaustive)


def pytest_collection_finish() -> None:
    """Take the collected tests out of the garbage collector, so that each collection in a test is fast."""
    gc.collect()
    gc.freeze()
