"""GroupsTool: the tool with which a model switches groups of tools on and off."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Annotated, Any, NoReturn

from pydantic import Field

from ahvn_tools.context import ToolContext
from ahvn_tools.errors import PickleError
from ahvn_tools.execution.compiled import CompiledTool
from ahvn_tools.sources import function as function_source
from ahvn_tools.spec import ToolSpec
from ahvn_tools.toolkit.entry_options import BASIC_GROUP
from ahvn_tools.toolkit.groups import Group
from ahvn_tools.toolkit.search_tools import require_toolkit
from ahvn_tools.toolkit.store import ToolStore


class GroupsTool(ToolSpec):
    """Switches the groups of a toolkit. Its parameters are the groups that exist when it is listed."""

    def __init__(self, store: ToolStore) -> None:
        self._store = store
        self._cache: tuple[Mapping[str, Group], CompiledTool] | None = None
        super().__init__(*_to_template(store.groups))

    @property
    def compiled(self) -> CompiledTool:
        """The tool for the groups that exist now."""
        groups, cache = self._store.groups, self._cache
        if cache is None or cache[0] is not groups:  # the store replaces the mapping whenever groups change
            template, _ = _to_template(groups)
            cache = self._cache = groups, CompiledTool(template, template.bindings)
        return cache[1]

    @compiled.setter
    def compiled(self, compiled: CompiledTool) -> None:
        """Ignore the value: the tool is compiled from the groups."""

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuse to be pickled: it belongs to its toolkit."""
        raise PickleError(f"{self.name!r} switches the groups of its toolkit and cannot be pickled.")


def _to_template(groups: Mapping[str, Group]) -> Any:
    """Return the template of the tool for these groups, and its body, which works for any groups."""

    def set_groups(group_: ToolContext, **switches: bool) -> str:
        """Choose the groups of tools that you need now. Groups that you leave out are switched off."""
        toolkit = require_toolkit(group_)
        active = {_group_name(parameter): is_active for parameter, is_active in switches.items()}
        toolkit.set_groups({name: False for name in toolkit.groups if name != BASIC_GROUP} | active)
        return _active_groups_text(toolkit)

    kind = inspect.Parameter.KEYWORD_ONLY
    context = inspect.Parameter("group_", kind, annotation=ToolContext)  # no group is called so: names are not empty
    set_groups.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what inspect.signature reads first
        [context, *[_group_parameter(group, kind) for group in groups.values() if group.name != BASIC_GROUP]],
        return_annotation=str,
    )
    return function_source.build_template(set_groups, {})


def _group_parameter(group: Group, kind: Any) -> inspect.Parameter:
    """Return the parameter that switches a group. Its name contains the group's in hex, which may be any text."""
    field = Field(alias=group.name, description=group.description or None, strict=True)
    name = f"group_{group.name.encode('utf-8', 'surrogatepass').hex()}"
    return inspect.Parameter(name, kind, default=False, annotation=Annotated[bool, field])


def _group_name(parameter: str) -> str:
    return bytes.fromhex(parameter.removeprefix("group_")).decode("utf-8", "surrogatepass")


def _active_groups_text(toolkit: Any) -> str:
    active = [name for name, is_active in toolkit.groups.items() if is_active and name != BASIC_GROUP]
    summary = f"Active groups: {', '.join(active)}." if active else "No group is active."
    return f"{summary}\n\n{toolkit.notes}" if toolkit.notes else summary
