"""PythonRunner: the tool that runs Python code, in an interpreter of its own with limits."""

from __future__ import annotations

from ahvn_tools.builtins.python_runner.runner import PythonRunner

__all__ = ["PythonRunner"]
