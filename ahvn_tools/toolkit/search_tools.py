"""Meta tools: for a model to find tools and call them, and to switch groups of tools on and off.

Each acts on the toolkit as its caller sees it: the session, the selection and the audience, the middleware.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Final, NoReturn

from pydantic import Field

from ahvn_tools.context import ToolContext
from ahvn_tools.errors import PickleError, ToolError
from ahvn_tools.execution.compiled import CompiledTool
from ahvn_tools.execution.scope import CallScope
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.sources import function as function_source
from ahvn_tools.spec import ToolSpec
from ahvn_tools.toolkit import calls
from ahvn_tools.toolkit.entry import BASIC_GROUP, DELEGATES
from ahvn_tools.toolkit.store import Group, ToolStore

JsonObject = dict[str, Any]


def search_tools(
    query: str, context: ToolContext, limit: Annotated[int, Field(ge=1, le=20)] = 5
) -> list[dict[str, Any]]:
    """Find tools that are not listed to you. Call what you find with `call_tool`.

    Args:
        query: What the tool should do, in a few words.
        limit: How many tools to return at most.

    Returns:
        The tools that fit best, each with name, description and the JSON Schema of its arguments; none: try other
        words.
    """
    found = _require_toolkit(context).search(query, limit + len(SEARCH_TOOLS))
    shown = [spec.definition for spec in found if spec.function not in SEARCH_TOOLS][:limit]
    return [{"name": tool.name, "description": tool.description, "input_schema": tool.input_schema} for tool in shown]


async def call_tool(name: str, context: ToolContext, arguments: dict[str, Any] | None = None) -> ToolResult:
    """Call a tool that `search_tools` has found.

    Args:
        name: The name of the tool.
        arguments: Its arguments, as its input schema says.
    """
    if name == context.tool:
        raise ToolError(f"{name!r} does not call itself: give the name of the tool that you want.")
    view = _require_toolkit(context)._view  # noqa: SLF001  # of its own kin
    # the same id: who approves the call answers the one that the model made
    terms = calls.CallOptions(
        id=context.call_id,
        run_id=context.run_id,
        scope=CallScope(),
        is_served=context.is_served,
        shows_errors=context.shows_errors,
        report=context.report_progress,
    )
    return await calls.aexecute(view, name, arguments, terms)


setattr(call_tool, DELEGATES, True)

SEARCH_TOOLS: Final = (search_tools, call_tool)
"""What a model finds and calls tools with."""


def inner_call(call: ToolCall) -> ToolCall | None:
    """Return the call that a call of `call_tool` is about, under the id of the latter; None where it names none."""
    name, given = call.arguments.get("name"), call.arguments.get("arguments") or {}
    try:
        arguments = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        return None
    if not (isinstance(name, str) and isinstance(arguments, dict)):
        return None
    return replace(call, name=name, arguments=arguments)


def _require_toolkit(context: ToolContext) -> Any:
    if context.toolkit is None:
        raise ToolError(f"{context.tool or 'This tool'!r} works in a toolkit only.")
    return context.toolkit


class GroupsTool(ToolSpec):
    """Switches the groups of a toolkit. What a model is shown follows the groups that there are now."""

    def __init__(self, store: ToolStore) -> None:
        """Take the catalog whose groups are shown."""
        self._store = store
        self._cache: tuple[Mapping[str, Group], CompiledTool] | None = None
        super().__init__(*_to_template(store.groups))

    @property
    def _compiled(self) -> CompiledTool:
        groups, kept = self._store.groups, self._cache
        if kept is None or kept[0] is not groups:  # the catalog's groups are another mapping whenever they change
            recipe, _ = _to_template(groups)
            kept = self._cache = groups, CompiledTool(recipe, recipe.bindings)
        return kept[1]

    @_compiled.setter
    def _compiled(self, compiled: CompiledTool) -> None:
        """Leave it: it is made of the groups whenever they have changed."""

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuse to be pickled: it belongs to its toolkit."""
        raise PickleError(f"{self.name!r} switches the groups of its toolkit and cannot be pickled.")


def _to_template(groups: Mapping[str, Group]) -> Any:
    """Return the recipe of the tool for these groups, and its body, which does the same for any."""

    def set_groups(group_: ToolContext, **switched: bool) -> str:
        """Choose the groups of tools that you need now. Groups that you leave out are switched off."""
        toolkit = _require_toolkit(group_)
        wanted = {_group_name(parameter): is_active for parameter, is_active in switched.items()}
        toolkit.set_groups({name: False for name in toolkit.groups if name != BASIC_GROUP} | wanted)
        return _active_groups_text(toolkit)

    kind = inspect.Parameter.KEYWORD_ONLY
    asked = inspect.Parameter("group_", kind, annotation=ToolContext)  # no group is called so: they have names
    set_groups.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what inspect.signature reads first
        [asked, *[_group_parameter(group, kind) for group in groups.values() if not group.is_basic]],
        return_annotation=str,
    )
    return function_source.build_template(set_groups, {})


def _group_parameter(group: Group, kind: Any) -> inspect.Parameter:
    """Return the parameter that switches a group. It is called by the group's name, whatever that holds, in hex."""
    said = Field(alias=group.name, description=group.description or None, strict=True)
    name = f"group_{group.name.encode('utf-8', 'surrogatepass').hex()}"
    return inspect.Parameter(name, kind, default=False, annotation=Annotated[bool, said])


def _group_name(parameter: str) -> str:
    return bytes.fromhex(parameter.removeprefix("group_")).decode("utf-8", "surrogatepass")


def _active_groups_text(toolkit: Any) -> str:
    active = [name for name, is_active in toolkit.groups.items() if is_active and name != BASIC_GROUP]
    told = f"Active groups: {', '.join(active)}." if active else "No group is active."
    return f"{told}\n\n{toolkit.notes}" if toolkit.notes else told
