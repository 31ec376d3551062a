"""Executors for the bodies of tools: killable processes of this computer, and the workers of Dask and Ray."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ahvn_tools.executors.dask import DaskExecutor
    from ahvn_tools.executors.process import ProcessExecutor
    from ahvn_tools.executors.ray import RayExecutor

__all__ = ["DaskExecutor", "ProcessExecutor", "RayExecutor"]

_MODULES = {"DaskExecutor": "dask", "ProcessExecutor": "process", "RayExecutor": "ray"}


def __getattr__(name: str) -> Any:
    """Import an executor when it is first used: each needs another package."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
