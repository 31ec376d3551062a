"""SubAgentRequest: what a model asks of one sub-agent."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


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
