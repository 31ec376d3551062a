"""The executor that a host passes."""

from __future__ import annotations

from concurrent.futures import Executor

from ahvn_tools.errors import DefinitionError


def validate_executor(executor: Executor) -> Executor:
    """Return an executor. Raises DefinitionError for anything else."""
    if not isinstance(executor, Executor):
        raise DefinitionError(
            "An executor is a concurrent.futures.Executor, such as ProcessPoolExecutor or one of ahvn_tools.executors, "
            f"not a {type(executor).__name__}."
        )
    return executor
