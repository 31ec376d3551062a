"""ProgramRun: one program of a model, whose calls are calls in the toolkit of its caller."""

from __future__ import annotations

import builtins
import contextlib
import functools
import json
import re
import unicodedata
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ahvn_tools.code_mode.call_form import awaits_calls, find_names
from ahvn_tools.code_mode.identifiers import MODULES, assign_identifiers
from ahvn_tools.code_mode.limits import CodeLimits
from ahvn_tools.code_mode.running_program import ProgramCall, ProgramState, RunningProgram, Suspended
from ahvn_tools.code_mode.sandbox import (
    Answer,
    Event,
    Failure,
    Program,
    ProgramError,
    Sandbox,
    SandboxBusyError,
    SandboxSession,
)
from ahvn_tools.code_mode.saved_program import (
    MAX_SNAPSHOT_BYTES,
    ProgramDecision,
    ProgramFunction,
    ResumedProgram,
    SavedProgram,
)
from ahvn_tools.code_mode.stubs import HEADER, ToolStub
from ahvn_tools.context import ToolContext
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import LimitExceededError, ToolError, near_misses
from ahvn_tools.execution.threads import run_in_thread
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware.approve import ApprovalRequest, RequestSigner, pending_result
from ahvn_tools.results import PROGRAMMATIC, ToolResult, text_block, to_text
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.program_calls import ProgramCalls
from ahvn_tools.toolkit.program_secrets import hide_bound_values, hide_literals, may_pass_secrets

if TYPE_CHECKING:
    from ahvn_tools.toolkit.visibility import StoreView

CODE_TOOL: Final = "is_code_tool"
"""The attribute of functions that no program may call."""

_UNKNOWN_NAME: Final = re.compile(r"Name `(\w+)` used when not defined")

_NO_BUILT_IN: Final = "Programs do not have this built-in."

_HAS_SECRETS: Final = (
    "This call needs an approval, and the program cannot wait for one, because it names a tool with a secret argument, "
    "or a secret key such as 'password'. Make one of the calls without a program."
)

_HAS_CONTINUED: Final = "The program has continued before, and has failed. Calls that it has made are not made again."

_NOT_STORABLE: Final = (
    "This call needs an approval, and the program cannot wait for one, because it contains a secret that a call has "
    "received or returned. Make the call without a program."
)

_NO_RESULT: Final = "The program ended without an error. To see a value, end with it as an expression, or print it."

_MAX_CHECKED: Final = 200
"""Up to how many tools all of them are declared to the type checker, which then stays warm for all programs."""


def callable_entries(view: StoreView) -> list[Entry]:
    """Return the tools that a program can call: all visible ones, except for those that call other tools."""
    return [
        entry
        for entry in view.visible_entries()
        if entry.allows(PROGRAMMATIC) and not entry.delegates and not getattr(entry.spec.function, CODE_TOOL, False)
    ]


class ProgramRun:
    """One program of a model, whose calls are calls in the toolkit of its caller."""

    def __init__(self, sandbox: Sandbox, limits: CodeLimits, view: StoreView, context: ToolContext) -> None:
        self._sandbox, self._limits, self._view, self._context = sandbox, limits, view, context
        self._entries = {entry.name: entry for entry in callable_entries(view)}
        self._functions = assign_identifiers(self._entries)
        self._decisions: dict[int, ProgramDecision] = {}
        """The decisions on calls that were approved, by the numbers of the calls."""
        self._code = ""
        self._mentioned: Mapping[str, ProgramFunction] = {}
        """The functions that the program mentions, as they were when it was started."""
        self._secrets: list[Any] = []
        """Secret bound values of calls that the program has made before it waited."""

    async def check(self, code: str) -> Program:
        """Return the program, if its types fit. Raises ToolError with what is wrong."""
        if len(code) > self._limits.code_chars:
            raise ToolError(f"The program is too long: it has {len(code):,} of {self._limits.code_chars:,} characters.")
        await hide_literals(self._view, self._entries.values(), code, self._context)
        awaits = awaits_calls(code)
        names = self._functions.keys() if len(self._functions) <= _MAX_CHECKED else find_names(code)
        stubs = [self._stub(name).declaration(awaits=awaits) for name in self._functions if name in names]
        program = Program(
            code=code,
            stubs="\n".join([HEADER, *stubs]),
            functions=self._functions.keys(),
            limits=self._limits,
            awaits=awaits,
        )
        try:
            await self._sandbox.check(program)
        except ProgramError as error:
            raise ToolError(self._with_similar_names(str(error))) from None
        return program

    def _with_similar_names(self, message: str) -> str:
        """Return a message of the type checker with what is known of each unknown name."""
        unknown = dict.fromkeys(_UNKNOWN_NAME.findall(message))
        return "\n".join([message, *(f"{name}: {self._hint(name)}" for name in unknown)])

    def _hint(self, name: str) -> str:
        """Return what to do about an unknown name."""
        if name in MODULES:
            return f"Import it first: `import {name}`."
        return _NO_BUILT_IN if hasattr(builtins, name) else near_misses(name, self._functions)

    async def run(self, program: Program) -> Any:
        """Run a program, and return its result. Raises ToolError if it fails."""
        self._code, state = program.code, ProgramState(awaits=program.awaits)
        self._mentioned = self._find_mentioned()
        return await self._drive(state, lambda session, write: session.start(program, write), {})

    async def resume(self, resumed: ResumedProgram) -> Any:
        """Continue a program after a person's decisions, and return its result. Raises ToolError if it fails."""
        if resumed.has_continued:  # a middleware tries again
            raise ToolError(_HAS_CONTINUED)
        resumed.has_continued, saved = True, resumed.program
        if saved.sandbox != self._sandbox.version:
            message = (
                f"The program was stopped in {saved.sandbox!r} and cannot continue in {self._sandbox.version!r}. "
                "Run it again."
            )
            return ToolResult(error=ErrorDetail(code="changed", message=message))
        self._code, self._mentioned = saved.code, saved.functions
        self._functions = {name: function.tool for name, function in saved.functions.items()}
        self._secrets = hide_bound_values(self._view, self._find_mentioned_entries(), self._context)
        known: dict[int, Answer | ApprovalRequest] = {}
        state = replace(saved.state, waiting=dict(saved.state.waiting))
        for key, request in saved.requests.items():
            call, decision = state.waiting[key], resumed.decisions.get(key)
            if decision is None:
                known[key] = ApprovalRequest.from_json(request)
            elif decision.rejection is not None:
                known[key] = Failure(decision.rejection)
            else:
                state.waiting[key] = replace(call, arguments=decision.arguments)
                self._decisions[call.number] = decision
        functions = self._functions.keys()
        return await self._drive(
            state, lambda session, write: session.restore(saved.snapshot, functions, write), known, saved
        )

    async def _drive(
        self,
        state: ProgramState,
        start: Callable[[SandboxSession, Callable[[str], None]], Awaitable[Event]],
        known: Mapping[int, Answer | ApprovalRequest],
        saved: SavedProgram | None = None,
    ) -> Any:
        fingerprints = {function.tool: function.fingerprint for function in self._mentioned.values()}
        self._calls = ProgramCalls(self._view, self._context, state, self._limits, fingerprints)
        self._calls.add_secrets(self._secrets)
        async with self._sandbox.open(self._limits) as session:
            running = RunningProgram(
                session,
                state,
                self._find_stub,
                self._run_call,
                limits=self._limits,
            )
            try:
                event = await start(session, functools.partial(self._write, running, state))
                while isinstance(end := await running.run(event, known), Suspended):
                    suspended, snapshot = end, await session.snapshot()
                    pending = (await run_in_thread(lambda _: self._to_pending(suspended, state, snapshot))).get()  # noqa: B023  # it runs at once
                    if isinstance(pending, ToolResult):
                        return pending
                    event, known = end.event, dict.fromkeys(end.unanswered, pending)
            except ProgramError as error:
                if saved is not None and isinstance(error, SandboxBusyError):
                    return (await run_in_thread(lambda _: self._ask_again(saved))).get()
                raise ToolError(_to_message(error, state)) from None
        result = _to_result(end.value, state, running.lost_calls, self._calls.contents.find(end.value))
        return replace(result, meta=self._calls.result_meta())

    def _write(self, running: RunningProgram, state: ProgramState, text: str) -> None:
        """Keep what the program prints, and send it to the reader of a stream."""
        before = len(state.output)
        running.write(text)
        if printed := state.output[before:]:
            with contextlib.suppress(LimitExceededError):  # the result has all of it
                self._context.append_output(printed)

    def _to_pending(self, end: Suspended, state: ProgramState, snapshot: bytes) -> ToolResult | Failure:
        """Return the result of a program that waits, with its requests; a Failure if it is too large to be stored."""
        requests: dict[int, ApprovalRequest] = end.unanswered
        saved = SavedProgram(
            call_id=self._context.call_id or "",
            tool=self._context.tool or "",
            caller=self._context.caller,
            code=self._code,
            sandbox=self._sandbox.version,
            snapshot=snapshot,
            state=state,
            functions=self._mentioned,
            requests={key: replace(r, program=None, signature="").to_json() for key, r in requests.items()},
        )
        if len(snapshot) > MAX_SNAPSHOT_BYTES:
            return _too_large(len(snapshot), MAX_SNAPSHOT_BYTES)
        program = saved.to_json()
        text = json.dumps(program)
        if self._calls.has_secret(text, snapshot):
            return Failure(_NOT_STORABLE)
        if len(text) > self._limits.saved_bytes:
            return _too_large(len(text), self._limits.saved_bytes)
        return self._sign(program, requests.values())

    def _ask_again(self, saved: SavedProgram) -> ToolResult:
        """Return the result of a program that could not continue, with new requests: the old ones are used."""
        requests = {
            key: replace(ApprovalRequest.from_json(data), id=uuid.uuid4().hex) for key, data in saved.requests.items()
        }
        again = replace(saved, id=uuid.uuid4().hex, requests={key: r.to_json() for key, r in requests.items()})
        return self._sign(again.to_json(), requests.values())

    def _sign(self, program: JsonObject, requests: Iterable[ApprovalRequest]) -> ToolResult:
        signer = RequestSigner(self._view.store.secret_key)
        unsigned = [replace(request, program=program) for request in requests]
        return pending_result(*[replace(request, signature=signer.sign(request)) for request in unsigned])

    def _find_mentioned(self) -> dict[str, ProgramFunction]:
        """Return the functions whose names are in the program; in a text, too, which might be an f-string."""
        code = unicodedata.normalize("NFKC", self._code)  # as Python reads names
        definitions = {
            name: self._view.definition(self._entries[tool]) for name, tool in self._functions.items() if name in code
        }
        return {
            name: ProgramFunction(tool=self._functions[name], fingerprint=definition.fingerprint)
            for name, definition in definitions.items()
        }

    def _find_stub(self, function: str) -> ToolStub | Failure:
        if (tool := self._functions.get(function)) not in self._entries:
            return Failure(f"There is no function {function!r}.")
        return self._calls.find_change(tool) or self._stub(function)

    def _has_secrets(self) -> bool:
        """Return whether the program may contain a secret argument, so that it must not be stored."""
        return may_pass_secrets(self._view, self._find_mentioned_entries(), self._code)

    def _find_mentioned_entries(self) -> list[Entry]:
        return [self._entries[f.tool] for f in self._mentioned.values() if f.tool in self._entries]

    def _stub(self, function: str) -> ToolStub:
        return ToolStub.of(self._view.definition(self._entries[self._functions[function]]), function)

    async def _run_call(self, call: ProgramCall) -> Answer | ApprovalRequest:
        answer = await self._calls.run(call, self._decisions.get(call.number))
        return Failure(_HAS_SECRETS) if isinstance(answer, ApprovalRequest) and self._has_secrets() else answer


def _to_message(error: ProgramError, state: ProgramState) -> str:
    """Return what a model reads of a program that has failed: calls that were made are not undone."""
    parts = [str(error)]
    if state.calls_made:
        parts.append(f"Calls made before this: {state.calls_made}.")
    if state.output:
        parts.append(f"Printed:\n{state.output}")
    return "\n\n".join(parts)


def _too_large(size: int, limit: int) -> Failure:
    return Failure(
        f"This call needs an approval, and the program cannot wait for one: it would be stored with {size:,} bytes, "
        f"and {limit:,} are allowed. Keep less data in the program."
    )


def _to_result(value: Any, state: ProgramState, lost: list[ProgramCall], contents: list[Any]) -> ToolResult:
    """Return the value for the host; a model also reads what the program has printed, and sees its images."""
    structured = {"result": value}
    if state.output:
        structured["printed"] = state.output
    notes = ["The program has printed more than this. Print less."] if state.is_output_cut else []
    if value is None and not state.output:
        notes.append(_NO_RESULT)
    notes += [f"The call of {call.tool!r} was not made: it needs an approval. Await it." for call in lost]
    if notes:
        structured["note"] = " ".join(notes)
    blocks = (text_block(to_text(structured)), *contents) if contents else None
    return ToolResult(value, structured_content=structured, is_unwrapped=True, blocks=blocks)
