"""Settings of the whole suite: Hypothesis has no deadlines, since they depend on the machine; Ctrl-C works."""

from __future__ import annotations

import gc
import signal

from hypothesis import settings

settings.register_profile("suite", deadline=None)
settings.load_profile("suite")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a background job of a shell; child processes inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Take the collected tests out of the garbage collector, so that each collection in a test is fast."""
    gc.collect()
    gc.freeze()
