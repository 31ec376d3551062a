"""The tools with which a model uses its toolkit: it finds and calls other tools, and switches groups of tools.

Each acts on the toolkit as its caller sees it: with the caller's session, selection, audience and middleware.
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
from ahvn_tools.execution.plan import CompiledTool
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.settings import ToolOptions, validate_options
from ahvn_tools.sources import function as function_source
from ahvn_tools.spec import ToolSpec
from ahvn_tools.toolkit import calls
from ahvn_tools.toolkit.entry import DELEGATES, SWITCHES_GROUPS
from ahvn_tools.toolkit.entry_options import BASIC_GROUP
from ahvn_tools.toolkit.selection import Group
from ahvn_tools.toolkit.store import ToolStore


def search_tools(
    query: str, context: ToolContext, limit: Annotated[int, Field(ge=1, le=20)] = 5
) -> list[dict[str, Any]]:
    """Find tools that are not listed to you. Call a tool that you find with `call_tool`.

    Args:
        query: What the tool should do, in a few words.
        limit: The maximum number of tools to return.

    Returns:
        The best matching tools, each with its name, description and the JSON Schema of its arguments. If the list is
        empty, try other words.
    """
    view = require_toolkit(context)._view  # noqa: SLF001  # of this package
    found = view.search(query, limit + len(SEARCH_TOOLS), context.caller)
    matches = [view.definition(entry) for entry in found if entry.spec.function not in SEARCH_TOOLS][:limit]
    return [{"name": tool.name, "description": tool.description, "input_schema": tool.input_schema} for tool in matches]


async def call_tool(name: str, context: ToolContext, arguments: dict[str, Any] | None = None) -> ToolResult:
    """Call a tool that `search_tools` has found.

    Args:
        name: The name of the tool.
        arguments: The tool's arguments; they must match its input schema.
    """
    if name == context.tool:
        raise ToolError(f"{name!r} does not call itself: pass the name of the tool that you want.")
    from ahvn_tools.execution.call import CallScope

    view = require_toolkit(context)._view  # noqa: SLF001  # of this package
    questions: Any = context._links.asker  # noqa: SLF001  # of this package
    # the same id: an approval of this call answers the one that the model made
    options = calls.CallOptions(
        id=context.call_id,
        run_id=context.run_id,
        caller=context.caller,
        scope=CallScope(pause_outer=context._links.pause),  # noqa: SLF001  # of this package
        is_served=context.is_served,
        masks_errors=context.masks_errors,
        report=context.report_progress,
        question_approver=None if questions is None else questions.approver,
        answer_by=None if questions is None else questions.answer_by,
        approved_questions=() if questions is None else questions.approved,
    )
    return await calls.aexecute(view, name, arguments, options)


setattr(call_tool, DELEGATES, True)

SEARCH_TOOLS: Final = (search_tools, call_tool)
"""The functions with which a model finds and calls tools."""


def inner_call(call: ToolCall) -> ToolCall | None:
    """Return the call that a call of `call_tool` asks for, with the same id; None when its arguments are invalid."""
    name, arguments = call.arguments.get("name"), call.arguments.get("arguments") or {}
    try:
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return None
    if not (isinstance(name, str) and isinstance(arguments, dict)):
        return None
    return replace(call, name=name, arguments=arguments)


class GroupsTool(ToolSpec):
    """Switches the groups of a toolkit. Its parameters are the groups that exist when it is listed.

    A session or a selection leaves out those that are not in it: see `StoreView.compiled_tool`.
    """

    def __init__(self, store: ToolStore, options: ToolOptions) -> None:
        self._store, self._options = store, validate_options(options)
        self._cache: tuple[Mapping[str, Group], CompiledTool] | None = None
        super().__init__(*_to_template(store.groups, self._options))

    @property
    def compiled(self) -> CompiledTool:
        """The tool for the groups that exist now."""
        groups, cache = self._store.groups, self._cache
        if cache is None or cache[0] is not groups:  # the store replaces the mapping whenever groups change
            template, _ = _to_template(groups, self._options)
            cache = self._cache = groups, CompiledTool(template, template.bindings)
        return cache[1]

    @compiled.setter
    def compiled(self, compiled: CompiledTool) -> None:
        """Ignore the value: the tool is compiled from the groups."""

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuse to be pickled: it belongs to its toolkit."""
        raise PickleError(f"{self.name!r} switches the groups of its toolkit and cannot be pickled.")


def _to_template(groups: Mapping[str, Group], options: Mapping[str, Any]) -> Any:
    """Return the template of the tool for these groups, and its body, which works for any groups."""

    def set_groups(group_: ToolContext, **switches: bool) -> str:
        """Choose the groups of tools that you need now. Groups that you leave out are switched off."""
        toolkit = require_toolkit(group_)
        active = {_group_name(parameter): True for parameter, is_active in switches.items() if is_active}
        toolkit.set_groups({name: False for name in toolkit.groups if name != BASIC_GROUP} | active)
        return _active_groups_text(toolkit)

    setattr(set_groups, SWITCHES_GROUPS, True)
    kind = inspect.Parameter.KEYWORD_ONLY
    context = inspect.Parameter("group_", kind, annotation=ToolContext)  # no group is called so: names are not empty
    set_groups.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what inspect.signature reads first
        [context, *[_group_parameter(group, kind) for group in groups.values() if group.name != BASIC_GROUP]],
        return_annotation=str,
    )
    return function_source.build_template(set_groups, options)


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


def require_toolkit(context: ToolContext) -> Any:
    """Return the toolkit of a call. Raises ToolError for a tool that is called outside a toolkit."""
    if context.toolkit is None:
        raise ToolError(f"{context.tool or 'This tool'!r} works in a toolkit only.")
    return context.toolkit
