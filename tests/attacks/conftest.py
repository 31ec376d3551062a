"""How an attack is carried out, and what it leaves behind: nothing."""

from __future__ import annotations

import asyncio
import inspect
import logging
import warnings
from collections.abc import Callable

import pytest

from tests.attacks.attack import Attack, Outcome
from tests.execution.conftest import nothing_is_left

__all__ = ["nothing_is_left"]


@pytest.fixture
def carry_out(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Callable[[Attack], Outcome]:
    """Return a function that carries out an attack and returns all that it has brought."""

    def carry_out(attack: Attack) -> Outcome:
        value, error = None, None
        with caplog.at_level(logging.DEBUG), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                value = attack.act()
                if inspect.iscoroutine(value):
                    value = asyncio.run(value)
            except (Exception, SystemExit) as raised:
                error = raised
        printed = [caplog.text, *capfd.readouterr(), *(str(warning.message) for warning in caught)]
        return Outcome(value=value, error=error, printed="\n".join(printed))

    return carry_out
