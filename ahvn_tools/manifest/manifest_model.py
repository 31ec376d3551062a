"""ManifestModel: the base of the parts of a manifest, and the types of their fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator

from ahvn_tools.toolkit.entry_options import Caller


class ManifestModel(BaseModel):
    """A part of a manifest. Its text contains no value: one may be from the environment."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _remember_keys(cls, value: Any, info: ValidationInfo) -> Any:
        """Tell the context which keys a mapping may have, for the error about another one."""
        if isinstance(value, Mapping) and info.context is not None:
            info.context[id(value)] = list(cls.model_fields)
        return value

    def __repr_args__(self) -> list[tuple[str, Any]]:
        return []

    def fields_set(self, *names: str) -> dict[str, Any]:
        """Return those of these fields that the manifest has."""
        return {name: getattr(self, name) for name in names if name in self.model_fields_set}


def _to_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(_to_list, json_schema_input_type=str | list[str])]
"""Names, or patterns of names; one may be written without a list."""

Callers = Annotated[list[Caller], BeforeValidator(_to_list, json_schema_input_type=Caller | list[Caller])]
"""Who may call tools for a model; one may be written without a list."""

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]

Values = dict[str, Any]
"""Parameter -> value."""

ValuesByTool = dict[str, Values]
"""Tool, or pattern of names -> parameter -> value."""
