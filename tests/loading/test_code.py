"""A text with more than one line is code: its tools, else its public functions."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from ahvn_tools.errors import SourceError
from ahvn_tools.manifest import load


def test_public_functions_are_the_tools_of_code_without_tools():
    kit = load(
        """
        import math
        from os.path import join

        def area(radius: float) -> float:
            "Return the area of a circle."
            return _square(radius) * math.pi

        def _square(value: float) -> float:
            return value * value

        async def count(items: list[int]) -> int:
            return len(items)
        """
    )
    assert [spec.name for spec in kit] == ["area", "count"]
    assert (kit.name, round(kit.call("area", {"radius": 1}), 2)) == ("code", 3.14)


def test_decorated_functions_are_the_tools_of_code_that_has_some():
    kit = load("from ahvn_tools import tool\n@tool\ndef one() -> int:\n  return two()\ndef two() -> int: return 2\n")
    assert ([spec.name for spec in kit], kit.call("one")) == (["one"], 2)


def test_code_that_is_loaded_twice_runs_once():
    code = "from ahvn_tools import Toolkit\nkit = Toolkit('tea')\n"
    assert load(code) is load(code)


def test_annotations_are_found_when_they_are_needed():
    kit = load(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "def f(a: Point) -> int: return a.x\n@dataclass\nclass Point:\n  x: int\n"
    )
    assert kit.call("f", {"a": {"x": 2}}) == 2


@pytest.mark.exhaustive
def test_tools_of_code_are_pickled_by_value(tmp_path):
    spec = load("word = 'hello'\ndef greet() -> str:\n  return word\n")["greet"].clone()
    (tmp_path / "pickled").write_bytes(pickle.dumps(spec))
    program = "import pickle; print(pickle.load(open('pickled', 'rb')).call())"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False)
    assert (ran.stdout, ran.stderr) == ("hello\n", "")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1\ny = 2\n", "The code defines no tool and no function: write one with `def` or `async def`."),
        ("x = 1\n1 / 0\n", "code cannot be loaded: ZeroDivisionError: division by zero"),
        ("x = 1\ndef f(:\n", "code cannot be loaded: SyntaxError: invalid syntax (_loaded_code_"),
        ("import sys\nsys.exit()\n", "code exited while it was loaded"),
        ("def f(a: len):\n  pass\n", "The code: "),
    ],
)
def test_code_that_cannot_be_loaded_is_refused(code, message):
    with pytest.raises(SourceError) as caught:
        load(code)
    assert str(caught.value).startswith(message)
