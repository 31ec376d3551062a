"""The confinements of tests that run with and without a sandbox."""

from __future__ import annotations

from typing import Literal

import pytest

from ahvn_tools.builtins.processes.confinement import Confinement, find_bubblewrap


def usable_confinement(sandbox: Literal["none", "bubblewrap"]) -> Confinement:
    """Return a confinement; skip the test where bubblewrap does not work."""
    if sandbox == "bubblewrap" and find_bubblewrap() is None:
        pytest.skip("bubblewrap does not work here")
    return Confinement(sandbox=sandbox)
