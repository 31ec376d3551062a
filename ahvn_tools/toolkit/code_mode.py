"""CodeMode: the tools with which a model finds tools, reads how to call them, and runs a program that does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from pydantic import Field

from ahvn_tools.code_mode.identifiers import assign_identifiers
from ahvn_tools.code_mode.limits import CodeLimits
from ahvn_tools.code_mode.sandbox import Sandbox
from ahvn_tools.code_mode.stubs import Level, make_stubs
from ahvn_tools.context import ToolContext
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolError, ToolkitError
from ahvn_tools.spec import ToolSpec
from ahvn_tools.toolkit.model_tools import require_toolkit
from ahvn_tools.toolkit.program_run import CODE_TOOL, ProgramRun, callable_entries

if TYPE_CHECKING:
    from ahvn_tools.toolkit.visibility import StoreView

_OTHER_TOOLS: Final = 10
"""How many tools that no program can call a search may find at most."""


_INLINE_TEXT: Final = """\
Run a Python program that calls functions, and read the value of its last expression.

Await the calls; use `asyncio.gather` to run several at once. A program without `await` may call functions directly, \
one after the other. A call that fails raises RuntimeError. What the program prints is returned, too. The program has \
no files, no network and no environment. These are the functions:"""


class CodeMode:
    """The tools of one toolkit with which a model writes programs."""

    def __init__(self, sandbox: Sandbox, limits: CodeLimits) -> None:
        self._sandbox, self._limits = sandbox, limits

    @classmethod
    def create(cls, sandbox: Sandbox | None, limits: CodeLimits | None) -> Self:
        """Return the tools for a sandbox, by default Monty. Raises ToolkitError for what is none."""
        if sandbox is None:
            from ahvn_tools.code_mode.monty import MontySandbox

            sandbox = MontySandbox()
        if not isinstance(sandbox, Sandbox):
            raise ToolkitError(f"A sandbox has the methods of `ahvn_tools.code_mode.Sandbox`, unlike {sandbox!r}.")
        if not isinstance(limits, CodeLimits | None):
            raise ToolkitError(f"The limits of programs are CodeLimits, not {limits!r}.")
        return cls(sandbox, CodeLimits() if limits is None else limits)

    def inline(self, view: StoreView, definition: ToolDefinition) -> ToolDefinition:
        """Return the definition of `run_code` with the declarations of all functions in its description."""
        stubs = make_stubs(view.definition(entry) for entry in callable_entries(view)).values()
        text = "\n\n".join([_INLINE_TEXT, *[stub.text() for stub in stubs]])
        inlined: ToolDefinition = definition.share(("inline", text), _with_description, text)
        return inlined

    def search_tools(self, query: str, context: ToolContext, limit: Annotated[int, Field(ge=1, le=50)] = 10) -> str:
        """Find functions that a program for `run_code` can call.

        Args:
            query: What the function should do, in a few words.
            limit: The maximum number of functions to return.

        Returns:
            The name and the first sentence of each. If there is none, try other words.
        """
        view = _view(context)
        names = {entry.name for entry in callable_entries(view)}
        found = [spec.name for spec in require_toolkit(context).search(query, limit + _OTHER_TOOLS)]
        return _describe(view, [name for name in found if name in names][:limit], "brief")

    def describe_tools(self, names: list[str], context: ToolContext, level: Level = "full") -> str:
        """Read how to call functions in a program for `run_code`.

        Args:
            names: The names of functions, as `search_tools` returns them.
            level: `brief` is the first sentence of each, `typed` its parameters and types, `full` all of its text.
        """
        view = _view(context)
        functions = assign_identifiers(entry.name for entry in callable_entries(view))
        known = {*functions, *functions.values()}
        if unknown := [name for name in names if name not in known]:
            raise ToolError(f"There is no function {unknown[0]!r}. Find functions with `search_tools`.")
        return _describe(view, [functions.get(name, name) for name in names], level)

    async def run_code(self, code: str, context: ToolContext, dry_run: bool = False) -> Any:
        """Run a Python program that calls functions, and read the value of its last expression.

        Find functions with `search_tools`, and read with `describe_tools` how to call them. Await the calls; use
        `asyncio.gather` to run several at once. A program without `await` may call functions directly, one after the
        other. A call that fails raises RuntimeError. What the program prints is returned, too. The program has no
        files, no network and no environment.

        Args:
            code: The program.
            dry_run: Check the types of the program, and do not run it.
        """
        run = ProgramRun(self._sandbox, self._limits, _view(context), context)
        if (resumed := context._resumed_program) is not None:  # noqa: SLF001  # of this package
            return await run.resume(resumed)
        program = await run.check(code)
        return "The types of the program fit. It was not run." if dry_run else await run.run(program)


for _tool in (CodeMode.search_tools, CodeMode.describe_tools, CodeMode.run_code):
    setattr(_tool, CODE_TOOL, True)


def is_code_tool(spec: ToolSpec) -> bool:
    """Return whether this is one of the tools with which a model writes programs."""
    return getattr(spec.function, CODE_TOOL, False) is True


def _with_description(definition: ToolDefinition, text: str) -> ToolDefinition:
    return replace(definition, description=text)


def _view(context: ToolContext) -> StoreView:
    view: StoreView = require_toolkit(context)._view  # noqa: SLF001  # of this package
    return view


def _describe(view: StoreView, names: Sequence[str], level: Level) -> str:
    entries = callable_entries(view)
    stubs = {stub.tool: stub for stub in make_stubs(view.definition(entry) for entry in entries).values()}
    count = f"{len(names)} of {len(entries)} functions:" if names else f"None of {len(entries)} functions was found."
    return "\n\n".join([count, *[stubs[name].text(level) for name in names]])
