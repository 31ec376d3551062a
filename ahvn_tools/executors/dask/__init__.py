"""DaskExecutor: bodies of tools in the workers of a Dask cluster."""

from __future__ import annotations

from ahvn_tools.executors.dask.executor import DaskExecutor

__all__ = ["DaskExecutor"]
