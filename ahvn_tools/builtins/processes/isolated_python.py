"""Isolated Python: a program of this package that parses what nobody trusts, in a process with limits."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, Literal

from ahvn_tools.builtins.processes.confinement import Confinement
from ahvn_tools.builtins.processes.environment import clean_environment
from ahvn_tools.builtins.processes.limits import ProcessLimits
from ahvn_tools.builtins.processes.process import ProcessResult, run_process
from ahvn_tools.roots import without_dots


def run_isolated_python(
    arguments: Sequence[str],
    *,
    folder: Path,
    modules: Iterable[str],
    timeout: float,
    memory_bytes: int,
    sandbox: Literal["bubblewrap", "none"],
    stdin: bytes | IO[bytes],
    is_cancelled: Callable[[], bool],
) -> ProcessResult:
    """Run Python with these arguments and, after them, the folders from which the modules are imported.

    It sees the standard library, `folder` and those folders. `sandbox` is what `choose_sandbox` returned for the
    folders of a model.
    """
    folders = sorted({str(without_dots(found)) for module in modules if (found := module_folder(module))})
    # The interpreter itself and not a link in a virtual environment, which may lie in the folder of the model.
    python = os.path.realpath(sys.executable)
    return run_process(
        [python, "-I", "-S", "-B", "-W", "ignore", *arguments, *folders],
        folder=folder,
        confinement=Confinement(readable=(Path(sys.base_prefix), folder, *map(Path, folders)), sandbox=sandbox),
        limits=ProcessLimits(timeout=timeout, memory_bytes=memory_bytes, kept_bytes=100_000_000, spooled_bytes=0),
        environment=clean_environment(),
        stdin=stdin,
        is_cancelled=is_cancelled,
    )


def module_folder(module: str) -> Path | None:
    """Return the folder from which a module is imported; None if it is not installed. Imports nothing."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin).parent.parent if spec and spec.origin else None
