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
from ahvn_tools.errors import ToolCallError, ToolError
from ahvn_tools.execution.background_loop import running_loop
from ahvn_tools.invisible import escape
from ahvn_tools.mcp.client.errors import INVALID_REQUEST, sanitize_text
from ahvn_tools.mcp.trust.limits import Budgets, RefusedToolError, check_size

if TYPE_CHECKING:  # slow
    from mcp_types import ElicitResult, ErrorData, ListRootsResult

T = TypeVar("T")


log = logging.getLogger(__name__)

MAX_QUESTIONS: Final = 10
"""Questions to the user that the server may ask in one call."""

MAX_META_BYTES: Final = 65_536
"""The size of the `_meta` of a request that is passed on."""

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
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop in which the methods are called."""

    async def elicit(self, message: str, schema: dict[str, Any]) -> ElicitResult:
        """Return what the user of the client answers to a form. Raises ToolCallError."""


current_caller: ContextVar[Caller | None] = ContextVar("current_caller", default=None)
"""The client whose call runs; None where the host calls."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RunningCall:
    """One call of a server's tool, while it runs."""

    context: ToolContext
    caller: Caller | None
    loop: asyncio.AbstractEventLoop
    """The event loop that runs the call, and the clock of its timeout."""
    variables: Context
    """The context variables of the call: FastMCP reads in them which request it serves."""

    @property
    def identity(self) -> object:
        """What is equal for the calls of one client, and for no other; None for those of the host."""
        return None if self.caller is None else self.caller.identity


running_call: ContextVar[RunningCall | None] = ContextVar("running_call", default=None)
"""The call for which a message is sent to a server. Over HTTP and in memory, what comes back with it has it, too."""


@contextlib.contextmanager
def run_call(context: ToolContext) -> Generator[None]:
    """Make a call the running one inside this block."""
    loop, variables = asyncio.get_running_loop(), copy_context()
    call = RunningCall(context=context, caller=current_caller.get(), loop=loop, variables=variables)
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
    return meta or None


class CallerRequests:
    """What one server asks for over one connection: it goes to the client whose call has caused it, and to no other.

    Over stdio a server does not say which call that is. While calls of different clients run, nobody is asked there.
    """

    def __init__(self, server_name: str, get_roots: GetRoots) -> None:
        """Name the server in each question; `get_roots` returns the folders of the toolkit."""
        self.server_name, self._get_roots = server_name, get_roots
        self._counts: dict[RunningCall, int] = {}
        """The running calls, and how many questions each has caused."""

    @contextlib.contextmanager
    def track(self) -> Generator[None]:
        """Let the running call cause questions inside this block."""
        if (call := running_call.get()) is None:
            yield
            return
        self._counts[call] = 0
        try:
            yield
        finally:
            del self._counts[call]

    async def elicit(self, _context: Any, params: Any) -> ElicitResult | ErrorData:
        """Answer a question to the user: the client's user answers it. Without a client it is declined."""
        from mcp_types import ElicitResult, ErrorData

        try:
            call = self._find_call()
            if call is None or call.caller is None:
                return ElicitResult(action="decline")
            self._counts[call] += 1
            if self._counts[call] > MAX_QUESTIONS:
                raise ToolError(f"The server has asked more than {MAX_QUESTIONS} questions in one call.")
            return await self._ask(call, call.caller, params)
        except ToolCallError as error:
            return ErrorData(code=INVALID_REQUEST, message=error.message)
        except RefusedToolError as error:
            return ErrorData(code=INVALID_REQUEST, message=f"The question is refused: {error}.")
        except Exception:
            log.exception("A question of the MCP server %r was not answered.", self.server_name)
            return ErrorData(code=INVALID_REQUEST, message="The client could not answer.")

    async def list_roots(self, _context: Any) -> ListRootsResult:
        """Return the folders that the running call may use; without one those of the toolkit."""
        from mcp_types import ListRootsResult, Root

        try:
            call = self._find_call()
        except ToolError:
            return ListRootsResult(roots=[])
        roots = (self._get_roots() or ()) if call is None else call.context.roots
        return ListRootsResult.model_validate({"roots": [Root.model_validate({"uri": one.as_uri()}) for one in roots]})

    def _find_call(self) -> RunningCall | None:
        """Return the call that has caused what the server asks; None if no call runs. Raises ToolError."""
        if (call := running_call.get()) is not None:
            if call not in self._counts:
                raise ToolError("The call that has caused the question has ended.")
            return call
        calls = list(self._counts)
        if len({call.identity for call in calls}) > 1:
            raise ToolError(
                "The question cannot be assigned to a client, because calls of several clients run. Call the tool "
                "again later."
            )
        return calls[-1] if calls else None

    async def _ask(self, call: RunningCall, caller: Caller, params: Any) -> ElicitResult:
        """Return what the client answers. The time until then does not count towards the timeouts of the call."""
        if not hasattr(params, "requested_schema"):
            raise ToolError("Only forms are shown to the user, and no web pages.")
        check_size(params.requested_schema, Budgets())
        links = call.context._links  # noqa: SLF001  # of this package
        message = f"The MCP server {self.server_name!r} asks: {sanitize_text(links.mask(params.message))}"
        form = map_texts(params.requested_schema, lambda text: escape(links.mask(text)))

        async def ask_with_stopped_clock() -> ElicitResult:
            with links.pause():
                return await _run_in(caller.loop, call.variables, caller.elicit(message, form))

        return await _run_in(call.loop, call.variables, ask_with_stopped_clock())


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return JSON with each text changed; names of members stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [map_texts(item, change) for item in value]
    return {name: map_texts(item, change) for name, item in value.items()} if isinstance(value, dict) else value


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
