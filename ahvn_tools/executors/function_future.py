"""A function of a caller in a worker that runs bodies of tools: the request for it, and the Future of its result."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ahvn_tools.errors import PickleError, ToolConnectionError
from ahvn_tools.execution.isolation import replies
from ahvn_tools.execution.isolation.request import CallRequest
from ahvn_tools.execution.item_limits import ItemLimits
from ahvn_tools.execution.pickling import dumps, to_import_path

T = TypeVar("T")


def encode_function(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """Return the pickled CallRequest for a function without limits. Raises PickleError."""
    request = CallRequest(
        body=to_import_path(fn),
        positional=list(args),
        named=kwargs,
        is_async=False,
        limits=ItemLimits(tool=getattr(fn, "__name__", "function"), max_items=None, max_bytes=None),
        has_reader=False,
    )
    try:
        return dumps(request)
    except Exception as error:
        raise PickleError(f"The function, or an argument, cannot be pickled: {type(error).__name__}.") from error


class FunctionFuture(concurrent.futures.Future[T]):
    """The Future of a function in a worker. Cancelling it ends the function, also while it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.cancel_call: Callable[[], None] | None = None
        """Ends the function, queued or running."""
        self._lock = threading.Lock()
        self._is_decided = False
        """Whether it was cancelled, or gets its result."""

    def cancel(self) -> bool:
        """End the function, and return whether that was in time."""
        cancel_call = self.cancel_call
        if self._decide():
            if cancel_call is not None:
                cancel_call()
            super().cancel()
            self.set_running_or_notify_cancel()
        return self.cancelled()

    def deliver(self, reply: bytes) -> None:
        """Take a reply. The last one sets the result."""
        if not replies.is_final(reply) or not self._decide():
            return
        try:
            kind, _, *payload = replies.decode(reply)
        except BaseException as error:  # noqa: BLE001  # a user's __setstate__ may raise anything, SystemExit, too
            self.set_exception(PickleError(f"The result cannot be unpickled here: {type(error).__name__}."))
            return
        if kind == "value":
            self.set_result(payload[0])
        elif kind == "error":
            self.set_exception(replies.decode_error(*payload))
        else:
            text = "cannot be loaded in a worker" if kind == "load_failed" else "cannot be sent back"
            self.set_exception(PickleError(f"The function, or its result, {text} ({payload[0]}: {payload[1]})."))

    def fail(self, reason: str) -> None:
        """Take what happened to the worker."""
        if self._decide():
            self.set_exception(ToolConnectionError(f"The worker of the function {reason}."))

    def _decide(self) -> bool:
        """Return True to the first that asks: it sets the result, or cancels the Future."""
        with self._lock:
            is_first, self._is_decided = not self._is_decided, True
            self.cancel_call = None  # it refers to this Future, which would live until the garbage collector runs
        return is_first
