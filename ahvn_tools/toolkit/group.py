"""Group: a name, texts and a switch for several tools."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Group:
    """A group of tools that can be switched on and off."""

    name: str
    description: str = ""
    is_active: bool = False
    """Whether it is active where neither a session nor the toolkit has switched it."""
    notes: str | None = None
    """Notes for the model while the group is active."""
    is_defined: bool = False
    """Whether the host has defined it; otherwise it is only a label of its tools."""
    unique_id: int = 0
    """Distinguishes it from a removed group of the same name, whose switches do not apply to it."""
