"""ProgramState: what the host knows of a program, apart from what the sandbox knows."""

from __future__ import annotations

from dataclasses import dataclass, field

from ahvn_tools.json_types import JsonObject


@dataclass(frozen=True, kw_only=True)
class ProgramCall:
    """A call of a tool that a program makes."""

    number: int
    """Counted from 1, in the order of the calls."""
    tool: str
    arguments: JsonObject


@dataclass(kw_only=True)
class ProgramState:
    """What the host knows of a program, apart from what the sandbox knows."""

    awaits: bool
    calls_made: int = 0
    output: str = ""
    is_output_cut: bool = False
    contents: dict[str, JsonObject] = field(default_factory=dict)
    """The images and files that calls have returned, as MCP content blocks, by the names that the program holds."""
    run_id: str | None = None
    """The `run_id` of its calls, which stays when the program has waited; None: it has not begun."""
    ends_session: bool = False
    """Whether a call has requested the end of the session."""
    finish_call: ProgramCall | None = None
    """The last call with the fields of `finish_with`."""
    waiting: dict[int, ProgramCall] = field(default_factory=dict)
    """The calls that have no answer yet, by their id in the sandbox."""
