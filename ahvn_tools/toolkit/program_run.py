"""ProgramRun: one program of a model, whose calls are calls in the toolkit of its caller."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ahvn_tools.code_mode.call_form import CallForm
from ahvn_tools.code_mode.contents import Contents
from ahvn_tools.code_mode.identifiers import assign_identifiers
from ahvn_tools.code_mode.limits import CodeLimits
from ahvn_tools.code_mode.program_state import ProgramCall, ProgramState
from ahvn_tools.code_mode.running_program import RunningProgram, Suspended
from ahvn_tools.code_mode.sandbox import Answer, Event, Failure, Program, ProgramError, Sandbox, SandboxSession, Value
from ahvn_tools.code_mode.saved_program import ResumedProgram, SavedProgram
from ahvn_tools.code_mode.stubs import HEADER, ToolStub
from ahvn_tools.code_mode.values import to_json
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError, near_misses
from ahvn_tools.execution.scope import CallScope
from ahvn_tools.middleware.approve import ApprovalRequest, pending_result
from ahvn_tools.results import ToolResult, text_block, to_text
from ahvn_tools.toolkit import calls
from ahvn_tools.toolkit.entry import Entry

if TYPE_CHECKING:
    from ahvn_tools.toolkit.visibility import StoreView

CODE_TOOL: Final = "is_code_tool"
"""The attribute of functions that no program may call."""

_UNKNOWN_NAME: Final = re.compile(r"Name `(\w+)` used when not defined")

_CANNOT_WAIT: Final = (
    "This call needs an approval, and the program cannot wait for one, because it has passed a secret argument. Call "
    "the tool without a program, or pass no secret argument before."
)

_MAX_CHECKED: Final = 200
"""Up to how many tools all of them are declared to the type checker, which then stays warm for all programs."""


def callable_entries(view: StoreView) -> list[Entry]:
    """Return the tools that a program can call: all visible ones, except for those that call other tools."""
    return [
        entry
        for entry in view.visible_entries()
        if not entry.delegates and not getattr(entry.spec.function, CODE_TOOL, False)
    ]


class ProgramRun:
    """One program of a model, whose calls are calls in the toolkit of its caller."""

    def __init__(self, sandbox: Sandbox, limits: CodeLimits, view: StoreView, context: ToolContext) -> None:
        self._sandbox, self._limits, self._view, self._context = sandbox, limits, view, context
        self._entries = {entry.name: entry for entry in callable_entries(view)}
        self._functions = assign_identifiers(self._entries)
        self._resumed: ResumedProgram | None = None
        self._asked_number: int | None = None
        self._code = ""
        self._has_secrets = False
        """Whether the program has passed a secret argument, so that it must not be stored."""
        self._contents = Contents({})

    async def check(self, code: str) -> Program:
        """Return the program, if its types fit. Raises ToolError with what is wrong."""
        if len(code) > self._limits.code_chars:
            raise ToolError(f"The program is too long: it has {len(code):,} of {self._limits.code_chars:,} characters.")
        form = CallForm.of(code)
        declared = [name for name in self._functions if len(self._functions) <= _MAX_CHECKED or name in form.names]
        stubs = [self._stub(name).text("typed", awaits=form.awaits) for name in declared]
        program = Program(
            code=code,
            stubs="\n".join([HEADER, *stubs]),
            functions=self._functions.keys(),
            limits=self._limits,
            awaits=form.awaits,
        )
        try:
            await self._sandbox.check(program)
        except ProgramError as error:
            raise ToolError(self._with_similar_names(str(error))) from None
        return program

    def _with_similar_names(self, message: str) -> str:
        """Return a message of the type checker with functions whose names are similar to those that are unknown."""
        unknown = dict.fromkeys(_UNKNOWN_NAME.findall(message))
        hints = [f"{name}: {near_misses(name, self._functions)}" for name in unknown]
        return "\n".join([message, *hints])

    async def run(self, program: Program) -> Any:
        """Run a program, and return its result. Raises ToolError if it fails."""
        self._code, state = program.code, ProgramState(awaits=program.awaits)
        return await self._drive(state, lambda session, write: session.start(program, write), {})

    async def resume(self, resumed: ResumedProgram) -> Any:
        """Continue a program after a person's decision, and return its result. Raises ToolError if it fails."""
        saved = resumed.program
        if saved.sandbox != self._sandbox.version:
            raise ToolError(
                f"The program was stopped in {saved.sandbox!r} and cannot continue in {self._sandbox.version!r}. "
                "Run it again."
            )
        self._functions = {**self._functions, **saved.functions}
        self._resumed, self._asked_number, self._code = resumed, saved.asked_call.number, saved.code
        answers: dict[int, Answer] = {}
        if resumed.rejection is not None:
            answers[saved.asked] = Failure(resumed.rejection)
        else:
            saved.state.waiting[saved.asked] = replace(saved.asked_call, arguments=resumed.arguments)
        functions = self._functions.keys()
        return await self._drive(
            saved.state, lambda session, write: session.restore(saved.snapshot, functions, write), answers
        )

    async def _drive(
        self,
        state: ProgramState,
        start: Callable[[SandboxSession, Callable[[str], None]], Awaitable[Event]],
        answers: Mapping[int, Answer],
    ) -> Any:
        self._contents = Contents(state.contents)
        async with self._sandbox.open(self._limits) as session:
            running = RunningProgram(
                session,
                state,
                self._find_stub,
                self._run_call,
                limits=self._limits,
                max_concurrency=self._view.store.max_concurrency,
            )
            try:
                end = await running.run(await start(session, running.write), answers)
                if isinstance(end, Suspended):
                    return self._pending_result(end, state, await session.snapshot())
                value = to_json(end.value)
            except ProgramError as error:
                raise ToolError(f"{error}\n\nPrinted:\n{state.output}" if state.output else str(error)) from None
        return _to_result(value, state, self._contents.find(value))

    def _pending_result(self, end: Suspended, state: ProgramState, snapshot: bytes) -> ToolResult:
        """Return the result of a program that waits: the request for the first of its calls that nobody answers."""
        asked, request = next(iter(end.unanswered.items()))
        program = SavedProgram(
            call_id=self._context.call_id or "",
            tool=self._context.tool or "",
            code=self._code,
            sandbox=self._sandbox.version,
            snapshot=snapshot,
            state=state,
            functions={name: tool for name, tool in self._functions.items() if name != tool},
            asked=asked,
        )
        signed = replace(request, program=program.to_json()).signed_by(self._view.store.secret_key)
        return replace(pending_result(signed), id=self._context.call_id)

    def _find_stub(self, function: str) -> ToolStub | None:
        return self._stub(function) if self._functions.get(function) in self._entries else None

    def _stub(self, function: str) -> ToolStub:
        return ToolStub.of(self._view.definition(self._entries[self._functions[function]]), function)

    async def _run_call(self, call: ProgramCall) -> Answer | ApprovalRequest:
        plan = self._view.compiled_tool(self._entries[call.tool]).plan if call.tool in self._entries else None
        self._has_secrets |= plan is not None and not plan.secret_names.isdisjoint(call.arguments)
        result = await calls.aexecute(self._view, call.tool, call.arguments, self._call_options(call))
        if result.meta.get("ends_session") is True:
            self._context.end_session()
        if result.error is None:
            has_content = result.blocks is not None and any(block.type != "text" for block in result.blocks)
            return Value(self._contents.add(result.blocks or ()) if has_content else to_json(result.value))
        if "approval" in result.meta:
            return Failure(_CANNOT_WAIT) if self._has_secrets else ApprovalRequest.from_json(result.meta["approval"])
        return Failure(result.error.message)

    def _call_options(self, call: ProgramCall) -> calls.CallOptions:
        context, resumed = self._context, self._resumed
        questions: Any = context._asker  # noqa: SLF001  # of this package
        options = calls.CallOptions(
            id=f"{context.call_id}.{call.number}",
            run_id=context.run_id,
            scope=CallScope(),
            is_served=context.is_served,
            masks_errors=context.masks_errors,
            question_approver=None if questions is None else questions.approver,
        )
        if resumed is None or call.number != self._asked_number:
            return options
        approved = resumed.approved_questions
        return replace(options, is_approved=resumed.is_call_approved, approved_questions=approved)


def _to_result(value: Any, state: ProgramState, contents: list[Any]) -> ToolResult:
    """Return the value for the host; a model also reads what the program has printed, and sees its images."""
    structured = {"result": value}
    if state.output:
        structured["printed"] = state.output
    if state.is_output_cut:
        structured["note"] = "The program has printed more than this. Print less."
    blocks = (text_block(to_text(structured)), *contents) if contents else None
    return ToolResult(value, structured_content=structured, is_unwrapped=True, blocks=blocks)
