"""`engine="monty"`: calculations without files, network and packages."""

from __future__ import annotations

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.builtins.python_runner import PythonRunner
from tests.builtins.python_runner.running import run_once

pytest.importorskip("pydantic_monty")


def run(code, **options):
    return run_once(code, engine="monty", **options)


def test_a_calculation_has_output_and_a_value(nothing_left):
    result = run("print('hello')\nsum(x * x for x in range(10))")
    assert result.value == "<returncode>0</returncode><stdout>hello\n</stdout><stderr></stderr><result>285</result>"
    assert result.structured_content["sandbox"] == "monty"


def test_an_error_shows_its_line():
    result = run("def f(x):\n    return 1 / x\nf(0)")
    assert result.structured_content["exit_code"] == 1
    assert 'File "code.py", line 2, in f' in result.structured_content["stderr"]
    assert "ZeroDivisionError: division by zero" in result.structured_content["stderr"]


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("open('/etc/passwd')", id="file"),
        *(
            pytest.param(code, id=name, marks=pytest.mark.exhaustive)
            for name, code in {
                "syntax": "(",
                "package": "import numpy",
                "network": "import socket",
                "generator": "def f():\n    yield 1",
            }.items()
        ),
    ],
)
def test_what_is_not_supported_is_an_error(code):
    result = run(code)
    assert result.structured_content["exit_code"] == 1
    assert ("This Python is for calculations." in result.value) == (code != "(")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "code",
    [
        "open('/etc/passwd').read()",
        "import os\nos.listdir('/')",
        "import os\nos.environ",
        "import pathlib\npathlib.Path('/etc/passwd').read_text()",
        "__import__('os').system('id')",
        "().__class__.__mro__[1].__subclasses__()",
        "import subprocess",
        "import ctypes",
        "'{0.__class__}'.format(1)",
        "eval('open(\"/etc/passwd\")')",
    ],
)
def test_no_code_reaches_the_system(code):
    result = run(code)
    assert result.structured_content["exit_code"] == 1, result.value
    assert "root:" not in result.value


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "try:\n    while True: pass\nexcept BaseException: pass",
        "import time\ntime.sleep(2)\nwhile True: pass",
        "import time\nfor _ in range(100): time.sleep(1)",
        "while True: print('x' * 1000)",
    ],
    ids=["loop", "catches", "sleeps and loops", "sleeps", "prints"],
)
def test_endless_code_ends(code, nothing_left):
    result = run(code, timeout=3)
    parts = result.structured_content
    assert parts["ended_by"] == "timeout" or "TimeoutError" in parts["stderr"], result.value
    assert parts["duration"] < 60
    assert len(result.value) < 200_000


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "code",
    ["[0] * 10**9", "2 ** (10**9)", "a = []\nwhile True: a.append('x' * 1000)", "def f(n): return f(n + 1)\nf(0)"],
    ids=["list", "number", "steps", "recursion"],
)
def test_memory_is_limited(code, nothing_left):
    result = run(code)
    assert result.structured_content["exit_code"] == 1
    assert "MemoryError" in result.value or "RecursionError" in result.value


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "code",
    [
        "a = [1]\nfor _ in range(40): a = [a, a]\na",
        "a = 'x' * 10_000_000\n[a] * 5000",
        "10 ** 5000",
        "a = []\na.append(a)\na",
    ],
    ids=["doubled", "repeated", "digits", "cycle"],
)
def test_a_huge_value_harms_nothing(code, nothing_left):
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = run(code, timeout=10)
    assert result.error is None
    assert len(result.value) < 100_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kB


def test_a_calculation_needs_no_approval():
    kit = Toolkit("code", approver=lambda request: False).add(PythonRunner(engine="monty", sandbox="none"))
    result = kit.exec("execute_python_code", {"code": "6 * 7"})
    assert result.structured_content["result"] == "42"
    assert result.structured_content["notes"] == []
