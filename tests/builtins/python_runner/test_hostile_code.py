"""Whatever code does, it ends by itself or by a limit, and the host is unharmed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.builtins.python_runner.hostile_code import ENDING, ENDLESS, FORGED, Hostile
from tests.builtins.python_runner.running import LONGEST, SANDBOXES, run_once

_ALL = {**ENDING, **ENDLESS}
_SHORT_TIMEOUT = 2.0


_IN_EVERY_RUN = {
    "exits at once", "closes all descriptors", "replaces stdout", "sys.exit in the last expression", "huge list",
    "no UTF-8", "child process that runs on", "fork that returns twice", "a link", "a pipe", "no PNG",
}  # fmt: skip


def _cases(cases: Mapping[str, Hostile]) -> list[object]:
    marks = {name: () if name in _IN_EVERY_RUN else pytest.mark.exhaustive for name in cases}
    return [pytest.param(case, id=name, marks=marks[name]) for name, case in cases.items()]


def test_there_are_enough_cases():
    assert len(_ALL) + len(FORGED) >= 80
    assert {*_ALL, *FORGED} >= _IN_EVERY_RUN


@pytest.mark.parametrize("case", _cases(_ALL))
@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.default_cases(3)
def test_hostile_code_ends_and_leaves_nothing(case: Hostile, sandbox, nothing_left):
    result = run_once(case.code, sandbox=sandbox, timeout=LONGEST if case.ends_by == "itself" else _SHORT_TIMEOUT)
    parts = result.structured_content
    assert parts is not None, result
    if case.ends_by != "either":
        assert parts["ended_by"] == {"itself": "exit", "timeout": "timeout"}[case.ends_by], result.value
    if case.exit_code is not None:
        assert parts["exit_code"] == case.exit_code, result.value
    assert case.out in parts["stdout"]
    assert case.error in parts["stderr"]
    if case.result is not None:
        assert parts["result"].startswith(case.result)
    assert len(result.value) < 400_000


@pytest.mark.parametrize("case", _cases(FORGED))
@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_a_forged_answer_is_harmless(case: Hostile, sandbox, secret_file: Path, nothing_left):
    result = run_once(case.code.replace("SECRET", repr(str(secret_file))), sandbox=sandbox, max_image_bytes=500_000)
    parts = result.structured_content
    assert parts is not None, result
    assert (parts["ended_by"], parts["exit_code"]) == ("exit", 0), result.value
    assert parts["result"] is None
    assert parts["images"] <= 8
    assert len(result.value) < 50_000
    assert "host-secret" not in result.value
