"""ToolGroups: the groups of a toolkit, and their state."""

from __future__ import annotations

import logging
import threading
from dataclasses import asdict, dataclass
from typing import Any, Final

import ahvn_tools
from ahvn_tools.compat.agentscope.module import StateModule
from ahvn_tools.compat.agentscope.tool.response import ToolResponse, text_response

logger = logging.getLogger(__name__)

BASIC_GROUP: Final = "basic"

RESET_DESCRIPTION: Final = """\
Choose the groups of tools that you need now. Each call sets the state of all groups: a group that you do not set to \
true is switched off, even if it is active now. The answer has the notes about the active groups, which you must follow.

The active groups are named at the end of this text. If none is named, none is active."""


@dataclass(frozen=True)
class ToolGroup:
    """Several tools that are switched on and off together, as they are now; methods of the toolkit change it."""

    name: str

    active: bool

    description: str
    """What the group is for."""

    notes: str | None = None
    """How to use its tools, for a model while the group is active."""


class ToolGroups(StateModule):
    """Base class of Toolkit: groups that are switched on and off, with the notes of the active ones."""

    def __init__(self) -> None:
        super().__init__()
        self._kit = ahvn_tools.Toolkit("agentscope", mask_errors=False)
        self._lock = threading.RLock()
        """Held while tools are changed, and while groups are listed or changed."""

    @property
    def groups(self) -> dict[str, ToolGroup]:
        """The groups by name, without the basic one. It is a copy."""
        with self._lock:
            views = [self._kit.group(name) for name in self._kit.groups if name != BASIC_GROUP]
            return {view.name: ToolGroup(view.name, view.active, view.description, view.notes) for view in views}

    def create_tool_group(
        self, group_name: str, description: str, active: bool = False, notes: str | None = None
    ) -> None:
        """Define a group; `notes` are for a model while it is active. Raises ValueError for a name that is taken."""
        with self._lock:
            if group_name in self._kit.groups:
                raise ValueError(f"Tool group {group_name!r} is already registered in the toolkit.")
            self._kit.add_group(group_name, description, active=active, notes=notes)

    def update_tool_groups(self, group_names: str | list[str], active: bool) -> None:
        """Switch groups on or off. Unknown names are ignored, and the basic group stays active."""
        names = to_names("group_names", group_names)
        if BASIC_GROUP in names:
            logger.warning("The 'basic' tool group is always active, skipping it.")
        with self._lock:
            self._kit.set_groups({name: active for name in self.groups if name in names})

    def remove_tool_groups(self, group_names: str | list[str]) -> None:
        """Remove groups with their tools. Unknown names are ignored. Raises ValueError for the basic group."""
        names = to_names("group_names", group_names)
        if BASIC_GROUP in names:
            raise ValueError("Cannot remove the default 'basic' tool group.")
        with self._lock:
            for name in self.groups.keys() & names:
                self._kit.remove_group(name)

    def get_activated_notes(self) -> str:
        """Return the notes of the active groups, for a system prompt."""
        active = [group for group in self.groups.values() if group.active and group.notes]
        return "\n".join(f"## About Tool Group {group.name!r}\n{group.notes}" for group in active)

    get_tool_group_notes = get_activated_notes

    async def reset_equipped_tools(self, /, **groups: Any) -> ToolResponse:
        """Activate exactly those groups whose argument is true. Register this method to let a model do so.

        Invalid arguments change nothing; the response says what is wrong.
        """
        with self._lock:
            known = self.groups
            for name, active in groups.items():
                if name not in known:
                    return text_response(f"Invalid arguments: there is no tool group {name!r}.")
                if not isinstance(active, bool):
                    problem = f"the argument {name} should be a bool value, but got {type(active)}."
                    return text_response(f"Invalid arguments: {problem}")
            self._kit.set_groups({name: groups.get(name, False) for name in known})
        active_names = ", ".join(repr(name) for name in known if groups.get(name, False))
        if not active_names:
            return text_response("All tool groups are now deactivated currently.")
        notes = self.get_activated_notes()
        advice = f" You MUST follow these notes to use these tools:\n<notes>{notes}</notes>" if notes else ""
        return text_response(f"Now tool groups {active_names} are activated.{advice}")

    def state_dict(self) -> dict[str, Any]:
        """Return the active groups and all groups, as JSON data."""
        groups = list(self.groups.values())
        return {
            **super().state_dict(),
            "active_groups": [group.name for group in groups if group.active],
            "groups": [asdict(group) for group in groups],
        }

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Activate exactly the groups in `active_groups`; groups of the state that do not exist are defined.

        Functions cannot be loaded: register them. Raises ValueError for other data, and with `strict` for other keys.
        """
        from pydantic import TypeAdapter

        active = state_dict.get("active_groups") if isinstance(state_dict, dict) else None  # type: ignore[redundant-expr]  # it was saved elsewhere
        if not isinstance(active, list):
            raise ValueError(  # noqa: TRY004  # as callers expect
                "The state_dict for toolkit must be a dictionary with active_groups key and its value must be a list, "
                f"but got {type(state_dict)}."
            )
        expected = self.state_dict()
        if strict and (extra := state_dict.keys() - expected):
            raise ValueError(
                f"Get additional keys in the state_dict: {sorted(extra, key=repr)}. Expected: {list(expected)}."
            )
        groups = TypeAdapter(list[ToolGroup]).validate_python(state_dict.get("groups", []))
        if any(group.name in {"", BASIC_GROUP} for group in groups):
            raise ValueError(f"A group in the state_dict has no name, or that of the group {BASIC_GROUP!r}.")
        super().load_state_dict(state_dict, strict)
        with self._lock:
            known = {BASIC_GROUP, *self._kit.groups}
            for group in groups:
                if group.name not in known:
                    self._kit.add_group(group.name, group.description, notes=group.notes)
            self._kit.set_groups({name: name in active for name in self._kit.groups if name != BASIC_GROUP})

    def _require_group(self, name: str) -> None:
        if name not in self._kit.groups:
            raise ValueError(f"Tool group {name!r} not found.")


def to_names(parameter: str, names: Any) -> list[str]:
    """Return one name or a list of names as a list. Raises TypeError for anything else."""
    if not isinstance(names, str | list):
        raise TypeError(f"The {parameter} must be a list of strings, but got {type(names)}.")
    return [names] if isinstance(names, str) else names
