"""Runs a body in another process than its caller's, as a WorkerRequest describes it."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ahvn_tools.binding import WorkerResolver
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import MISSING_VALUE, UnboundStateError
from ahvn_tools.execution.consume import aconsume, consume
from ahvn_tools.execution.outcome import Outcome, is_consumable, is_iterator
from ahvn_tools.execution.pickling import FunctionPath, SizeLimitError
from ahvn_tools.execution.workers import replies
from ahvn_tools.execution.workers.link import Link
from ahvn_tools.execution.workers.worker_request import ContextSnapshot, WorkerRequest


def run_request(pickled: bytes, link: Link) -> bytes:
    """Run the body of a pickled WorkerRequest in this thread, and return the reply that ends the call."""
    try:
        request: WorkerRequest = pickle.loads(pickled)  # noqa: S301  # from the process whose call this is
        body = request.body.load() if isinstance(request.body, FunctionPath) else request.body
    except BaseException as error:  # noqa: BLE001  # a user's __setstate__ or module may raise anything
        return replies.encode_load_failure(error)
    link.send(replies.encode("started"))
    return BodyRun(link, request, body).run()


class BodyRun:
    """One run of a body."""

    def __init__(self, link: Link, request: WorkerRequest, body: Callable[..., Any]) -> None:
        self._link = link
        self._request = request
        self._body = body
        self._emit = self._send_chunk if request.has_reader else None
        self._count_output = request.limits.make_counter()
        self._contexts: list[ToolContext] = []
        self._resolved: dict[str, Any] = {}
        """The bound values that were made here, by parameter: no error has them when it is sent."""
        asker = _LinkedAsker(link)
        for value in (*request.positional, *request.named.values()):
            if isinstance(value, ContextSnapshot):
                self._contexts.append(value.restore(self._send, asker))
        link.on_cancel(self._cancel)

    def _cancel(self) -> None:
        for context in self._contexts:
            context._cancel()  # noqa: SLF001  # of this package

    def run(self) -> bytes:
        """Run the body to its end and return the reply that ends the call."""
        outcome = Outcome.capture(self._run_body)
        ends_session = any(context._ends_session for context in self._contexts)  # noqa: SLF001  # of this package
        error, max_bytes = outcome.error, self._request.max_reply_bytes
        if isinstance(error, ChunkPickleError):
            return replies.encode("unpicklable", ends_session, *error.args)
        if isinstance(error, ChunkSizeError):
            return replies.encode("too_large", ends_session, max_bytes)
        if error is not None:
            return replies.encode_error(error, self._resolved, ends_session=ends_session, max_bytes=max_bytes)
        return replies.encode_value(outcome.value, ends_session=ends_session, max_bytes=max_bytes)

    def _send(self, kind: str, *payload: Any) -> None:
        """Send output or progress. Raises LimitExceededError after too much output, as a local call does."""
        if kind == "output":
            self._count_output(*payload)
        self._link.send(self._encode(kind, *payload))

    def _send_chunk(self, item: Any) -> None:
        """Send a chunk and wait until the next one is requested."""
        self._link.send_chunk(self._encode("chunk", item))

    def _encode(self, kind: str, *payload: Any) -> bytes:
        """Return a reply. Raises ChunkPickleError and ChunkSizeError."""
        try:
            return replies.encode(kind, *payload, max_bytes=self._request.max_reply_bytes)
        except SizeLimitError:
            raise ChunkSizeError from None
        except Exception as error:  # a user's __reduce__ may raise anything
            raise ChunkPickleError(type(payload[0]).__name__, type(error).__name__) from error

    def _run_body(self) -> Any:
        contexts = iter(self._contexts)
        positional = [self._restore("", value, contexts) for value in self._request.positional]
        named = {name: self._restore(name, value, contexts) for name, value in self._request.named.items()}
        if self._request.is_async:
            return self._run_async(lambda: self._body(*positional, **named))
        returned = self._body(*positional, **named)
        if is_iterator(returned):
            return consume(returned, self._request.limits, self._emit)
        return self._run_async(lambda: returned) if is_consumable(returned) else returned

    def _restore(self, name: str, value: Any, contexts: Iterator[ToolContext]) -> Any:
        """Return the argument for the body."""
        if isinstance(value, ContextSnapshot):
            return next(contexts)
        if not isinstance(value, WorkerResolver):
            return value
        resolved = self._resolved[name] = _resolve(value, name)
        return resolved

    def _run_async(self, start: Callable[[], Any]) -> Any:
        """Await or iterate the return value of `start` in an event loop."""
        import asyncio

        from ahvn_tools.execution.threads import call_in_thread

        send_chunk, limits = self._emit, self._request.limits

        async def emit(item: Any) -> None:
            if send_chunk is not None:
                await call_in_thread(send_chunk, item)

        async def start_and_consume() -> Any:
            return await aconsume(start(), limits, emit if send_chunk else None)

        return asyncio.run(start_and_consume())


class _LinkedAsker:
    """Asks in the calling process."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def aask(self, action: str, details: Any) -> None:
        from ahvn_tools.execution.threads import call_in_thread

        await call_in_thread(self.ask, action, details)

    def ask(self, action: str, details: Any) -> None:
        """Ask, and raise what is raised in the calling process."""
        details = dict(details) if isinstance(details, Mapping) else details
        error = pickle.loads(self._link.ask(replies.encode("ask", action, details)))  # noqa: S301  # from the caller
        if error is not None:
            raise error

    def cancel(self) -> None:
        """Do nothing: a cancelled call is ended by its caller."""


class ChunkPickleError(Exception):
    """A chunk, or output, cannot be pickled. Its arguments are the type names of the chunk and of the exception."""


class ChunkSizeError(Exception):
    """A chunk, or output, is larger than a reply may be."""


def _resolve(resolver: WorkerResolver, name: str) -> Any:
    """Return the bound value of a parameter. Raises UnboundStateError, without the text of what the resolver raised."""
    try:
        resolved = resolver()
        if not inspect.isawaitable(resolved):
            return resolved
        import asyncio

        return asyncio.run(_await(resolved))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  # as in the process of the caller
        reason = f"its resolver raised {type(error).__name__} in the worker; check the resolver."
        explanation = f"Parameter {name!r} is bound: {reason}"
        raise UnboundStateError(MISSING_VALUE, parameter=name, key=name, explanation=explanation) from None


async def _await(awaitable: Any) -> Any:
    return await awaitable
