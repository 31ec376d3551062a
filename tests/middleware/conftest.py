"""Check after each test file that no thread, task or process still runs."""

from __future__ import annotations

from tests.execution.conftest import nothing_is_left

__all__ = ["nothing_is_left"]
