"""Values that exist on one side only: a program's objects as keys, texts that are not valid Unicode, deep values."""

from __future__ import annotations

from typing import Any

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.code_mode import MontySandbox

KEY = "class A:\n    pass\n\na = A()\n"

TRY = "try:\n    x = {call}\nexcept RuntimeError as error:\n    x = str(error)\nx"


@pytest.fixture(scope="module")
def kit(sandbox: MontySandbox) -> Toolkit:
    kit = Toolkit("k")

    @kit.tool
    def echo(value: Any) -> str:
        """Return a text of the value."""
        return repr(value)

    @kit.tool
    def half() -> str:
        """Return half of a character."""
        return "a\ud800"

    return kit.add_code_mode(sandbox=sandbox)


@pytest.mark.parametrize("value", ["{a: 1}", "{a}", "[{(a, 1): 2}]"], ids=["key", "set", "nested"])
def test_an_object_that_cannot_be_a_key_outside_is_told(kit: Toolkit, value: str) -> None:
    assert "is a key of a dict or in a set" in kit.exec("run_code", {"code": KEY + value}).text
    seen = kit.call("run_code", {"code": KEY + TRY.format(call=f"echo({value})")})
    assert seen.startswith("echo() was not called. An object")


@pytest.mark.parametrize("call", ["half()", "await half()"], ids=["plain", "awaited"])
def test_a_program_goes_on_after_a_result_that_is_not_valid_unicode(kit: Toolkit, call: str) -> None:
    seen = kit.call("run_code", {"code": TRY.format(call=call)})
    assert seen == "The call was made, and the program cannot receive its result. A text in it is not valid Unicode."


@pytest.mark.parametrize("item", ["[x]", "{'a': x}", "(x,)"])
def test_no_part_of_a_value_that_is_too_deep_is_replaced(kit: Toolkit, item: str) -> None:
    code = f"x = 1\nfor i in range(60): x = {item}\n"
    deep = "def f(n, x):\n    return echo(x) if n == 0 else f(n - 1, x)\n"
    assert kit.call("run_code", {"code": f"{code}echo(x)"}).count("1") == 1
    assert (
        "echo() was not called. A value is nested too deep."
        in kit.exec("run_code", {"code": f"{deep}{code}f(150, x)"}).text
    )
