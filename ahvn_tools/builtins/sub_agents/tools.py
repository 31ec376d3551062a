"""SubAgents: tools with which a model runs other agents, and by which these report."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from ahvn_tools.builtins.sub_agents.group import Runner, SubAgentGroup, SubAgentRequest, SubAgentTask, join
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import DefinitionError, ToolError, near_misses, suggests_options
from ahvn_tools.registry import ToolRegistry, reg_toolspec
from ahvn_tools.roots import resolve_path, to_local_path
from ahvn_tools.toolkit import Toolkit

MAX_AGENTS: Final = 16
"""How many sub-agents one call may start."""

_FINISH = "task_finish"


@dataclass(kw_only=True, slots=True)
class _SubAgent:
    """A sub-agent that runs."""

    group: SubAgentGroup
    depth: int
    report: str | None = None
    """What it has passed to task_finish."""


class SubAgents(ToolRegistry):
    """Tools with which a model runs other agents on parts of its task, and by which these report.

    Add them with `add_to`, so that only sub-agents see task_finish.

    >>> from ahvn_tools import Toolkit
    >>> from ahvn_tools.builtins import SubAgents, SubAgentTask
    >>> async def run_agent(task: SubAgentTask) -> str:
    ...     return f"I was asked: {task.prompt}"
    >>> kit = Toolkit("agent")
    >>> agents = SubAgents(run_agent, kit, models={"small": "cheap and fast"}).add_to(kit)
    >>> print(kit.call("self_fork", {"context_summary": "", "sub_agents": [{"prompt": "Count the files."}]}))
    ### Sub-agent 'agent-1' Finished:
    I was asked: Count the files.
    """

    @suggests_options
    def __init__(
        self,
        runner: Runner | None,
        toolkit: Toolkit,
        *,
        models: Mapping[str, str] | Sequence[str] = (),
        audience: str = "sub",
        timeout: float = 600.0,
        max_parallel: int = 4,
        max_depth: int = 1,
        max_report_chars: int = 20_000,
        relative_to: str | PathLike[str] | None = None,
    ) -> None:
        """Raise DefinitionError for an option that is wrong.

        - `runner`: runs one sub-agent: an async function of a SubAgentTask that returns its report. Without one,
          self_fork is an error, and task_finish ends any session: for a host that runs sub-agents in another way, and
          finds the report in the arguments of the call.
        - `toolkit`: has the tools of which each sub-agent gets those for `audience` that its parent has by the same
          name.
        - `models`: the names of models, perhaps with a label for each.
        - `audience`: that of sub-agents.
        - `timeout`: how many seconds a sub-agent may take.
        - `max_parallel`: how many of one call run at once.
        - `max_depth`: how deep sub-agents may start others: 1 means that they may not.
        - `max_report_chars`: the longest report.
        - `relative_to`: the folder in which relative folders of a sub-agent begin, by default the first one of its
          parent.
        """
        if runner is not None and not callable(runner):
            raise DefinitionError("`runner` is an async function that takes a SubAgentTask and returns a report.")
        if timeout <= 0 or max_parallel < 1 or max_depth < 1 or max_report_chars < 1:
            raise DefinitionError("`timeout`, `max_parallel`, `max_depth` and `max_report_chars` are more than 0.")
        self.models = dict(models) if isinstance(models, Mapping) else dict.fromkeys(models, "")
        self._runner = runner
        self._toolkit = toolkit
        self._audience = audience
        self._timeout = timeout
        self._max_parallel = max_parallel
        self._max_depth = max_depth
        self._max_report_chars = max_report_chars
        self._relative_to = relative_to
        self._sub_agents: dict[str, _SubAgent] = {}
        self._finish_names = {_FINISH}

    def add_to(self, toolkit: Toolkit, **options: Any) -> SubAgents:
        """Add the tools to a toolkit, task_finish for the audience of the sub-agents alone, and return self.

        `options` are those of `Toolkit.add`.
        """
        specs = self.to_toolspecs()
        finish = specs.pop(_FINISH)
        toolkit.add(*specs.values(), **options)
        others = {spec.name for spec in toolkit}
        toolkit.add(finish, **{**options, "audience": self._audience})
        self._finish_names |= {spec.name for spec in toolkit} - others  # with a prefix, for example
        return self

    @property
    def running(self) -> list[str]:
        """The ids of the sub-agents that run."""
        return list(self._sub_agents)

    def cancel(self, id: str) -> bool:  # noqa: A002  # the word for it
        """Cancel a sub-agent, from any thread; its parent reads that it was cancelled. Return whether it runs."""
        sub_agent = self._sub_agents.get(id)
        if sub_agent is None:
            return False
        sub_agent.group.cancel(id)
        return True

    @reg_toolspec(tags={"agents"}, annotations={"destructiveHint": True, "openWorldHint": True})
    async def self_fork(
        self,
        context_summary: str,
        sub_agents: Annotated[list[SubAgentRequest], Field(min_length=1, max_length=MAX_AGENTS)],
        context: ToolContext,
    ) -> str:
        """Run sub-agents on parts of your task, at once, and wait for their reports.

        Args:
            context_summary: What the sub-agents should know about the whole task.
            sub_agents: The sub-agents, each with its task.

        Returns:
            The report of each sub-agent, or why it has none.
        """
        if self._runner is None:
            raise ToolError(
                "This program cannot run sub-agents. Do the task yourself.",
                explanation="Pass a runner: an async function that runs one sub-agent.",
            )
        tasks = self._to_tasks(context_summary, sub_agents, context)
        masks_errors = context._masks_errors  # noqa: SLF001  # of this package
        group = SubAgentGroup(self._runner, tasks, self._submitted, masks_errors=masks_errors)
        for task in tasks:
            self._sub_agents[task.id] = _SubAgent(group=group, depth=task.depth)
        try:
            reports = await group.run(
                self._max_parallel, lambda done: context.report_progress(done, len(tasks), "sub-agents ended")
            )
        finally:
            for task in tasks:
                del self._sub_agents[task.id]
        return join(reports, self._max_report_chars)

    @reg_toolspec(tags={"agents"}, annotations={"readOnlyHint": True})
    def get_available_models(self) -> str:
        """List the models that sub-agents can use, one in a line, with a label if it has one."""
        lines = [f"{name}: {label}" if label else name for name, label in self.models.items()]
        return "\n".join(lines) or "No models configured."

    @reg_toolspec(tags={"agents"}, annotations={"destructiveHint": False})
    def task_finish(self, context_summary: str, context: ToolContext) -> str:
        """Finish your task: report to the agent that started you, and end your session.

        Args:
            context_summary: Your report: what you did and found.
        """
        sub_agent = self._sub_agents.get(context.session_id or "")
        if sub_agent is not None:
            sub_agent.report = context_summary
        elif self._runner is not None:
            raise ToolError("Only a sub-agent can finish its task with this tool. Answer in a message.")
        context.end_session()
        return "Task Finished. Report submitted."

    def _submitted(self, id: str) -> str | None:  # noqa: A002  # the word for it
        return self._sub_agents[id].report

    def _to_tasks(
        self, context_summary: str, requests: Sequence[SubAgentRequest], context: ToolContext
    ) -> list[SubAgentTask]:
        """Return the tasks of the sub-agents. Raises ToolError for what the parent may not do or pass on."""
        parent = self._sub_agents.get(context.session_id or "")
        depth = 1 if parent is None else parent.depth + 1
        if depth > self._max_depth:
            raise ToolError("A sub-agent cannot start others here. Do the task yourself.")
        names = _unique_names(requests)
        return [
            self._to_task(context_summary, request, name, depth, context)
            for request, name in zip(requests, names, strict=True)
        ]

    def _to_task(
        self, context_summary: str, request: SubAgentRequest, name: str, depth: int, context: ToolContext
    ) -> SubAgentTask:
        if request.model is not None and request.model not in self.models:
            raise ToolError(f"There is no model {request.model!r}. {near_misses(request.model, self.models)}")
        roots = self._narrow_roots(request.allowed_uris, context.roots)
        id = uuid.uuid4().hex  # noqa: A001  # the word for it
        return SubAgentTask(
            id=id,
            name=name,
            prompt=request.prompt,
            context_summary=context_summary,
            model=request.model,
            toolkit=self._open_toolkit(id, roots, context),
            roots=roots,
            timeout=min(self._timeout, request.timeout or self._timeout),
            depth=depth,
        )

    def _open_toolkit(self, id: str, roots: tuple[Path, ...], context: ToolContext) -> Toolkit:  # noqa: A002
        """Return the tools of a sub-agent: those for its audience that its parent has, too, and task_finish."""
        tools = self._toolkit if context.toolkit is None else context.toolkit
        names = {spec.name for spec in tools} | self._finish_names
        selected = self._toolkit.select(audience=self._audience, where=lambda definition: definition.name in names)
        own_roots = () if context.forbids_files else roots or None
        return selected.session().session(dict(context.state), session_id=id, roots=own_roots)  # nobody shares it

    def _narrow_roots(self, uris: Sequence[str] | None, roots: tuple[Path, ...]) -> tuple[Path, ...]:
        """Return the folders of a sub-agent. Raises ToolError for one that its parent may not use."""
        if uris is None:
            return roots
        folders = tuple(resolve_path(self._join(uri), roots) for uri in uris)
        for uri, folder in zip(uris, folders, strict=True):
            if not folder.is_dir():
                raise ToolError(f"There is no folder {uri!r} in `allowed_uris`. Pass folders that exist.")
        return folders

    def _join(self, uri: str) -> str:
        """Return the path of a URI: absolute, or relative to the first folder of the parent."""
        path = to_local_path(uri)
        return path if self._relative_to is None else str(Path(self._relative_to).absolute() / path)


def _unique_names(requests: Sequence[SubAgentRequest]) -> list[str]:
    """Return a name for each sub-agent: its own or `agent-1`, with a number if another one has it."""
    names: list[str] = []
    for number, request in enumerate(requests, start=1):
        name = request.name or f"agent-{number}"
        names.append(name if name not in names else f"{name} ({number})")
    return names
