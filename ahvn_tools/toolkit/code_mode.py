"""CodeMode: the tools with which a model finds tools, reads how to call them, and runs a program that does."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from pydantic import Field

from ahvn_tools.code_mode.call_form import without_fence
from ahvn_tools.code_mode.code_limits import CodeLimits
from ahvn_tools.code_mode.identifiers import assign_identifiers
from ahvn_tools.code_mode.sandbox import Sandbox
from ahvn_tools.code_mode.stubs import Level, make_stubs
from ahvn_tools.context import ToolContext
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolError, ToolkitError, near_misses
from ahvn_tools.results import PROGRAMMATIC
from ahvn_tools.settings import ToolOptions
from ahvn_tools.spec import ToolSpec
from ahvn_tools.toolkit.entry import CODE_TOOL, FIND_SECRETS
from ahvn_tools.toolkit.model_tools import require_toolkit
from ahvn_tools.toolkit.program_run import (
    ProgramRun,
    callable_entries,
    may_pass_secrets,
    refuse_nested_programs,
)

if TYPE_CHECKING:
    from ahvn_tools.toolkit.visibility import StoreView

_OTHER_TOOLS: Final = 10
"""How many tools that no program can call a search may find at most."""

_MAX_ANSWER: Final = 40_000
"""How many characters of declarations one answer has at most."""

_MAX_INLINE: Final = 40_000
"""Above how many characters inline declarations have short descriptions of parameters, and then none at all."""

_MAX_NAMES: Final = 200
"""How many functions are described at a time."""


_FIND: Final = " Find them with"
"""How the sentence about the other two tools begins."""


class CodeMode:
    """The tools of one toolkit with which a model writes programs."""

    def __init__(self, sandbox: Sandbox, limits: CodeLimits, *, has_own_sandbox: bool) -> None:
        self._sandbox, self.limits, self.has_own_sandbox = sandbox, limits, has_own_sandbox
        self.options: dict[str, ToolOptions] = {}
        """Other names and texts of the tools, by the names of their functions."""

    @classmethod
    def create(cls, sandbox: Sandbox | None, limits: CodeLimits | None) -> Self:
        """Return the tools for a sandbox, by default Monty. Raises ToolkitError for what is none."""
        has_own_sandbox = sandbox is None
        if sandbox is None:
            from ahvn_tools.code_mode.monty import MontySandbox

            sandbox = MontySandbox()
        if isinstance(sandbox, type):
            raise ToolkitError(f"The sandbox {sandbox.__name__} is a class: pass an object of it.")
        if not isinstance(sandbox, Sandbox):
            raise ToolkitError(f"A sandbox has the methods of `ahvn_tools.code_mode.Sandbox`, unlike {sandbox!r}.")
        if not isinstance(limits, CodeLimits | None):
            raise ToolkitError(f"The limits of programs are CodeLimits, not {limits!r}.")
        return cls(sandbox, CodeLimits() if limits is None else limits, has_own_sandbox=has_own_sandbox)

    def specs(
        self, search_tool: ToolOptions | None, describe_tool: ToolOptions | None, run_tool: ToolOptions | None
    ) -> list[ToolSpec]:
        """Return the three tools, `run_code` last. Their texts have the names that the options give them."""
        tools: list[tuple[Callable[..., Any], Any]] = [
            (self.search_tools, search_tool or {}),
            (self.describe_tools, describe_tool or {}),
            (self.run_code, run_tool or {}),
        ]
        for option, (_, options) in zip(("search_tool", "describe_tool", "run_tool"), tools, strict=True):
            if not isinstance(options, dict):
                raise ToolkitError(f"The option `{option}` is a dict such as {{'name': …}}, not {options!r}.")
        names = {function.__name__: options.get("name") or function.__name__ for function, options in tools}
        specs = []
        self.options = {function.__name__: options for function, options in tools}
        for function, options in tools:
            spec = ToolSpec.from_function(function, **options)
            text = re.sub(r"`(\w+)`", lambda match: f"`{names.get(match[1], match[1])}`", spec.description)
            if "description" not in options and text != spec.description:
                spec = ToolSpec.from_function(function, **{**options, "description": text})
            specs.append(spec)
        return specs

    def inline(self, view: StoreView, definition: ToolDefinition) -> ToolDefinition:
        """Return the definition of `run_code` with the declarations of all functions in its description."""
        stubs = make_stubs(view.definition(entry) for entry in callable_entries(view)).values()
        declarations = "\n\n".join(stub.text("full") for stub in stubs)
        if len(declarations) > _MAX_INLINE:
            declarations = "\n\n".join(stub.text() for stub in stubs)
        if len(declarations) > _MAX_INLINE:
            declarations = "\n".join(stub.text(has_descriptions=False) for stub in stubs)
        description = definition.description
        if "description" not in self.options[CodeMode.run_code.__name__]:
            description = re.sub(rf"{_FIND}.*`\.", "", description)
        text = "\n\n".join([description, *(["Functions:", declarations] if stubs else ["There are no functions."])])
        inlined: ToolDefinition = definition.share(("inline", text), _with_description, text)
        return inlined

    def search_tools(self, query: str, context: ToolContext, limit: Annotated[int, Field(ge=1, le=50)] = 10) -> str:
        """Find functions for programs of `run_code`.

        Args:
            query: What they should do.
            limit: How many at most.

        Returns:
            The name and the first sentence of each.
        """
        view = _view(context)
        names = {entry.name for entry in callable_entries(view)}
        found = [entry.name for entry in view.search(query, limit + _OTHER_TOOLS, PROGRAMMATIC)]
        return _describe(view, [name for name in found if name in names][:limit], "brief")

    def describe_tools(self, names: list[str], context: ToolContext, level: Level = "typed") -> str:
        """Read the declarations of functions for programs of `run_code`.

        Args:
            names: Their names.
            level: `brief`: first sentences, `typed`: types and short descriptions, `full`: long descriptions, too.
        """
        if len(names) > _MAX_NAMES:
            raise ToolError(f"Name at most {_MAX_NAMES} functions at a time, not {len(names)}.")
        view = _view(context)
        functions = assign_identifiers(entry.name for entry in callable_entries(view))
        if functions and not names:
            raise ToolError(f"Name at least one function. {near_misses('', functions)}")
        tools = functions | {name: name for name in functions.values()}
        unknown = [name for name in dict.fromkeys(names) if name not in tools]
        notes = [f"There is no function {name!r}. {near_misses(name, functions)}".strip() for name in unknown]
        known = list(dict.fromkeys(tools[name] for name in names if name in tools))
        if notes and not known:
            raise ToolError("\n".join(notes))
        return "\n\n".join([_describe(view, known, level), *notes])

    async def run_code(self, code: str, context: ToolContext, dry_run: bool = False) -> Any:
        """Run a Python program that calls functions. Find them with `search_tools` and `describe_tools`.

        Functions need no import. Await calls, several at once with `asyncio.gather`. Results are plain values: read a
        key as `issue["title"]`. A call that fails raises RuntimeError. End with an expression: its value is the result.
        Printed text is returned, too.

        Programs lack files, network, sleep, `yield`, `del`, inheritance and `gather(return_exceptions=…)`. Generator
        expressions are lists. Imports: modules such as asyncio, collections, datetime, itertools, json, math and re.

        Args:
            code: The program.
            dry_run: Check the types only.
        """
        run = ProgramRun(self._sandbox, self.limits, _view(context), context)
        with refuse_nested_programs(self._sandbox):
            if (resumed := context._links.resumed_program) is not None:  # noqa: SLF001  # of this package
                return await run.resume(resumed)
            program = await run.check(without_fence(code))
            return "The types of the program fit. It was not run." if dry_run else await run.run(program)


for _tool in (CodeMode.search_tools, CodeMode.describe_tools, CodeMode.run_code):
    setattr(_tool, CODE_TOOL, True)


def _find_secrets(view: StoreView, arguments: dict[str, Any]) -> frozenset[str]:
    """Return the name of the argument that is the program, if the program may pass secrets."""
    entries = callable_entries(view)
    return frozenset(n for n, v in arguments.items() if isinstance(v, str) and may_pass_secrets(view, entries, v))


setattr(CodeMode.run_code, FIND_SECRETS, _find_secrets)


def is_code_tool(spec: ToolSpec) -> bool:
    """Return whether this is one of the tools with which a model writes programs."""
    return getattr(spec.function, CODE_TOOL, False) is True


def is_program_tool(spec: ToolSpec) -> bool:
    """Return whether this is the one of them that runs programs."""
    return getattr(spec.function, "__func__", None) is CodeMode.run_code


def _with_description(definition: ToolDefinition, text: str) -> ToolDefinition:
    return replace(definition, description=text)


def _view(context: ToolContext) -> StoreView:
    view: StoreView = require_toolkit(context)._view  # noqa: SLF001  # of this package
    return view


def _describe(view: StoreView, names: Sequence[str], level: Level) -> str:
    entries = callable_entries(view)
    if not entries:
        return "There are no functions."
    stubs = {stub.tool: stub for stub in make_stubs(view.definition(entry) for entry in entries).values()}
    texts: list[str] = []
    length = 0
    for name in names:
        text = stubs[name].text(level)
        if texts and length + len(text) > _MAX_ANSWER:
            break
        texts.append(text if len(text) <= _MAX_ANSWER else f"{text[:_MAX_ANSWER]}… (cut)")
        length += len(text)
    if not texts:
        return f"None of {len(entries)} functions was found. Try other words."
    count = f"{len(texts)} of {len(entries)} functions:"
    if left := [stubs[name].function for name in names[len(texts) :]]:
        texts.append(f"The answer would be too long. {len(left)} functions are left out: {', '.join(left)}.")
    return "\n\n".join([count, "\n".join(texts)] if level == "brief" else [count, *texts])
