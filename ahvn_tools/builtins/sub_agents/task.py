"""What a model asks of one sub-agent, and what a runner gets to run it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ahvn_tools.toolkit import Toolkit


class SubAgentRequest(BaseModel):
    """One sub-agent."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt: Annotated[
        str, Field(min_length=1, description="The task. The sub-agent sees nothing else of this conversation.")
    ]
    allowed_uris: Annotated[
        list[str] | None,
        Field(min_length=1, description="The folders that it may use, inside of yours; all of yours by default."),
    ] = None
    model: Annotated[str | None, Field(description="A model that get_available_models lists.")] = None
    name: Annotated[str | None, Field(max_length=80, description="A name for its report.")] = None
    timeout: Annotated[float | None, Field(gt=0, description="Seconds after which it is cancelled.")] = None


@dataclass(frozen=True, kw_only=True)
class SubAgentTask:
    """What one sub-agent shall do, and what it may use."""

    id: str
    """Unique, and the id of its session."""
    name: str
    """How the parent refers to it."""
    prompt: str
    context_summary: str
    """What the parent says about its own task."""
    model: str | None
    """One of the models of `SubAgents`; None: the runner chooses."""
    toolkit: Toolkit
    """The tools for its audience that its parent has, too, and task_finish; in a session of its own."""
    roots: tuple[Path, ...]
    """The folders that it may use, in none of which its parent may not. The toolkit's session has the same ones."""
    timeout: float
    """Seconds until it is cancelled."""
    depth: int
    """1 for a sub-agent of the main agent, 2 for one of that, and so on."""


Runner = Callable[[SubAgentTask], Awaitable[str | None]]
"""Runs a sub-agent to its end and returns its report; None: what it has passed to task_finish."""
