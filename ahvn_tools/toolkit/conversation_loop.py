"""ConversationLoop: ask a model and run its calls until it has answered, or something has to be decided."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from ahvn_tools import formats
from ahvn_tools.errors import MalformedAnswerError, RequestUsedError, ToolkitError, unknown_options
from ahvn_tools.execution.channel import ChunkReader
from ahvn_tools.execution.outcome import Outcome, is_awaitable
from ahvn_tools.execution.threads import EmitItemSync, run_in_thread
from ahvn_tools.formats import detection
from ahvn_tools.formats.json_data import replace_surrogates
from ahvn_tools.formats.parsing.payload import dump_models, is_stream
from ahvn_tools.formats.parsing.text_calls import extract_text
from ahvn_tools.formats.turn import NO_USAGE, Model, Turn, fitting_module
from ahvn_tools.middleware.pending import pending_requests
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.settings import is_count, must_be
from ahvn_tools.toolkit.batch import Batch
from ahvn_tools.toolkit.conversation import Conversation, StopReason
from ahvn_tools.toolkit.entry_options import COUNT, checked, validate_callable
from ahvn_tools.toolkit.run import Decisions, Run
from ahvn_tools.toolkit.structured_output import STRUCTURED_KEY
from ahvn_tools.toolkit.visibility import StoreView

if TYPE_CHECKING:
    from ahvn_tools.formats import FormatName

_DEFAULT_FORMAT: Final = "openai"
"""The format of the tools for a model that does not name one, until an answer shows its own."""

_FORMATS_OF_TEXTS: Final = ("gemini", "langchain")
"""The formats whose messages may be texts."""

_RETRIES: Final = must_be("a whole number, at least 0", lambda value: value == 0 or is_count(value))


class Tools(Protocol):
    """A toolkit or session, as a conversation uses it."""

    _view: StoreView

    def to(self, format: str, /, *, read_only: bool = ..., **options: Any) -> Any:  # noqa: A002  # as in Toolkit
        """Return the tools in a format."""
        ...

    def _batch(self, answer: Any, format: str | None) -> Batch:  # noqa: A002  # as above
        """Return the calls of an answer."""
        ...


class ConverseOptions(Decisions, total=False):
    """The options of `converse`, `stream_converse` and their async twins."""

    format: FormatName | str | None
    """The format of the messages, for a model that does not name it."""
    max_turns: int
    """How many answers the model may give, 20 by default."""
    max_retries: int
    """How often it is asked again after a malformed answer, 2 times by default."""


@dataclass(frozen=True)
class TextDelta:
    """The next piece of the text of an answer."""

    text: str


Event: TypeAlias = TextDelta | ToolCall | ToolResult | Conversation
"""What a conversation yields: texts, the model's calls, chunks of tools, the result of each call, itself at the end."""

Start: TypeAlias = str | Sequence[Any] | Conversation
"""The messages so far, a text of the user, or the conversation to go on with."""

ModelFunction: TypeAlias = Callable[[list[Any], Any], Any]
"""A model: a function of messages and tools that returns an answer, an awaitable of one, or the events of a stream."""


class ConversationLoop:
    """A conversation while it goes on, once. Its methods do the same, for the four kinds of callers."""

    def __init__(self, kit: Tools, model: ModelFunction, start: Start, options: ConverseOptions) -> None:
        """Raises ToolkitError and TypeError for what does not fit."""
        if unknown := unknown_options(options, ConverseOptions.__annotations__):
            hint = " The model has it: anthropic.model(client, model=…, export={'strict': True})." * (
                "export" in options
            )
            raise TypeError(f"converse(): {unknown}{hint}")
        given: dict[str, Any] = {**options}
        self.kit, self.emits = kit, False
        self.model: Any = _checked_model(model)
        before = start if isinstance(start, Conversation) else None
        self.format: str | None = given.pop("format", None) or getattr(model, "format", None)
        if before is not None and before.format is not None:
            if self.format not in (None, before.format):
                raise ToolkitError(
                    f"The conversation is in the format {before.format!r}, and the model takes {self.format!r}. Go on "
                    f"with a model of {before.format!r}, or pass messages that are written in {self.format!r}."
                )
            self.format = before.format
        self.turns_left: int = checked("max_turns", given.pop("max_turns", 20), COUNT)
        self.max_retries: int = checked("max_retries", given.pop("max_retries", 2), _RETRIES)
        self.decisions: Any = given
        self.waiting = before.run if before is not None and before.pending else None
        try:
            _require_decisions(kit, before, self.decisions)
        except ToolkitError as error:
            if before is not None:
                before.attach_to(error)
            raise
        self.messages = _with_text(self.format, [], start) if isinstance(start, str) else [*_messages_of(start)]
        if any(isinstance(message, str) for message in self.messages) and self.format not in _FORMATS_OF_TEXTS:
            raise ToolkitError("A message is a text alone. Pass {'role': 'user', 'content': text}, or only the text.")
        if not isinstance(start, str | Conversation):
            _require_results(self.format or _DEFAULT_FORMAT, self.messages)
        self.latest_run = before.run if before else None
        self.text, self.turns, self.usage = (before.text, before.turns, before.usage) if before else ("", 0, NO_USAGE)
        self.stop_reason: StopReason | None = None
        self.problem: str | None = None
        self.retries = 0
        self.answer: Any = None
        self.turn = Turn()
        self.runs_calls = False
        self.shown = {} if self.waiting is None else {id(result): result for _, result in self.waiting.results}
        """The results of the last answer that were yielded, also before it waited, by the ids of the objects."""
        self.is_streamed = self.has_left = False
        if self.format is not None:
            _turn_function(self.format)

    def run(self) -> Conversation:
        """Return the conversation at its end."""
        *_, conversation = self.stream(emits=False)
        return conversation  # type: ignore[return-value]  # the last event

    async def arun(self) -> Conversation:
        """Return the conversation at its end, from async code."""
        async with contextlib.aclosing(self.astream(emits=False)) as events:
            return [event async for event in events][-1]  # type: ignore[return-value]  # the last event

    def stream(self, *, emits: bool = True) -> Generator[Event, None, None]:
        """Yield what happens if it `emits` that, then the conversation."""
        self.emits = emits
        with self._kept():
            while self.stop_reason is None:
                yield from self._turn()
        yield self._conversation(self.stop_reason)

    def _turn(self) -> Generator[Event, None, None]:
        """Ask the model once, unless calls wait, and run the calls; yield what happens."""
        batch: Batch | None
        if self.waiting is not None:
            from ahvn_tools.toolkit.resume import resumed_batch  # few conversations wait

            batch = resumed_batch(self.kit._view, self.waiting, self.decisions)  # noqa: SLF001  # of this package
        else:
            yield from self._ask()
            batch = self._read()
        if batch is None:
            return
        self.runs_calls = True
        if not self.emits:
            self._take(batch.run())
            return
        yield from self._events_of(batch)
        for item in replace(batch, streams_results=True).stream():
            yield from self._take(item) if isinstance(item, Run) else self._to_results([item])

    async def astream(self, *, emits: bool = True) -> AsyncGenerator[Event, None]:
        """Yield what happens, then the conversation, to an async reader."""
        self.emits = emits
        with self._kept():
            while self.stop_reason is None:
                async with contextlib.aclosing(self._aturn()) as events:
                    async for event in events:
                        yield event
        yield self._conversation(self.stop_reason)

    async def _aturn(self) -> AsyncGenerator[Event, None]:
        """Do what `_turn` does, from async code."""
        batch: Batch | None
        if self.waiting is not None:
            from ahvn_tools.toolkit.resume import aresumed_batch  # few conversations wait

            batch = await aresumed_batch(self.kit._view, self.waiting, self.decisions)  # noqa: SLF001  # of this package
        else:
            async with contextlib.aclosing(self._aask()) as deltas:
                async for delta in deltas:
                    yield delta
            batch = self._read()
        if batch is None:
            return
        self.runs_calls = True
        if not self.emits:
            self._take(await batch.arun())
            return
        for event in self._events_of(batch):
            yield event
        async with contextlib.aclosing(replace(batch, streams_results=True).astream()) as items:
            async for item in items:
                for event in self._take(item) if isinstance(item, Run) else self._to_results([item]):
                    yield event

    @contextlib.contextmanager
    def _kept(self) -> Generator[None]:
        """Attach the conversation to an exception that ends it.

        Not to one for decisions that were used before: a newer conversation may have been saved since.
        """
        try:
            yield
        except BaseException as error:
            if self.runs_calls and (interrupted := Run.from_error(error)) is not None:
                self._take(interrupted)
            if self.waiting is None or not isinstance(error, RequestUsedError):
                is_waiting = self.latest_run is not None and self.latest_run.pending
                self._conversation("waiting" if is_waiting else "failed").attach_to(error)
            raise

    def _conversation(self, stop_reason: StopReason) -> Conversation:
        return Conversation(
            messages=[*self.messages],
            text=self.text,
            stop_reason=stop_reason,
            run=self.latest_run,
            turns=self.turns,
            usage=self.usage,
            format=self.format,
        )

    def _request(self) -> tuple[ModelFunction, list[Any], Any]:
        """Return the function that asks the model, with the messages and the tools of the next request."""
        name = self.format or _DEFAULT_FORMAT
        export = self.model.export if isinstance(self.model, Model) else {}
        tools = self.kit.to(name, read_only=name in formats.BUILT_IN, **export)
        messages = [*self.messages] if self.problem is None else _with_text(name, self.messages, self.problem)
        container, model = None if self.latest_run is None else self.latest_run.container, self.model
        if container is not None and isinstance(model, Model):
            has_expired = container.expires_at is not None and container.expires_at <= datetime.now(UTC)
            model = model if has_expired else model.in_container(container.id)
        return model, messages, tools

    def _ask(self) -> Generator[TextDelta, None, None]:
        """Ask the model; yield the pieces of its text as they come. `answer` is then what it has sent."""
        model, messages, tools = self._request()
        self.answer, self.is_streamed = model(messages, tools), False
        if is_awaitable(self.answer):
            self.answer = _wait_for(self.answer)
        events = _find_events(self.answer)
        if isinstance(events, AsyncIterable):
            from ahvn_tools.execution.async_to_sync import read_on_loop

            (yield from read_on_loop(self._aread_events(events))).get()
        elif events is not None:
            yield from self._read_events(events)

    async def _aask(self) -> AsyncGenerator[TextDelta, None]:
        """Ask the model from async code, as `_ask` does. A sync model, and the events that it returns, use a thread."""
        model, messages, tools = self._request()
        self.is_streamed = False
        ask = model.acall if isinstance(model, Model) else model
        if _is_async(model):
            self.answer = ask(messages, tools)
        else:
            call = functools.partial(self._ask_in_thread, functools.partial(ask, messages, tools))
            reader = ChunkReader(lambda emit: run_in_thread(call, emit, self._close_events))
            async with contextlib.aclosing(reader.read()) as deltas:
                async for delta in deltas:
                    yield delta
            reader.outcome.get()
        if is_awaitable(self.answer):
            self.answer = await self.answer
        events = _find_events(self.answer)
        if isinstance(events, AsyncIterable):
            async with contextlib.aclosing(self._aread_events(events)) as deltas:
                async for delta in deltas:
                    yield delta
        elif events is not None:
            for delta in self._read_events(events):
                yield delta

    def _ask_in_thread(self, ask: Callable[[], Any], emit: EmitItemSync) -> None:
        self.answer = ask()
        events = _find_events(self.answer)
        if events is not None and not isinstance(events, AsyncIterable):
            for delta in self._read_events(events):
                emit(delta)

    def _read_events(self, events: Iterable[Any]) -> Generator[TextDelta, None, None]:
        """Read a stream to its end and close it; `answer` is then the list of its events."""
        read: list[Any] = []
        try:
            for event in events:
                if self.has_left:
                    return
                read.append(event)
                yield from self._to_deltas(event)
        finally:
            if hasattr(events, "close"):
                events.close()
        self.answer, self.is_streamed = read, True

    async def _aread_events(self, events: AsyncIterable[Any]) -> AsyncGenerator[TextDelta, None]:
        """Read an async stream as `_read_events` does."""
        read: list[Any] = []
        try:
            async for event in events:
                read.append(event)
                for delta in self._to_deltas(event):
                    yield delta
        finally:
            close = getattr(events, "aclose", None) or getattr(events, "close", None)
            if close is not None and is_awaitable(closing := close()):
                await closing
        self.answer, self.is_streamed = read, True

    def _close_events(self) -> None:
        """End a request from another thread than the one that reads its events."""
        self.has_left = True
        with contextlib.suppress(Exception):  # a generator that runs ends after its next event
            _find_events(self.answer).close()

    def _to_deltas(self, event: Any) -> list[TextDelta]:
        text = replace_surrogates(extract_text(dump_models(event))) if self.emits else ""
        return [TextDelta(text)] if text else []

    def _read(self) -> Batch | None:
        """Read the answer; None if the model has to be asked again, because its provider has discarded a call."""
        answer = self.answer
        try:
            batch = self.kit._batch(answer, self.format)  # noqa: SLF001  # of this package
        except ToolkitError as error:
            if not isinstance(answer, str):
                raise
            advice = "To answer with a text, return {'role': 'assistant', 'content': text}."
            raise ToolkitError(f"{error} {advice}") from None
        self.format = self.format or batch.format
        turn = _read_turn(self.format or _fitting_format(answer), answer, batch.calls)
        self.usage += turn.usage
        self.problem = None if batch.calls else batch.continuation.problem
        if self.problem is not None:
            if self.retries == self.max_retries:
                raise MalformedAnswerError(
                    f"The model has sent {self.retries + 1} malformed answers in a row; the reason of the last one: "
                    f"{self.problem!r} Ask again with the conversation of this error, or raise max_retries."
                )
            self.retries += 1
            return None
        self.shown = {}
        self.retries, self.turn = 0, replace(turn, messages=_to_sendable(turn.messages), text=_to_sendable(turn.text))
        return batch

    def _events_of(self, batch: Batch) -> list[Event]:
        """Return the events of an answer that was read: its text, unless that has come in pieces, and its calls.

        Of an answer whose calls have waited, these are the calls that go on, as the model has made them.
        """
        if self.waiting is not None:
            return [self.waiting.results[index][0] for index in sorted(batch.requests)]
        texts = [TextDelta(self.turn.text)] if self.turn.text and not self.is_streamed else []
        return [*texts, *batch.calls]

    def _take(self, run: Run) -> list[ToolResult]:
        """Add the messages of an answer and of its results; return the results of finished calls."""
        self.runs_calls = False
        if self.waiting is None:
            self.messages += self.turn.messages
            self.text, self.turns, self.turns_left = self.turn.text, self.turns + 1, self.turns_left - 1
        self.latest_run, self.waiting = run, None
        self.messages += run.messages
        self.stop_reason = self._find_stop_reason(run)
        return self._to_results([result for _, result in run.results])

    def _to_results(self, results: Sequence[ToolResult]) -> list[ToolResult]:
        """Return the chunks and results to show: none of a call that waits, and no result again."""
        if not self.emits:
            return []
        new = [one for one in results if id(one) not in self.shown and not pending_requests(one.meta)]
        self.shown |= {id(result): result for result in new if result.is_last}
        return new

    def _find_stop_reason(self, run: Run) -> StopReason | None:
        """Return why the conversation stops after an answer; None if it goes on."""
        if run.pending:
            return "waiting"
        if any(STRUCTURED_KEY in result.meta for _, result in run.results):
            return "finished"
        if run.ends_session:
            return "session_ended"
        if not (run.results or run.is_paused):
            return "answered"
        return None if self.turns_left else "max_turns"


def _checked_model(model: Any) -> Any:
    """Return a model. Raises ToolkitError for what cannot be called, and says how to make one of a client."""
    module = None if callable(model) else fitting_module(model)
    advice = "" if module is None else f', such as formats.{module}.model(client, model="…")'
    return validate_callable("A model", f"a function of messages and tools{advice}", model)


def _messages_of(start: Any) -> Sequence[Any]:
    messages: Sequence[Any] = start.messages if isinstance(start, Conversation) else start
    if isinstance(messages, Mapping):
        raise ToolkitError("The messages are one message alone. Pass a list of messages.")
    return messages


def _require_decisions(kit: Tools, waiting: Conversation | None, decisions: Any) -> None:
    """Raise ToolkitError for decisions that do not fit, and for calls that wait without a decision."""
    if waiting is None or waiting.run is None or not waiting.pending:
        if decisions:
            raise ToolkitError(f"The conversation waits for nothing. Leave out {min(decisions)}=….")
        return
    if not decisions:
        raise ToolkitError(
            f"The conversation waits for {[request.tool for request in waiting.pending]}. Pass approved=… or "
            "results=…, as to `resume`."
        )
    from ahvn_tools.toolkit.resume import check_decisions  # few conversations wait

    check_decisions(kit._view, waiting.run, decisions)  # noqa: SLF001  # of this package


_RESULT_ROLES: Final = frozenset({"tool", "function"})
_RESULT_TYPES: Final = frozenset({"tool", "tool_result", "function_call_output"})
_RESULT_KEYS: Final = frozenset({"functionResponse", "function_response", "toolResult"})


def _require_results(name: str, messages: Sequence[Any]) -> None:
    """Raise ToolkitError for messages whose last calls have no results: providers refuse them.

    Calls and results are counted, as not all formats have ids.
    """
    if name not in formats.BUILT_IN or name == "prompt":
        return
    results, calls = 0, list[ToolCall]()
    for message in reversed(messages):
        data = dump_models(message)
        found = formats.get(name).calls([data]) if isinstance(data, dict) and data.get("role") != "user" else []
        if calls and not found:
            break
        calls = [*found, *calls]
        results += 0 if calls else _count_results(data)
    if len(calls) > results:
        raise ToolkitError(
            f"The calls of {[call.name for call in calls]} have no results in the messages. If they wait, pass the "
            "conversation itself with approved=False or results=…, and ask the next question then. Otherwise append "
            "their results."
        )


def _count_results(data: Any) -> int:
    """Return how many results of calls a message contains."""
    if isinstance(data, list):
        return sum(map(_count_results, data))
    if not isinstance(data, dict):
        return 0
    if data.get("role") in _RESULT_ROLES or data.get("type") in _RESULT_TYPES or data.keys() & _RESULT_KEYS:
        return 1
    return _count_results(data.get("content")) + _count_results(data.get("parts"))


def _turn_function(name: str) -> Callable[..., Turn]:
    function: Callable[..., Turn] | None = getattr(formats.get(name), "turn", None)
    if function is None:
        raise ToolkitError(
            f"The format {name!r} has no function `turn(response, calls)`, which a conversation needs. "
            "Add it to the format, or write the loop with `run`."
        )
    return function


def _read_turn(name: str, answer: Any, calls: Sequence[ToolCall]) -> Turn:
    if isinstance(answer, ToolCall):
        answer = [answer]
    if calls and isinstance(answer, list | tuple) and all(isinstance(call, ToolCall) for call in answer):
        return Turn(messages=formats.get(name).message(calls))
    read = _turn_function(name)
    try:
        return read(answer, calls)
    except (TypeError, ValueError, AttributeError, LookupError, RecursionError) as error:
        if name not in formats.BUILT_IN:
            raise
        raise MalformedAnswerError(
            f"The answer of the model is not as the format {name!r} has it. None of its calls has run. Ask again with "
            "the conversation of this error."
        ) from error


def _to_sendable(value: Any) -> Any:
    """Return a copy of messages without lone surrogates and NaN, which no later request could contain."""
    if isinstance(value, str):
        return value if value.isascii() else replace_surrogates(value)
    if isinstance(value, dict):
        return {_to_sendable(key): _to_sendable(item) for key, item in value.items()}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return list(map(_to_sendable, value)) if isinstance(value, list) else value


def _with_text(name: str | None, messages: Sequence[Any], text: str) -> list[Any]:
    """Return the messages with a text of the user at the end."""
    add: Callable[..., list[Any]] | None = getattr(formats.get(name or _DEFAULT_FORMAT), "add_user_text", None)
    return [*messages, {"role": "user", "content": text}] if add is None else add(messages, text)


def _fitting_format(answer: Any) -> str:
    """Return a format of an answer without calls that fits several ones."""
    names = detection.matching_formats(answer)
    return names[0] if names and _DEFAULT_FORMAT not in names else _DEFAULT_FORMAT


def _find_events(answer: Any) -> Any:
    """Return the stream that an answer is, or that Bedrock's response has; None for a whole answer."""
    if isinstance(answer, Mapping):
        answer = answer.get("stream")
    if isinstance(answer, list | tuple) or hasattr(answer, "model_dump"):
        return None
    return answer if is_stream(answer) else None


def _is_async(model: Any) -> bool:
    """Return whether a model does not block: its function is a coroutine function, or an async generator."""
    function = (model.asend or model.send) if isinstance(model, Model) else model
    while isinstance(function, functools.partial):
        function = function.func
    functions = (inspect.unwrap(function), type(function).__call__)
    return any(inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in functions)


def _wait_for(answer: Awaitable[Any]) -> Any:
    """Wait for an async model from sync code, on the background loop."""
    from ahvn_tools.execution import background_loop
    from ahvn_tools.execution.runner import capture_outcome

    async def wait() -> Any:
        return await answer

    outcome: Outcome = background_loop.run(capture_outcome, wait)
    return outcome.get()
