"""Fixtures for programs with and without a sandbox."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools.builtins.processes.confinement import Confinement, ProcessLimits
from ahvn_tools.builtins.processes.private_folder import clean_environment, private_folder
from ahvn_tools.builtins.processes.process import ProcessResult, RunningProcess, run_process
from tests.builtins.processes.both_ways import usable_confinement

collect_ignore_glob = ["test_*.py"] if sys.platform == "win32" else []

NO_SANDBOX = Confinement()


@pytest.fixture(scope="session", autouse=True)
def _made_private_folder() -> Path:
    """Make the private folder before a test counts open files: its lock stays open until Python ends."""
    return private_folder.path


@pytest.fixture(params=["none", "bubblewrap"])
def confinement(request: pytest.FixtureRequest) -> Confinement:
    """Both ways to run a program."""
    return usable_confinement(request.param)


@pytest.fixture
def mark() -> str:
    """A text that tells the processes of one test from all others."""
    return f"mark-{uuid.uuid4().hex}"


@pytest.fixture
def run(tmp_path, mark) -> Callable[..., ProcessResult]:
    """`run_process` in a folder of its own, without a sandbox and with a long timeout unless said otherwise."""

    def run(*command: str, confinement: Confinement = NO_SANDBOX, timeout: float = 60, **options: Any) -> ProcessResult:
        names = [name for name in options if name in ProcessLimits.__dataclass_fields__]
        limits = ProcessLimits(timeout=timeout, **{name: options.pop(name) for name in names})
        options = {"folder": tmp_path, "environment": clean_environment(MARK=mark), **options}
        return run_process(command, confinement=confinement, limits=limits, **options)

    return run


@pytest.fixture
def start(tmp_path, mark):
    """`RunningProcess` as `run` runs it. It is stopped after the test."""
    started = []

    def start(
        *command: str, confinement: Confinement = NO_SANDBOX, timeout: float = 60, **options: Any
    ) -> RunningProcess:
        limits = ProcessLimits(timeout=timeout, **options)
        environment = clean_environment(MARK=mark)
        process = RunningProcess(
            command, folder=tmp_path, confinement=confinement, limits=limits, environment=environment
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.stop()
