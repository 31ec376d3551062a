"""DaskExecutor: functions and bodies of tools run in the workers of a Dask cluster."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import TYPE_CHECKING, Any, Final

from ahvn_tools.errors import DefinitionError, unknown_options
from ahvn_tools.execution.background_loop import running_loop
from ahvn_tools.execution.workers.call_executor import CallExecutor, CallObserver, CallTask, RunningCall

if TYPE_CHECKING:
    from distributed import Client

    from ahvn_tools.executors.dask.dask_call import DaskCall

LOOP_SECONDS: Final = 10.0
"""How long a call waits for the event loop of the client to accept it."""

_SUBMIT_OPTIONS: Final = frozenset(
    {"allow_other_workers", "fifo_timeout", "priority", "resources", "retries", "workers"}
)


class DaskExecutor(CallExecutor):
    """Runs functions and the bodies of tools in the workers of a Dask cluster. Needs the extra `dask`.

    Each runs in a process of its worker's computer that is killed, with all that it has started, when
    the call is cancelled or exceeds its timeout, and when the client or the worker ends. With `killable=False` it runs
    in a thread of the Dask worker, where it can use `distributed.get_worker()` and what the worker holds, such as a
    GPU; then its ToolContext is cancelled, and nothing waits for it.

    Other options are those of `Client.submit` that choose a worker, for each call: `resources`, `workers`,
    `allow_other_workers`, `priority`, `fifo_timeout` and `retries`. The client may be asynchronous.
    """

    def __init__(self, client: Client, *, killable: bool = True, **options: Any) -> None:
        """Raises DefinitionError if `client` is not a distributed.Client, and for unknown options."""
        try:
            from distributed import Client
        except ImportError as error:
            raise DefinitionError('DaskExecutor needs distributed: pip install "ahvn-tools[dask]"') from error
        if not isinstance(client, Client):
            raise DefinitionError(f"DaskExecutor takes a distributed.Client, not a {type(client).__name__}.")
        if unknown := unknown_options(options, sorted({"killable", *_SUBMIT_OPTIONS})):
            raise DefinitionError(f"DaskExecutor: {unknown}")
        self._client = client
        self._is_killable = killable
        self._options = options
        self._condition = threading.Condition()
        self._running: dict[DaskCall, asyncio.Task[None] | None] = {}
        self._is_shut_down = False

    def start_call(self, task: CallTask, observer: CallObserver) -> RunningCall:
        """Run the body of a tool in a Dask worker. Raises RuntimeError when the client takes no work."""
        from ahvn_tools.executors.dask.dask_call import DaskCall

        loop = self._check()
        call = DaskCall(
            self._client,
            task,
            observer,
            is_killable=self._is_killable,
            submit_options=self._options,
        )
        self._start(loop, call)
        return call

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls. Wait until those that run have ended; `cancel_futures` cancels them.

        The client stays open.
        """
        with self._condition:
            self._is_shut_down = True
            running = list(self._running)
        for call in running if cancel_futures else ():
            call.end()
        if not wait or not running:
            return
        if running_loop() is self._client.loop.asyncio_loop:
            raise RuntimeError("The event loop of the Dask client cannot wait for its own calls: shutdown(wait=False).")
        with self._condition:
            self._condition.wait_for(lambda: not self._running)

    def _check(self) -> asyncio.AbstractEventLoop:
        """Return the event loop of the client. Raises RuntimeError if it takes no work."""
        if self._is_shut_down:
            raise RuntimeError("The executor was shut down: create a new one.")
        if self._client.status != "running":
            raise RuntimeError(f"The Dask client is {self._client.status}.")
        loop: asyncio.AbstractEventLoop = self._client.loop.asyncio_loop
        return loop

    def _start(self, loop: asyncio.AbstractEventLoop, call: DaskCall) -> None:
        """Run the coroutine of a call in the event loop of the client. Raises RuntimeError if it is blocked."""
        accepted: concurrent.futures.Future[None] = concurrent.futures.Future()
        with self._condition:
            self._running[call] = None

        def start() -> None:
            if accepted.set_running_or_notify_cancel():
                with self._condition:
                    task = self._running[call] = loop.create_task(call.run())
                task.add_done_callback(lambda _: self._remove(call))
                accepted.set_result(None)

        try:
            loop.call_soon_threadsafe(start)
            if running_loop() is not loop:
                accepted.result(LOOP_SECONDS)
        except (RuntimeError, TimeoutError) as error:
            if accepted.cancel():
                self._remove(call)
                raise RuntimeError(
                    "The event loop of the Dask client does not run, or is blocked by a sync call."
                ) from error

    def _remove(self, call: DaskCall) -> None:
        with self._condition:
            self._running.pop(call, None)
            self._condition.notify_all()
