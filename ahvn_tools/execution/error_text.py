"""The text of an exception, without the bound objects that it holds, and where it was raised."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ahvn_tools.errors import exception_text
from ahvn_tools.plain_data import plain_text
from ahvn_tools.redaction import MaskedValues, iter_parts


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


def error_text(error: BaseException, hidden: Mapping[str, Any]) -> str:
    """Return the text of an exception, with `<name>` for an argument that is one of the hidden objects itself."""
    if type(error).__str__ not in (BaseException.__str__, KeyError.__str__):
        return exception_text(error)
    foreign = [argument for argument in error.args if plain_text(argument) is None]
    names = _names_by_identity(hidden) if foreign else {}
    if not any(id(argument) in names for argument in foreign):
        return exception_text(error)
    texts = [f"<{names[id(part)]}>" if id(part) in names else exception_text(Exception(part)) for part in error.args]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _names_by_identity(hidden: Mapping[str, Any]) -> dict[int, str]:
    return {
        id(part): name
        for name, value in hidden.items()
        for whole in (value if isinstance(value, MaskedValues) else (value,))
        for part in iter_parts(whole)
        if plain_text(part) is None
    }
