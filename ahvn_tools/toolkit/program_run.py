"""ProgramRun: one program of a model, whose calls are calls in the toolkit of its caller."""

from __future__ import annotations

import ast
import asyncio
import builtins
import contextlib
import functools
import io
import json
import re
import tokenize
import unicodedata
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final

from ahvn_tools.code_mode.call_form import awaits_calls, find_names
from ahvn_tools.code_mode.code_limits import CodeLimits
from ahvn_tools.code_mode.contents import ProgramContents
from ahvn_tools.code_mode.identifiers import MODULES, assign_identifiers, to_identifier
from ahvn_tools.code_mode.running_program import ProgramCall, ProgramState, RunningProgram, Suspended
from ahvn_tools.code_mode.sandbox import (
    Answer,
    Event,
    Failure,
    ProgramError,
    Sandbox,
    SandboxBusyError,
    SandboxProgram,
    SandboxSession,
    Value,
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
from ahvn_tools.execution.call import CallScope
from ahvn_tools.execution.threads import call_in_thread
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware.pending import (
    PendingRequest,
    RequestSigner,
    pending_requests,
    pending_result,
    read_request,
    without_other_request,
)
from ahvn_tools.middleware.truncate import whole_blocks
from ahvn_tools.redaction.names import is_secret_name
from ahvn_tools.redaction.texts import SecretTexts
from ahvn_tools.redaction.values import find_secrets, reveal_secrets
from ahvn_tools.results import PROGRAMMATIC, ToolResult, as_readable, text_block, to_text, whole_value
from ahvn_tools.schema.keywords import find_secret_names
from ahvn_tools.toolkit import calls
from ahvn_tools.toolkit.entry import CODE_TOOL, Entry
from ahvn_tools.toolkit.structured_output import STRUCTURED_KEY
from ahvn_tools.toolkit.visibility import StoreView

_UNKNOWN_NAME: Final = re.compile(r"Name `(\w+)` used when not defined")

_NO_BUILT_IN: Final = "Programs do not have this built-in."

_HAS_SECRETS: Final = (
    "This call has to wait, and the program cannot, because it names a tool with a secret argument, or a secret key "
    "such as 'password'. Make one of the calls without a program."
)

_HAS_CONTINUED: Final = "The program has continued before, and has failed. Calls that it has made are not made again."

_NOT_STORABLE: Final = (
    "This call has to wait, and the program cannot, because it contains a secret that a call has received or returned. "
    "Make the call without a program."
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

    async def check(self, code: str) -> SandboxProgram:
        """Return the program, if its types fit. Raises ToolError with what is wrong."""
        if len(code) > self._limits.code_chars:
            raise ToolError(f"The program is too long: it has {len(code):,} of {self._limits.code_chars:,} characters.")
        await hide_literals(self._view, self._entries.values(), code, self._context)
        awaits = awaits_calls(code)
        names = self._functions.keys() if len(self._functions) <= _MAX_CHECKED else find_names(code)
        stubs = [self._stub(name).declaration(awaits=awaits) for name in self._functions if name in names]
        program = SandboxProgram(
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

    async def run(self, program: SandboxProgram) -> Any:
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
        known: dict[int, Answer | PendingRequest] = {}
        state = replace(saved.state, waiting=dict(saved.state.waiting))
        for key, request in saved.requests.items():
            call, decision = state.waiting[key], resumed.decisions.get(key)
            if decision is None:
                known[key] = read_request(request)
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
        known: Mapping[int, Answer | PendingRequest],
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
                    pending = await call_in_thread(self._to_pending, end, state, await session.snapshot())
                    if isinstance(pending, ToolResult):
                        return pending
                    event, known = end.event, dict.fromkeys(end.unanswered, pending)
            except ProgramError as error:
                if saved is not None and isinstance(error, SandboxBusyError):
                    return await call_in_thread(self._ask_again, saved)
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
        requests: dict[int, PendingRequest] = end.unanswered
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
        requests = {key: replace(read_request(data), id=uuid.uuid4().hex) for key, data in saved.requests.items()}
        again = replace(saved, id=uuid.uuid4().hex, requests={key: r.to_json() for key, r in requests.items()})
        return self._sign(again.to_json(), requests.values())

    def _sign(self, program: JsonObject, requests: Iterable[PendingRequest]) -> ToolResult:
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

    def _find_mentioned_entries(self) -> list[Entry]:
        return [self._entries[f.tool] for f in self._mentioned.values() if f.tool in self._entries]

    def _stub(self, function: str) -> ToolStub:
        return ToolStub.of(self._view.definition(self._entries[self._functions[function]]), function)

    async def _run_call(self, call: ProgramCall) -> Answer | PendingRequest:
        answer = await self._calls.run(call, self._decisions.get(call.number))
        is_answered = isinstance(answer, Value | Failure)
        if is_answered or not may_pass_secrets(self._view, self._find_mentioned_entries(), self._code):
            return answer
        return Failure(_HAS_SECRETS)  # such a program must not be stored


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
        f"This call has to wait, and the program cannot: it would be stored with {size:,} bytes, and {limit:,} are "
        "allowed. Keep less data in the program."
    )


def _to_result(value: Any, state: ProgramState, lost: list[ProgramCall], contents: list[Any]) -> ToolResult:
    """Return the value for the host; a model also reads what the program has printed, and sees its images."""
    structured = {"result": value}
    if state.output:
        structured["printed"] = state.output
    notes = ["The program has printed more than this. Print less."] if state.is_output_cut else []
    if value is None and not state.output:
        notes.append(_NO_RESULT)
    notes += [f"The call of {call.tool!r} was not made: it has to wait. Await it." for call in lost]
    if notes:
        structured["note"] = " ".join(notes)
    blocks = (text_block(to_text(structured)), *contents) if contents else None
    return ToolResult(value, structured_content=structured, _is_unwrapped=True, blocks=blocks)


_PARTS_OF_TEXTS: Final = {getattr(tokenize, name, None) for name in ("FSTRING_MIDDLE", "TSTRING_MIDDLE")}
"""The tokens of what is written in an f-string. Before Python 3.12, the f-string is one text."""

_PREFIX: Final = re.compile(r"^\w*")
_BETWEEN_PARTS: Final = re.compile(r"""["'{}\n]+""")
_ESCAPE: Final = re.compile(
    r"""\\(?:[\\'"abfnrtv\n]|[0-3]?[0-7]{1,2}|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|N\{[^{}]*\})"""
)

_KEY_OF_VALUE: Final = re.compile(r"""(["'])([\w-]{1,64})\1\s*(?::|\]\s*=(?!=))""")
"""A key that gets a value: in a dict, or by an assignment."""


def may_pass_secrets(view: StoreView, entries: Iterable[Entry], code: str) -> bool:
    """Return whether a program may pass a secret: it names a function that takes one, or sets a key like `password`."""
    text = unicodedata.normalize("NFKC", code)  # as Python reads names
    keys = {key for _, key in _KEY_OF_VALUE.findall(text)}
    if any(map(is_secret_name, keys)):
        return True
    return any(to_identifier(entry.name) in text and takes_secrets(view, entry) for entry in entries)


def takes_secrets(view: StoreView, entry: Entry) -> bool:
    """Return whether a caller can pass a secret to a tool."""
    definition = view.definition(entry)
    properties: Mapping[str, Any] = definition.input_schema.get("properties") or {}
    names = find_secret_names(definition.input_schema)
    return bool(names) or not view.compiled_tool(entry).plan.secret_names.isdisjoint(properties)


async def hide_literals(view: StoreView, entries: Iterable[Entry], code: str, context: ToolContext) -> None:
    """Mask what is written in a program, in reports of its call, if the program may pass secrets."""
    if may_pass_secrets(view, entries, code):
        literals = await call_in_thread(lambda: list(find_literals(code)))  # a long program takes 0.3 seconds
        hidden = context._inner_values  # noqa: SLF001  # of this package
        hidden.extend(("code", text) for text in literals)


def hide_bound_values(view: StoreView, entries: Iterable[Entry], context: ToolContext) -> list[Any]:
    """Mask the bound values of tools that a program has called before it waited, as far as they can be read again.

    Return those that are secret.
    """
    hidden = context._inner_values  # noqa: SLF001  # of this package
    secrets: list[Any] = []
    for entry in entries:
        scopes, plan = calls.state_scopes(view, entry), view.compiled_tool(entry).plan
        values = plan.readable_values(scopes)
        hidden.extend(values.items())
        secrets += [value for name, value in values.items() if name in plan.secret_names]
    return secrets


def find_literals(code: str) -> Iterator[str]:
    """Yield the texts and numbers that are written in a program, up to where it cannot be read."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.NUMBER:
                yield token.string
                yield _evaluate(token.string, token.string)
            elif token.type == tokenize.STRING:
                yield from _find_texts(_PREFIX.sub("", token.string).strip("\"'"))
            elif token.type in _PARTS_OF_TEXTS:
                yield from _find_texts(token.string)
    except (tokenize.TokenError, SyntaxError):
        return


def _find_texts(text: str) -> Iterator[str]:
    """Yield a text and the parts of one that has several lines or may be an f-string: as written, and as read."""
    for part in dict.fromkeys((text, *_BETWEEN_PARTS.split(text))):
        yield part
        yield _ESCAPE.sub(lambda escape: _evaluate(f"'{escape[0]}'", escape[0]), part)


def _evaluate(literal: str, default: str) -> str:
    """Return the value of a number or a text as a text; `default` for one that has none."""
    try:
        return str(ast.literal_eval(literal))
    except (ValueError, SyntaxError):
        return default


_running_sandboxes: ContextVar[tuple[Sandbox, ...]] = ContextVar("running_sandboxes", default=())

_NESTED: Final = "A program cannot run another program. Call the functions in this one."


@contextlib.contextmanager
def refuse_nested_programs(sandbox: Sandbox) -> Generator[None]:
    """Raise ToolError in a program of this sandbox: the inner one could wait forever for the outer one's worker."""
    running = _running_sandboxes.get()
    if any(other is sandbox for other in running):
        raise ToolError(_NESTED)
    token = _running_sandboxes.set((*running, sandbox))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # the loop was closed, and this runs outside the call's context
            _running_sandboxes.reset(token)


class ProgramCalls:
    """Makes the calls of one program, as parts of the call that runs the program."""

    def __init__(
        self,
        view: StoreView,
        context: ToolContext,
        state: ProgramState,
        limits: CodeLimits,
        fingerprints: Mapping[str, str],
    ) -> None:
        """`fingerprints` are those of the tools when the program was started, by their names."""
        self._view, self._context, self._state = view, context, state
        self._fingerprints = fingerprints
        self._turns, self._slots = Turns(), asyncio.Semaphore(view.store.max_concurrency)
        self._structured: Any = None
        self._secrets = SecretTexts()
        self._has_passed_secret = False
        state.run_id = state.run_id or context.run_id or f"run_{uuid.uuid4().hex}"
        self.contents = ProgramContents(state.contents, limits.content_bytes)
        if state.ends_session:
            context.end_session()

    async def run(self, call: ProgramCall, decision: ProgramDecision | None) -> Answer | PendingRequest:
        """Make a call; `decision` says what a person has approved of it. Return its request if it has to wait."""
        context, view = self._context, self._view
        entry = view.store.entries.get(call.tool)
        scope, call_id = CallScope(pause_outer=context._links.pause), f"{context.call_id}.{call.number}"  # noqa: SLF001  # of this package
        with view.store.active_calls.track(call_id, view.session_states, scope):
            async with self._turns.take(alone=entry is not None and entry.exclusive is True), self._slots:
                if (failure := self.find_change(call.tool)) is not None:  # it may have waited for long
                    return failure
                result = await self._execute(call, call_id, scope, decision)
        result = without_other_request(replace(result, id=call_id), view.store.secret_key)
        return self._to_answer(call, result)

    def find_change(self, tool: str) -> Failure | None:
        """Return what the program reads of a tool that has changed since the program was started, else None."""
        entry, fingerprint = self._view.store.entries.get(tool), self._fingerprints.get(tool)
        if entry is None or fingerprint is None or self._view.definition(entry).fingerprint == fingerprint:
            return None  # the call of a removed tool is answered like any other
        return Failure(f"The tool {tool!r} has changed since the program was started. Run a new program.")

    def result_meta(self) -> dict[str, Any]:
        """Return what the results of calls say about the result of the program."""
        call = self._state.finish_call
        if call is not None and self._structured is None:  # made before the program waited
            entry = self._view.store.entries.get(call.tool)
            output = None if entry is None else self._view.structured_output(entry)
            self._structured = None if output is None else output.read(call.arguments, call.tool)
        return {} if self._structured is None else {STRUCTURED_KEY: self._structured}

    async def _execute(
        self, call: ProgramCall, call_id: str, scope: CallScope, decision: ProgramDecision | None
    ) -> ToolResult:
        context = self._context
        questions: Any = context._links.asker  # noqa: SLF001  # of this package
        options = calls.CallOptions(
            id=call_id,
            run_id=self._state.run_id,
            caller=PROGRAMMATIC,
            scope=scope,
            is_served=context.is_served,
            masks_errors=context._masks_errors,  # noqa: SLF001  # of this package
            report=functools.partial(self._report, call.tool),
            is_approved=decision is not None and decision.is_call_approved,
            supplied=None if decision is None else decision.supplied,
            approved_questions=() if decision is None else decision.approved_questions,
            question_approver=None if questions is None else questions.approver,
            answer_by=None if questions is None else questions.answer_by,
        )
        try:
            return await calls.aexecute(self._view, call.tool, call.arguments, options)
        finally:
            self._hide_values(call, scope)

    def _report(self, tool: str, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report the progress of a call as that of the program."""
        self._context.report_progress(progress, total, tool if message is None else f"{tool}: {message}")

    def _hide_values(self, call: ProgramCall, scope: CallScope) -> None:
        """Mask the secrets and the bound values of a call in reports of the program, which may contain them."""
        entry = self._view.store.entries.get(call.tool)
        names = frozenset() if entry is None else self._view.compiled_tool(entry).plan.secret_names
        self._context._hide(calls.inner_values(self._view, call.tool, call.arguments, scope))  # noqa: SLF001  # of this package
        self._has_passed_secret |= any(map(any, find_secrets(call.arguments, names).values()))
        self.add_secrets(value for name, value in scope.bound_values.items() if name in names)

    def add_secrets(self, values: Iterable[Any]) -> None:
        """Add secret bound values, which no saved program may contain."""
        self._secrets.add(*(text for text in map(reveal_secrets, values) if isinstance(text, str)))

    def has_secret(self, saved: str, snapshot: bytes) -> bool:
        """Return whether a saved program, as JSON and with its unpacked state, may contain a secret of its calls."""
        masked = self._secrets.mask(saved), self._secrets.mask_bytes(snapshot)
        return self._has_passed_secret or masked != (saved, snapshot)

    def _to_answer(self, call: ProgramCall, result: ToolResult) -> Answer | PendingRequest:
        if result.meta.get("ends_session") is True:
            self._state.ends_session = True
            self._context.end_session()
        if result.is_raw:
            result = as_readable(result)
        if result.error is not None:
            requests = pending_requests(result.meta)
            return requests[0] if requests else Failure(result.error.message)
        if (structured := result.meta.get(STRUCTURED_KEY)) is not None:
            self._structured, self._state.finish_call = structured, call
        blocks = whole_blocks(result.blocks) or ()
        if all(block.type == "text" for block in blocks):
            return Value(whole_value(result) if result.is_raw else result.value)
        try:
            return Value(self.contents.add(blocks))
        except ProgramError as error:
            return Failure(str(error))


class Turns:
    """Lets a call run alone: after all earlier ones, and before all later ones."""

    def __init__(self) -> None:
        self._active: list[tuple[asyncio.Future[None], bool]] = []

    @contextlib.asynccontextmanager
    async def take(self, *, alone: bool) -> AsyncGenerator[None]:
        """Wait for those that this one must not run with, and let others wait for it."""
        ended = asyncio.get_running_loop().create_future()
        earlier = [other for other, is_alone in self._active if alone or is_alone]
        turn = (ended, alone)
        self._active.append(turn)
        try:
            if earlier:
                await asyncio.wait(earlier)
            yield
        finally:
            self._active.remove(turn)
            ended.set_result(None)
