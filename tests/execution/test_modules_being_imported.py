"""A call while another thread imports a module that the package uses only if it is imported: its names are missing."""

import asyncio
import subprocess
import sys
from types import ModuleType

import pytest

from ahvn_tools import ToolSpec
from ahvn_tools.executors import ProcessExecutor

PROGRAM = """
import importlib, importlib.abc, shlex, sys, threading
from importlib.machinery import PathFinder
from ahvn_tools import ToolSpec

paused, resume = threading.Event(), threading.Event()


class Pause(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "cloudpickle.cloudpickle":
            spec = PathFinder.find_spec(name, path)
            execute = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (paused.set(), resume.wait(60), execute(module))
            return spec


def work():
    results.append(ToolSpec.from_function(shlex.quote, isolation="process").exec("a").error)


results = []
assert "cloudpickle" not in sys.modules
sys.meta_path.insert(0, Pause())
importer = threading.Thread(target=importlib.import_module, args=("cloudpickle",))
importer.start()
assert paused.wait(60)
worker = threading.Thread(target=work)
worker.start()
worker.join(1)
resume.set()
worker.join(60)
importer.join(60)
print(results)
"""


def fail(number: int) -> int:
    raise ValueError(number)


@pytest.mark.parametrize(
    "name", ["mcp.shared.exceptions", "fastmcp.exceptions", "pydantic.types", "asyncio.exceptions"]
)
def test_a_call_does_not_need_what_a_module_has_not_defined_yet(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    spec = ToolSpec.from_function(fail)
    for result in (spec.exec(number=1), asyncio.run(spec.aexec(number=1))):
        assert result.error is not None
        assert result.error.code == "tool_error"


def test_an_executor_shuts_down_while_its_pool_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "ahvn_tools.execution.workers.worker_process"
    assert name in sys.modules or __import__(name)
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    ProcessExecutor(1).shutdown()


def test_an_isolated_call_waits_until_cloudpickle_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "[None]\n", done.stderr
