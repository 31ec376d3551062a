"""Failed assertions of the shared tests show their values."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.executors.contract")
