"""No hostile program reaches its host: each ends as it must, and the next program runs."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ahvn_tools.code_mode import MontySandbox
from tests.attacks.attack import CANARY
from tests.code_mode.attacks.canaries import WORKER_BYTES, Canaries, Host, everything_of, peaks
from tests.code_mode.attacks.escapes import ESCAPES
from tests.code_mode.attacks.exhaustion import EXHAUSTION
from tests.code_mode.attacks.hostile_program import HostileProgram, parameters
from tests.code_mode.attacks.overrides import OVERRIDES


@pytest.fixture(autouse=True)
def nothing_is_reached(
    host: Host, canaries: Canaries, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> Any:
    """Check the host after each program."""
    caplog.set_level(logging.DEBUG)
    yield
    assert canaries.are_untouched
    assert CANARY not in f"{caplog.text}{capfd.readouterr()}"
    assert max(peaks(), default=0) < WORKER_BYTES
    assert host.run("ping(41) + 1").value == 42
    assert host.is_obeyed


def run(sandbox: MontySandbox, canaries: Canaries, program: HostileProgram) -> None:
    host = Host(sandbox, **program.limits)
    result = host.run(canaries.code(program.code))
    assert program.holds(result), everything_of(result)[:2000]
    assert CANARY not in everything_of(result)
    assert host.is_obeyed, host.calls
    assert result.error is None or result.error.code in {"tool_error", "invalid_parameters"}, result.error


@pytest.mark.parametrize("program", parameters(ESCAPES))
@pytest.mark.default_cases(5)
def test_no_program_leaves_the_sandbox(sandbox: MontySandbox, canaries: Canaries, program: HostileProgram) -> None:
    run(sandbox, canaries, program)


@pytest.mark.parametrize("program", parameters(OVERRIDES))
@pytest.mark.default_cases(4)
def test_no_program_sets_a_bound_parameter(sandbox: MontySandbox, canaries: Canaries, program: HostileProgram) -> None:
    run(sandbox, canaries, program)


@pytest.mark.parametrize("program", parameters(EXHAUSTION))
@pytest.mark.default_cases(4)
def test_no_program_uses_more_than_it_may(sandbox: MontySandbox, canaries: Canaries, program: HostileProgram) -> None:
    run(sandbox, canaries, program)
