"""FunctionCall: one function in a Dask worker, as a Future of concurrent.futures."""

from __future__ import annotations

import concurrent.futures
import contextlib
from typing import Generic, TypeVar

from distributed import Client, Future
from distributed.client import FutureCancelledError

T = TypeVar("T")


class FunctionCall(Generic[T]):
    """A function that was submitted. Its coroutine runs in the event loop of the client."""

    def __init__(self, client: Client, dask_future: Future[T]) -> None:
        self.future: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._client = client
        self._dask_future = dask_future
        self.future.add_done_callback(self._cancel_task)

    def end(self) -> None:
        """Cancel the Future."""
        self.future.cancel()

    async def run(self) -> None:
        """Wait for the result, and set it."""
        try:
            result = await self._dask_future
        except FutureCancelledError:
            self.future.cancel()
            self.future.set_running_or_notify_cancel()
        except BaseException as error:
            if self.future.set_running_or_notify_cancel():
                self.future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            if self.future.set_running_or_notify_cancel():
                self.future.set_result(result)
        finally:
            self._dask_future.release()

    def _cancel_task(self, future: concurrent.futures.Future[T]) -> None:
        if future.cancelled() and not self._dask_future.done():
            with contextlib.suppress(RuntimeError):  # the loop has ended, and the task with it
                self._client.loop.add_callback(self._client.cancel, [self._dask_future])
