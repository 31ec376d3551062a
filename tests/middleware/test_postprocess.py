"""Postprocess: a host's function over the chunks and results of a tool."""

from __future__ import annotations

from typing import Any

import pytest

from ahvn_tools import Toolkit
from tests.execution.entry_points import combinations


def kit_of(function: Any, body: Any = lambda: 1) -> Toolkit:
    return Toolkit("kit").add(body, rename="one", postprocess=function)


async def one_later() -> int:
    return 1


@combinations(error={"exit": SystemExit(3), "interrupt": KeyboardInterrupt(), "error": ValueError("hunter2")})
async def test_served_what_it_raises_is_an_error_result(error: BaseException) -> None:
    def fail(_call: Any, _result: Any) -> None:
        raise error

    kit = kit_of(fail)
    result = await kit["one"].to_fastmcp().run({})
    assert result.is_error
    assert "hunter2" not in result.content[0].text


async def test_in_a_local_call_system_exit_is_raised() -> None:
    def leave(_call: Any, _result: Any) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        await kit_of(leave).aexec("one")
