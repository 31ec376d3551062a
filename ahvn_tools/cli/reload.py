"""Serve over HTTP, and start the server again in a new process when a file of its tools has changed.

This process opens the port and keeps it: clients that connect during a restart wait. The former server ends when the
new one has loaded its tools, and goes on if it cannot load them, or only without a file that the former has loaded.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Generator, Iterable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import watchfiles

from ahvn_tools.cli import output
from ahvn_tools.cli.errors import CommandError
from ahvn_tools.cli.server import HTTPOptions, ServeRequest, cannot_listen, run

if TYPE_CHECKING:
    from ahvn_tools.toolkit import Toolkit

SUFFIXES: Final = frozenset({".py", ".yaml", ".yml"})
"""Files with these suffixes cause a restart: data that tools write beside their code must not."""

STOP_SECONDS: Final = 8.0
"""Seconds that a server has to end, which is more than it allows itself."""

POLL_MILLISECONDS: Final = 500
"""How often it is checked whether this process should end, and whether the server has ended by itself."""

_SKIPPED_FOLDERS: Final = frozenset({"__pycache__", "node_modules", "site-packages"})


def serve_with_reload(request: ServeRequest) -> None:
    """Serve until this process is stopped, with a new server process after each change."""
    assert request.http is not None  # noqa: S101  # checked by the command
    with _open_listener(request.http) as listener, _stop_signal() as stop:
        server = _Server(request, listener)
        changes = _watch(request, server, stop)
        next(changes, None)  # a change while the tools are loaded counts, too
        try:
            server.start(stop)
            for changed in changes:
                if not changed:
                    server.check()
                    continue
                output.print_message(f"Changed: {', '.join(sorted(path.name for path in changed))}. Loading again.")
                server.replace(stop)
        finally:
            server.stop()


class _Server:
    """The process that serves now. Another one replaces it only when that one has loaded its tools."""

    def __init__(self, request: ServeRequest, listener: socket.socket) -> None:
        self._request, self._listener = request, listener
        self._process: BaseProcess | None = None
        self.folders: frozenset[Path] = frozenset()
        """The folders of the modules that it has loaded."""
        self._skipped: frozenset[str] = frozenset()
        """The files that it could not load, and serves the others without."""

    def start(self, stop: threading.Event) -> None:
        """Start a server, and wait until it has loaded its tools or has failed to."""
        self._process = self._launch(stop)
        if self._process is None and not stop.is_set():
            output.print_message("Nothing is served. Waiting for a change.")

    def replace(self, stop: threading.Event) -> None:
        """Start another server, and end the former one."""
        started = self._launch(stop)
        if started is not None:
            self.stop()
            self._process = started
        elif not stop.is_set():
            is_alive = self._process is not None and self._process.is_alive()
            former = "The former server goes on." if is_alive else "Nothing is served."
            output.print_message(f"{former} Waiting for a change.")

    def check(self) -> None:
        """Say so if the server has ended by itself."""
        if self._process is not None and not self._process.is_alive():
            self._process = None
            output.print_message("The server process has ended. Waiting for a change.")

    def stop(self) -> None:
        """End the server."""
        if self._process is not None:
            _end(self._process)
            self._process = None

    def _launch(self, stop: threading.Event) -> BaseProcess | None:
        """Return a process that has loaded its tools; None if it cannot."""
        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        is_replaced = self._process is not None and self._process.is_alive()
        arguments = (self._request, self._listener, sender, self._skipped if is_replaced else None)
        process = context.Process(target=_serve, args=arguments)
        process.start()
        sender.close()
        try:
            with receiver:
                while not receiver.poll(POLL_MILLISECONDS / 1000):
                    if stop.is_set():
                        _end(process)
                        return None
                self.folders, self._skipped = receiver.recv()
        except EOFError:  # it has reported its error on stderr
            process.join(STOP_SECONDS)
            return None
        except KeyboardInterrupt:
            _end(process)
            raise
        return process


def _end(process: BaseProcess) -> None:
    process.terminate()
    process.join(STOP_SECONDS)
    if process.is_alive():
        process.kill()
        process.join()


def _watch(request: ServeRequest, server: _Server, stop: threading.Event) -> Iterator[set[Path]]:
    """Yield the files of each change, and nothing from time to time, until this process should end."""
    named = frozenset(path.resolve() for source in request.sources if (path := _find_path(source)) is not None)

    def is_watched(_change: Any, path: str) -> bool:
        return Path(path).suffix in SUFFIXES or Path(path) in named

    while not stop.is_set():
        watched = _source_folders(request.sources) | server.folders
        changes_of_folders = watchfiles.watch(
            *watched,
            watch_filter=is_watched,
            stop_event=stop,
            rust_timeout=POLL_MILLISECONDS,
            yield_on_timeout=True,
            recursive=False,
            ignore_permission_denied=True,
        )
        loaded = server.folders
        for changes in changes_of_folders:
            yield {Path(path) for _, path in changes}
            if not changes and not watched >= server.folders:
                break  # all changes of the folders so far were seen
            if changes or loaded != server.folders:
                loaded = server.folders
                if not watched >= _source_folders(request.sources):
                    break


def _find_path(source: str) -> Path | None:
    """Return the file or folder that a source names, with or without a prefix or the name of an object in it."""
    start, _, end = source.partition(":")
    return next((Path(text) for text in (source, start, end) if text and Path(text).exists()), None)


def _source_folders(sources: Iterable[str]) -> frozenset[Path]:
    """Return the folders of the files, and all folders in the folders, among some sources."""
    folders: set[Path] = set()
    for path in map(_find_path, sources):
        if path is not None:
            folders.update(_walk(path.resolve()) if path.is_dir() else [path.resolve().parent])
    return frozenset(folders or {Path.cwd()})


def _walk(folder: Path) -> Generator[Path]:
    for root, names, _ in os.walk(folder):
        names[:] = [name for name in names if name not in _SKIPPED_FOLDERS and not name.startswith(".")]
        yield Path(root)


@contextlib.contextmanager
def _open_listener(http: HTTPOptions) -> Generator[socket.socket]:
    family = socket.AF_INET6 if ":" in http.host else socket.AF_INET
    try:
        listener = socket.create_server((http.host, http.port), family=family)
    except OSError as error:
        raise cannot_listen(http, error) from error
    with listener:
        yield listener


@contextlib.contextmanager
def _stop_signal() -> Generator[threading.Event]:
    """Yield an event that SIGTERM sets."""
    stop = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, before)


# in the process that serves


def _serve(
    request: ServeRequest, listener: socket.socket, ready: Connection, skipped_before: frozenset[str] | None
) -> None:
    """Load the tools, report the folders of their modules and the files that were skipped, and serve.

    `skipped_before` are the files that the server which this one replaces has skipped; None if it replaces none.
    """
    from ahvn_tools.cli.app import run_command

    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)  # Ctrl-C in the terminal is for the process that watches, which ends this one
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def report(kit: Toolkit) -> None:
        skipped = frozenset(error.file or str(error) for error in kit.load_errors)
        if skipped_before is not None and (lost := sorted(skipped - skipped_before)):
            raise CommandError(f"{', '.join(lost)}: cannot be loaded any more.")
        with ready:
            ready.send((frozenset(_module_folders()), skipped))

    sys.exit(run_command(lambda: run(request, sockets=[listener], on_loaded=report)))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        signal.raise_signal(signal.SIGTERM)


def _module_folders() -> set[Path]:
    """Return the folders of the loaded modules that are not installed."""
    installed = (Path(sys.base_prefix), Path(sys.prefix), Path(__file__).parents[1])
    files = [
        file for module in list(sys.modules.values()) if isinstance(file := getattr(module, "__file__", None), str)
    ]
    folders = {Path(file).resolve().parent for file in files}
    return {folder for folder in folders if not any(folder.is_relative_to(prefix) for prefix in installed)}
