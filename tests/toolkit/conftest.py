"""What every file of tests here is checked for: nothing is left running."""

from __future__ import annotations

from tests.execution.conftest import nothing_is_left

__all__ = ["nothing_is_left"]
