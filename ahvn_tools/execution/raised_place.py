"""Where an exception was raised, also in another process."""

from __future__ import annotations

from pathlib import Path


class WorkerTraceback(Exception):  # noqa: N818  # a traceback as the cause of an exception
    """Where in the worker an exception was raised: its traceback and its place. It is the cause of the exception."""

    def __str__(self) -> str:
        """Return the traceback, which starts on a new line."""
        return f"\n{self.args[0]}"


def raised_place(error: BaseException) -> str:
    """Return the file and the line where an exception was raised, such as `tools.py, line 7`; "" if unknown."""
    if isinstance(error.__cause__, WorkerTraceback):
        place: str = error.__cause__.args[1]
        return place
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno}"
