"""A program leaves nothing for the next one in the same worker, and sessions do not see each other's values."""

from __future__ import annotations

from typing import Any, Final

import pytest

from ahvn_tools.code_mode import MontySandbox
from tests.attacks.attack import CANARY
from tests.code_mode.attacks.canaries import Host, everything_of

LEFT: Final = "left-behind-81"

LEAVES: Final = {
    "a global": (f"left = '{LEFT}'", "left", "used when not defined"),
    "a global, unseen by the check": (f"left = '{LEFT}'", "eval('left')", "NameError"),
    "a function": (f"def leave():\n    return '{LEFT}'\n1", "eval('leave')()", "NameError"),
    "a class": (f"class Left:\n    text = '{LEFT}'\n1", "eval('Left').text", "NameError"),
    "another len": (f"def len(a):\n    return '{LEFT}'\nlen([])", "len([1])", "1"),
    "another function of the host": (
        f"def ping(number: int) -> str:\n    return '{LEFT}'\nping(1)",
        "ping(5)",
        "5",
    ),
    "an import by another name": ("import math as json\n1", "json.pi", "used when not defined"),
    "an attribute of a module": (f"import math\nmath.pi = '{LEFT}'", "import math\nint(math.pi)", "3"),
    "an entry of a module": ("import json\njson.loads = print", "import json\njson.loads('7')", "7"),
    "a seed": ("import random\nrandom.seed(1)\n1", "import random\nrandom.random() == 0.13436424411240122", "False"),
    "what was printed": (f"print('{LEFT}')", "1", "1"),
    "an exception": (f"raise ValueError('{LEFT}')", "1", "1"),
    "a failed check": (f"left: str = '{LEFT}'\nping('x')", "eval('left')", "NameError"),
    "a declaration that the check has seen": (
        "def note2(a: str) -> str:\n    return a\n1",
        "note2('x')",
        "not defined",
    ),
}
"""What a program leaves, by what it is: the program, one that looks for it, and what that one ends with."""


@pytest.mark.parametrize(("first", "second", "end"), LEAVES.values(), ids=list(LEAVES))
@pytest.mark.default_cases(5)
def test_nothing_is_left_for_the_next_program(sandbox: MontySandbox, first: str, second: str, end: str) -> None:
    ann, bob = Host(sandbox), Host(sandbox)
    ann.run(first)
    result = bob.run(second)
    assert end in (result.text if result.is_error else repr(result.value))
    assert LEFT not in everything_of(result)


def test_a_program_of_another_session_has_another_users_values(sandbox: MontySandbox) -> None:
    host = Host(sandbox)
    for user in ("ann", "bob"):
        session = host.kit.session(user=user)
        assert session.call("run_code", {"code": "len(list_issues())"}) == 1
    assert [call[1] for call in host.calls] == ["ann", "bob"]
    assert all(call[2] == CANARY for call in host.calls)


def test_an_image_of_another_program_cannot_be_returned(sandbox: MontySandbox) -> None:
    from fastmcp.utilities.types import Image

    host = Host(sandbox)

    @host.kit.tool
    def draw() -> Any:
        """Draw."""
        return Image(data=b"canvas", format="png")

    drawn = host.kit.exec("run_code", {"code": "draw()"})
    assert [block.type for block in drawn.content] == ["text", "image"]
    for code in ("'[image 1]'", "ping(1)\n['[image 1]', '[image 2]']", "draw()\n'[image 2]'"):
        assert [block.type for block in host.kit.exec("run_code", {"code": code}).content] == ["text"]


@pytest.mark.parametrize(
    "code",
    ["x = (1,)\n" + "x = (x, x)\n" * 60 + "ping(x)", "x = 1\n" * 8000],
    ids=["a check that fails", "a check that is long"],
)
@pytest.mark.exhaustive
def test_a_hostile_check_does_not_disturb_the_next_one(sandbox: MontySandbox, code: str) -> None:
    host = Host(sandbox)
    for _ in range(3):
        host.run(code)
        assert host.run("ping(3)").value == 3
        assert "Line 1" in host.run("ping('x')").text


def test_a_dry_run_runs_nothing(sandbox: MontySandbox) -> None:
    host = Host(sandbox)
    for code in ("while True:\n    pass", "print('x' * 10**9)", "list_issues()", "raise ValueError('x')", "1 / 0"):
        result = host.kit.exec("run_code", {"code": code, "dry_run": True})
        assert result.value == "The types of the program fit. It was not run."
    assert host.calls == []


def test_a_huge_list_of_names_is_refused(sandbox: MontySandbox) -> None:
    host = Host(sandbox)
    for name in ("ping", "nothing"):
        result = host.kit.exec("describe_tools", {"names": [name] * 100_000})
        assert result.is_error
        assert len(result.text) < 1000
