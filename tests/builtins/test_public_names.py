"""The names that `ahvn_tools.builtins` offers."""

from __future__ import annotations

import ast
from pathlib import Path

import ahvn_tools.builtins
from ahvn_tools.builtins import Confinement, ProcessLimits, ProcessResult, clean_environment, run_process


def test_every_public_name_can_be_imported():
    for name in ahvn_tools.builtins.__all__:
        assert getattr(ahvn_tools.builtins, name) is not None
    assert set(ahvn_tools.builtins.__all__) <= set(dir(ahvn_tools.builtins))


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(ahvn_tools.builtins.__file__).read_text("utf-8"))
    (for_checkers,) = [node for node in tree.body if isinstance(node, ast.If)]
    assert {alias.name for node in for_checkers.body for alias in node.names} == set(ahvn_tools.builtins.__all__)


def test_a_tool_of_a_host_runs_a_program_as_the_built_in_tools_do(tmp_path):
    limits = ProcessLimits(timeout=30, kept_bytes=100, spooled_bytes=0)
    environment = clean_environment(TEA="green")
    result = run_process(
        ["sh", "-c", "echo $TEA"], folder=tmp_path, confinement=Confinement(), limits=limits, environment=environment
    )
    assert isinstance(result, ProcessResult)
    assert (result.stdout.text, result.exit_code) == ("green\n", 0)
