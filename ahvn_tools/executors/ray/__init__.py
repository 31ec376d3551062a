"""RayExecutor: bodies of tools in the workers of a Ray cluster."""

from __future__ import annotations

from ahvn_tools.executors.ray.executor import RayExecutor

__all__ = ["RayExecutor"]
