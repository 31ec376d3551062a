"""WorkerRequest: one call of a body, as it is sent to another process, and the environment that the body gets there."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ahvn_tools.context import Asker, CallLinks, ToolContext
from ahvn_tools.execution.plan import ItemLimits
from ahvn_tools.execution.workers import slots
from ahvn_tools.json_types import JsonObject


@dataclass(frozen=True, kw_only=True)
class WorkerRequest:
    """One call, as it is sent to a worker."""

    body: Any = field(repr=False)
    """The function, or its FunctionPath."""
    positional: list[Any] = field(repr=False)
    named: dict[str, Any] = field(repr=False)
    is_async: bool
    limits: ItemLimits
    has_reader: bool
    """Whether a caller reads the chunks."""
    max_reply_bytes: int | None = None
    """How large one pickled reply may be; None: any size."""


@dataclass(frozen=True)
class ContextSnapshot:
    """Takes the place of a ToolContext in a request. Of the context's state, only what is passed is sent."""

    fields: Mapping[str, Any]
    state: JsonObject = field(default_factory=dict, repr=False)
    has_reader: bool = False
    """Whether somebody reads the output."""
    has_progress_reader: bool = False

    @classmethod
    def capture(cls, context: ToolContext, state: JsonObject, *, has_reader: bool) -> ContextSnapshot:
        """Return a snapshot of a context with this part of its state. What nobody reads is not sent."""
        names = (
            "call_id", "tool", "run_id", "caller", "session_id", "roots", "forbids_files", "is_approved", "is_served",
            "is_anonymous", "_masks_errors",
        )  # fmt: skip
        has_progress_reader = has_reader or context._links.report is not None  # noqa: SLF001  # bodies need no name for it
        return cls({name: getattr(context, name) for name in names}, state, has_reader, has_progress_reader)

    def restore(self, send: Callable[..., None], asker: Asker) -> ToolContext:
        """Return a context that sends output, progress and, with `asker`, questions to the calling process."""
        return ToolContext(
            **self.fields,
            state=MappingProxyType(self.state),
            _links=CallLinks(
                emit=(lambda chunk: send("output", chunk.value)) if self.has_reader else None,
                report=(lambda *progress: send("progress", *progress)) if self.has_progress_reader else None,
                asker=asker,
            ),
        )


@dataclass(frozen=True, kw_only=True)
class ProcessEnvironment:
    """The directory, import path and environment variables of the calling process, which the body runs with."""

    directory: str | None
    sys_path: list[str]
    variables: Mapping[str, str] = field(repr=False)
    max_processes: int
    """How many isolated calls of the body run at once."""

    @classmethod
    def capture(cls) -> ProcessEnvironment:
        """Return the environment of this process."""
        directory = None
        with contextlib.suppress(OSError):  # it was deleted
            directory = os.getcwd()  # noqa: PTH109  # a string is pickled
        return cls(
            directory=directory,
            sys_path=get_sys_path(),
            variables=dict(os.environ),
            max_processes=slots.process_slots.count,
        )

    def apply(self) -> None:
        """Make it the environment of this process."""
        sys.path[:] = self.sys_path
        slots.process_slots.count = self.max_processes
        if self.variables != dict(os.environ):
            os.environ.clear()
            os.environ.update(self.variables)
        if self.directory is not None:
            with contextlib.suppress(OSError):  # it was deleted meanwhile
                os.chdir(self.directory)


def get_sys_path() -> list[str]:
    """Return the folders that modules are imported from."""
    entries: list[Any] = sys.path  # some programs add Path objects
    return [entry for entry in entries if isinstance(entry, str)]


def get_import_options() -> list[str]:
    """Return the options with which an interpreter imports nothing from folders that this one does not trust.

    Bytecode of another text, which says that it is not to be compared with it, is not run either.
    """
    options = ["--check-hash-based-pycs", "always"]
    if sys.flags.isolated:
        return [*options, "-I"]
    return [*options, "-P", "-E"] if sys.flags.ignore_environment else [*options, "-P"]
