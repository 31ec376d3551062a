"""What hostile programs bring over MCP and through `run`: the same as in a direct call."""

from __future__ import annotations

import asyncio
import json
from typing import Final

import pytest

from ahvn_tools.code_mode import MontySandbox
from tests.attacks.attack import CANARY
from tests.code_mode.attacks.canaries import Canaries, Host, served
from tests.code_mode.attacks.escapes import ESCAPES
from tests.code_mode.attacks.exhaustion import CALLS, VALUES
from tests.code_mode.attacks.hostile_program import HostileProgram, parameters
from tests.code_mode.attacks.overrides import OVERRIDES

SOME: Final = [VALUES[0], *ESCAPES[1::12], VALUES[8], *OVERRIDES[1::10], VALUES[16], *CALLS[::3]]


@pytest.mark.parametrize("program", parameters(SOME))
@pytest.mark.default_cases(1)
def test_a_hostile_program_brings_nothing_to_a_client(
    sandbox: MontySandbox, canaries: Canaries, program: HostileProgram
) -> None:
    host = Host(sandbox, **program.limits)
    direct = Host(sandbox, **program.limits).run(canaries.code(program.code))
    result = asyncio.run(served(host, canaries.code(program.code)))
    assert result.is_error is direct.is_error
    assert CANARY not in repr(result)
    assert canaries.are_untouched
    assert host.is_obeyed


@pytest.mark.parametrize("program", parameters(SOME))
@pytest.mark.default_cases(1)
def test_a_hostile_program_in_an_answer_of_a_model_brings_nothing(
    sandbox: MontySandbox, canaries: Canaries, program: HostileProgram
) -> None:
    host = Host(sandbox, **program.limits)
    arguments = json.dumps({"code": canaries.code(program.code)})
    run = host.kit.run(
        {"tool_calls": [{"id": "c1", "function": {"name": "run_code", "arguments": arguments}}]}, format="openai"
    )
    assert run.is_done
    assert CANARY not in json.dumps(run.to_json())
    assert canaries.are_untouched
    assert host.is_obeyed
