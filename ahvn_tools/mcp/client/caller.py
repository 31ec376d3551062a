"""Caller: the client of a served toolkit for which a server's tool is called. What the server asks for goes to it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolCallError, ToolError, ToolTimeoutError
from ahvn_tools.execution.background_loop import running_loop
from ahvn_tools.invisible import escape
from ahvn_tools.mcp.client.errors import INVALID_REQUEST, sanitize_text
from ahvn_tools.mcp.trust.limits import Budgets, Limits, RefusedToolError, check_result, check_size
from ahvn_tools.redaction.texts import map_texts

if TYPE_CHECKING:  # slow
    from mcp_types import CreateMessageResult, ElicitResult, ErrorData, ListRootsResult

T = TypeVar("T")


class IdleClock:
    """The clock of one call. It starts again with each progress message, and stands still while a person answers."""

    def __init__(self, tool: str, seconds: float | None) -> None:
        """End the call after `seconds`; None: never. For the event loop that runs now."""
        self._tool, self._seconds = tool, seconds
        self._loop = asyncio.get_running_loop()
        self._timeout: asyncio.Timeout | None = None
        self._pauses = 0

    async def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Return the result of a call. Raises ToolTimeoutError."""
        try:
            async with asyncio.timeout(self._seconds) as timeout:
                self._timeout = timeout
                return await call
        except TimeoutError:
            if not timeout.expired():
                raise
            message = f"The server of tool {self._tool!r} has sent no progress for {self._seconds:g} s."
            raise ToolTimeoutError(message, tool=self._tool, timeout=self._seconds) from None
        finally:
            self._timeout = None

    def restart(self) -> None:
        """Start again; from any thread."""
        if self._seconds is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(self._reschedule)

    @contextlib.contextmanager
    def pause(self) -> Generator[None]:
        """Stand still inside this block, in the loop of the call."""
        self._pauses += 1
        self._reschedule()
        try:
            yield
        finally:
            self._pauses -= 1
            self._reschedule()

    def _reschedule(self) -> None:
        if self._timeout is not None and self._seconds is not None and not self._timeout.expired():
            self._timeout.reschedule(None if self._pauses else self._loop.time() + self._seconds)


log = logging.getLogger(__name__)

MAX_QUESTIONS: Final = 10
"""Questions to the user, and to a model, that the server may ask in one call."""

MAX_META_BYTES: Final = 65_536
"""The size of the `_meta` of a request that is passed on."""

LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""MCP's levels of log messages, the least severe first."""

LOG_LEVEL_META_KEY: Final = "io.modelcontextprotocol/logLevel"

MAX_LOG_BYTES: Final = 16_384
"""The size of the data of one log message that is passed on."""

MAX_LOG_MESSAGES: Final = 1000
"""Log messages of one call that are passed on."""

_RESERVED_META: Final = frozenset({"progressToken", "fastmcp", "_fastmcp"})
_RESERVED_META_PREFIX: Final = "io.modelcontextprotocol/"

GetRoots = Callable[[], tuple[Path, ...] | None]
"""Returns the folders of a toolkit; None if it has not said which tools may use."""


class Caller(Protocol):
    """The client of a served toolkit, during one call."""

    @property
    def identity(self) -> object:
        """What is equal for the calls of one client, and for no other."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """The `_meta` of the client's request."""

    @property
    def log_level(self) -> str | None:
        """The least severe level of the log messages that the client wants; None: it wants none."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop in which the methods are called."""

    async def elicit(self, message: str, schema: dict[str, Any]) -> ElicitResult:
        """Return what the user of the client answers to a form. Raises ToolCallError."""

    async def sample(self, params: dict[str, Any]) -> CreateMessageResult:
        """Return what the model of the client answers. Raises ToolCallError."""

    def log(self, level: str, logger: str, data: Any) -> None:
        """Send the client a log message, soon."""


current_caller: ContextVar[Caller | None] = ContextVar("current_caller", default=None)
"""The client whose call runs; None where the host calls."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ImportedCall:
    """One call of a server's tool, while it runs."""

    context: ToolContext
    caller: Caller | None
    loop: asyncio.AbstractEventLoop
    """The event loop that runs the call, and its clocks."""
    clock: IdleClock
    variables: Context
    """The context variables of the call: FastMCP reads in them which request it serves."""

    @property
    def identity(self) -> object:
        """What is equal for the calls of one client, and for no other; None for those of the host."""
        return None if self.caller is None else self.caller.identity

    async def ask(self, ask: Callable[[Caller], Coroutine[Any, Any, T]]) -> T:
        """Return what the client answers. The time until then does not count towards the timeouts of the call."""
        if (caller := self.caller) is None:
            raise ToolError("There is no client that could be asked.")

        async def ask_with_stopped_clocks() -> T:
            with self.clock.pause(), self.context._links.pause():  # noqa: SLF001  # of this package
                return await _run_in(caller.loop, self.variables, ask(caller))

        return await _run_in(self.loop, self.variables, ask_with_stopped_clocks())


running_call: ContextVar[ImportedCall | None] = ContextVar("running_call", default=None)
"""The call for which a message is sent to a server. Over HTTP and in memory, what comes back with it has it, too."""


@contextlib.contextmanager
def run_call(context: ToolContext, clock: IdleClock) -> Generator[None]:
    """Make a call the running one inside this block."""
    loop, variables = asyncio.get_running_loop(), copy_context()
    call = ImportedCall(context=context, caller=current_caller.get(), clock=clock, loop=loop, variables=variables)
    token = running_call.set(call)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # the loop was closed: this runs outside of the call's context
            running_call.reset(token)


def make_meta() -> dict[str, Any] | None:
    """Return the `_meta` for a call of a server's tool: that of the client's request, such as its trace ids.

    What belongs to the protocol between the client and the toolkit is left out, and all of it if it is too large.
    """
    if (caller := current_caller.get()) is None:
        return None
    meta = {
        name: value
        for name, value in caller.meta.items()
        if name not in _RESERVED_META and not name.startswith(_RESERVED_META_PREFIX)
    }
    try:
        check_size(meta, Budgets(tool_bytes=MAX_META_BYTES))
    except RefusedToolError:
        return None
    if caller.log_level is not None:  # only the newest protocol reads it
        meta[LOG_LEVEL_META_KEY] = caller.log_level
    return meta or None


class CallerRequests:
    """What one server asks for over one connection: it goes to the client whose call has caused it, and to no other.

    Over stdio a server does not say which call that is. While calls of different clients run, nobody is asked there.
    """

    def __init__(self, server_name: str, limits: Limits, get_roots: GetRoots) -> None:
        """Name the server in each question; `get_roots` returns the folders of the toolkit."""
        self.server_name, self._limits, self._get_roots = server_name, limits, get_roots
        self._counts: dict[ImportedCall | None, int] = {}
        """The running calls, and how many questions each has caused; None stands for calls of the host."""
        self._log_counts: dict[ImportedCall | None, int] = {}
        """How many log messages each has caused."""
        self._other_requests = 0
        """Running requests for resources and prompts, which are no calls: what they cause goes to nobody."""

    @contextlib.contextmanager
    def track(self) -> Generator[None]:
        """Let the running call cause questions inside this block."""
        call = running_call.get()
        if call is None:
            self._other_requests += 1
            try:
                yield
            finally:
                self._other_requests -= 1
            return
        self._counts[call] = 0
        try:
            yield
        finally:
            del self._counts[call]
            self._log_counts.pop(call, None)

    async def elicit(self, _context: Any, params: Any) -> ElicitResult | ErrorData:
        """Answer a question to the user: the client's user answers it. Without a client it is declined."""
        from mcp_types import ElicitResult

        answer: ElicitResult | ErrorData = await self._answer(self._elicit, params, ElicitResult(action="decline"))
        return answer

    async def sample(self, _context: Any, params: Any) -> CreateMessageResult | ErrorData:
        """Answer a request to a model: the client's model answers it. Without a client it is an error."""
        answer: CreateMessageResult | ErrorData = await self._answer(self._sample, params, None)
        return answer

    async def log(self, params: Any) -> None:
        """Send a log message to the client whose call has caused it, if it wants messages of this level."""
        try:
            call = self._find_call()
            if call is None or call.caller is None or (level := call.caller.log_level) not in LOG_LEVELS:
                return
            count = self._log_counts[call] = self._log_counts.get(call, 0) + 1
            if count > MAX_LOG_MESSAGES or LOG_LEVELS.index(params.level) < LOG_LEVELS.index(level):
                return
            check_size(params.data, Budgets(tool_bytes=MAX_LOG_BYTES))
            mask = call.context._links.make_mask()  # noqa: SLF001  # of this package
            data = map_texts(params.data, lambda text, _: escape(mask(text)))
            name = (
                f"{self.server_name}.{sanitize_text(mask(params.logger))[:100]}" if params.logger else self.server_name
            )
            call.caller.loop.call_soon_threadsafe(call.caller.log, params.level, name, data, context=call.variables)
        except (ToolError, RefusedToolError, RuntimeError):  # no client is known, or its loop was closed
            return

    async def list_roots(self, _context: Any) -> ListRootsResult:
        """Return the folders that the running call may use; without one those of the toolkit."""
        from mcp_types import ListRootsResult, Root

        try:
            call = self._find_call()
        except ToolError:
            return ListRootsResult(roots=[])
        roots = (self._get_roots() or ()) if call is None else call.context.roots
        return ListRootsResult.model_validate({"roots": [Root.model_validate({"uri": one.as_uri()}) for one in roots]})

    async def _answer(
        self, ask: Callable[[ImportedCall, Any], Coroutine[Any, Any, Any]], params: Any, none: Any
    ) -> Any:
        from mcp_types import ErrorData

        try:
            call = self._find_call()
            if none is not None and (call is None or call.caller is None):
                return none
            if call is None:
                raise ToolError("There is no client that could be asked.")
            self._counts[call] += 1
            if self._counts[call] > MAX_QUESTIONS:
                raise ToolError(f"The server has asked more than {MAX_QUESTIONS} questions in one call.")
            return await ask(call, params)
        except ToolCallError as error:
            return ErrorData(code=INVALID_REQUEST, message=error.message)
        except RefusedToolError as error:
            return ErrorData(code=INVALID_REQUEST, message=f"The question is refused: {error}.")
        except Exception:
            log.exception("A question of the MCP server %r was not answered.", self.server_name)
            return ErrorData(code=INVALID_REQUEST, message="The client could not answer.")

    def _find_call(self) -> ImportedCall | None:
        """Return the call that has caused what the server asks; None if no call runs. Raises ToolError."""
        if (call := running_call.get()) is not None:
            if call not in self._counts:
                raise ToolError("The call that has caused the question has ended.")
            return call
        calls = [call for call in self._counts if call is not None]
        if len({call.identity for call in calls}) + bool(self._other_requests) > 1:
            raise ToolError(
                "The question cannot be assigned to a client, because calls of several clients run. Call the tool "
                "again later."
            )
        return calls[-1] if calls else None

    async def _elicit(self, call: ImportedCall, params: Any) -> ElicitResult:
        if not hasattr(params, "requested_schema"):
            raise ToolError("Only forms are shown to the user, and no web pages.")
        schema = params.requested_schema
        check_size(schema, Budgets())
        mask = call.context._links.make_mask()  # noqa: SLF001  # of this package
        text = sanitize_text(mask(params.message))
        message = f"The MCP server {self.server_name!r} asks: {text}"
        form = map_texts(schema, lambda text, _: escape(mask(text)))
        return await call.ask(lambda caller: caller.elicit(message, form))

    async def _sample(self, call: ImportedCall, params: Any) -> CreateMessageResult:
        data = params.model_dump(mode="json", by_alias=True, exclude_none=True)
        check_result({**data, "content": None}, self._limits)
        for name in ("_meta", "metadata", "includeContext"):  # the contexts of other servers are not for this one
            data.pop(name, None)
        mask = call.context._links.make_mask()  # noqa: SLF001  # of this package
        data = map_texts(data, lambda text, _: mask(text))
        return await call.ask(lambda caller: caller.sample(data))


async def _run_in(loop: asyncio.AbstractEventLoop, variables: Context, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that runs in a loop, with these variables. Raises ToolError if it has ended."""
    if running_loop() is loop:
        return await loop.create_task(work, context=variables)
    try:
        future = variables.copy().run(asyncio.run_coroutine_threadsafe, work, loop)
    except RuntimeError:  # it was closed
        work.close()
        raise ToolError("The call that has caused the question has ended.") from None
    return await asyncio.wrap_future(future)
