"""GroupView and ToolsetView: a group and a toolset as one toolkit, session or selection sees them."""

from __future__ import annotations

from ahvn_tools.spec import ToolSpec
from ahvn_tools.toolkit.tool import ToolkitTool
from ahvn_tools.toolkit.visibility import StoreView


class GroupView:
    """A group of tools. Each attribute is read when you ask for it; it raises ToolLookupError for a removed group."""

    __slots__ = ("_view", "name")

    def __init__(self, view: StoreView, name: str) -> None:
        """Raises ToolLookupError for a group that is not here."""
        self._view = view
        self.name = view.group(name).name

    @property
    def description(self) -> str:
        """What the group is for."""
        return self._view.group(self.name).description

    @property
    def notes(self) -> str | None:
        """The notes for a model while the group is active."""
        return self._view.group(self.name).notes

    @property
    def active(self) -> bool:
        """Whether the group is active here."""
        return self._view.is_active(self._view.group(self.name).name)

    @property
    def tools(self) -> list[ToolSpec]:
        """The tools of the group here, active or not. They can be called only while the group is active."""
        name = self._view.group(self.name).name
        return [ToolkitTool.create(self._view, entry) for entry in self._view.usable_entries() if entry.group == name]

    def __repr__(self) -> str:
        return f"<group {self.name!r} of {_count(self.tools)}, {'active' if self.active else 'inactive'}>"


class ToolsetView:
    """A toolset, a selection that was saved under a name. Each attribute is read when you ask for it."""

    __slots__ = ("_view", "name")

    def __init__(self, view: StoreView, name: str) -> None:
        """Raises ToolLookupError for an unknown toolset."""
        self._view = view
        self.name = view.store.toolset(name).name

    @property
    def description(self) -> str:
        """What the toolset is for."""
        return self._view.store.toolset(self.name).description

    @property
    def tools(self) -> list[ToolSpec]:
        """The tools here that are in the toolset, those of inactive groups among them."""
        selected = self._view.select(self._view.store.toolset(self.name).selection)
        entries = filter(self._view.is_selected, selected.usable_entries())  # a session may not be for its audience
        return [ToolkitTool.create(self._view, entry) for entry in entries]

    def __repr__(self) -> str:
        return f"<toolset {self.name!r} of {_count(self.tools)}>"


def _count(tools: list[ToolSpec]) -> str:
    return f"{len(tools)} tool{'' if len(tools) == 1 else 's'}"
