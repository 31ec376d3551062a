"""Group: tools that are switched on and off together."""

from __future__ import annotations

from dataclasses import dataclass

from ahvn_tools.errors import ToolkitError


@dataclass(frozen=True, kw_only=True)
class Group:
    """A group of tools that can be switched on and off."""

    name: str
    description: str = ""
    is_active: bool = False
    """Whether it is active where neither a session nor the toolkit has switched it."""
    notes: str | None = None
    """Notes for the model while the group is active."""
    unique_id: int = 0
    """Distinguishes it from a removed group of the same name, whose switches do not apply to it."""


def validate_is_active(group: str, is_active: bool) -> bool:
    """Return `is_active`. Raises ToolkitError when it is no bool."""
    if not isinstance(is_active, bool):
        raise ToolkitError(f"The group {group!r} is switched by True or False, not by {is_active!r}.")
    return is_active
