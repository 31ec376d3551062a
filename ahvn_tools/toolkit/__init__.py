"""Toolkit: many tools as one collection, with labels, selections, sessions, and answers of models run as a whole.

`collection` is the toolkit; `catalog` is what all its views and sessions share, `entry` one tool in it; `view` and
`selection` say what is shown and with which state; `tool` is a tool seen through a toolkit; `calls` and `batch` run
them, `run` is what comes of a model's answer.
"""

from __future__ import annotations

from ahvn_tools.toolkit.run_result import Run
from ahvn_tools.toolkit.toolkit import Toolkit

__all__ = ["Run", "Toolkit"]
