"""Pins: stored fingerprints of a server's tools, so that a tool that changes is noticed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout

from ahvn_tools import atomic_file
from ahvn_tools.errors import ToolkitError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.mcp.trust.changes import to_wire
from ahvn_tools.regular_file import read_regular

FILE_VERSION: Final = 1

LOCK_TIMEOUT_SECONDS: Final = 10.0
"""Seconds to wait for another process or thread that holds the lock."""

MAX_DEFINITION_CHARS: Final = 20_000_000
"""The size up to which definitions of pinned tools are stored."""

ToolPins = dict[str, dict[str, str]]
"""The SHA-256 of each field of each wire object, by tool name and field name. A tool without fields was forgotten."""

UNKNOWN: Final = "new"
"""What `Pins.check` says of a tool that is not pinned although its server is known."""


class Pins:
    """The fingerprints of the tools of some servers, in a file.

    The tools of a server are trusted the first time it is seen. Later, one that differs from its pin has changed, and
    one without a pin is new. A tool that its server no longer lists stays pinned, so it cannot come back with another
    definition. A lock file (`<path>.lock`) keeps other
    processes and threads out. Every method reads or writes the file in the caller's thread. The definitions themselves
    are in `<path>.definitions`, so that a person can see what has changed; nothing else depends on that file.
    """

    def __init__(self, path: str | os.PathLike[str], *, must_exist: bool = False) -> None:
        """Use the file at `path`; unless it `must_exist`, the first `check` creates a missing one.

        A file that this object has read or written must not disappear. Raises ToolkitError for a file that is missing
        or cannot be read.
        """
        self.path = Path(path)
        self._must_exist = must_exist
        self._read()

    def check(self, server: str, wire_tools: Iterable[Any]) -> dict[str, str]:
        """Pin the tools of a new server, and those that were forgotten. Return all others that differ from their pins.

        It returns names, with the fields that changed, or `UNKNOWN` for a tool that is not pinned.

        Tools are `mcp.types.Tool`s or wire objects, exactly as the server sent them.
        """
        wires = [to_wire(tool) for tool in wire_tools]
        current = _hash_tools(wires)
        with self._transaction() as servers:
            pinned = servers.get(server)
            trusted = set(current) if pinned is None else {name for name in current if pinned.get(name) == {}}
            pinned = pinned or {}
            servers[server] = {**pinned, **{name: current[name] for name in trusted}}
            self._store_definitions(server, wires, trusted)
            return {
                name: _describe_change(pinned.get(name), after)
                for name, after in current.items()
                if name not in trusted and pinned.get(name) != after
            }

    def accept(self, server: str, wire_tools: Iterable[Any]) -> None:
        """Pin tools as they are now."""
        wires = [to_wire(tool) for tool in wire_tools]
        current = _hash_tools(wires)
        with self._transaction() as servers:
            servers.setdefault(server, {}).update(current)
            self._store_definitions(server, wires, current.keys())

    def definition(self, server: str, name: str) -> JsonObject | None:
        """Return the wire object of a tool as it was pinned; None if it is not known.

        It is what the pin says, also if something else has written the file of the definitions.
        """
        wire = self._read_definitions().get(server, {}).get(name)
        pinned = self._read().get(server, {}).get(name)
        return wire if pinned is not None and _hash_tools([wire]).get(name) == pinned else None

    def forget(self, server: str, names: Iterable[str] | None = None) -> None:
        """Forget some tools of a server, or all; the next `check` trusts those tools as they are."""
        with self._transaction() as servers:
            if names is None:
                servers.pop(server, None)
            for name in names or ():
                if server in servers:
                    servers[server][name] = {}

    @property
    def _definitions_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.definitions")

    def _read_definitions(self) -> dict[str, Any]:
        """Return the definitions by server and tool name; none of a file that cannot be used."""
        with contextlib.suppress(OSError, ValueError, RecursionError):
            data = json.loads(read_regular(self._definitions_path).decode())
            if isinstance(data, dict) and all(isinstance(tools, dict) for tools in data.values()):
                return data
        return {}

    def _store_definitions(self, server: str, wires: list[JsonObject], names: Collection[str]) -> None:
        """Add the definitions of these tools, the first of each name, as far as there is room."""
        if not names:
            return
        stored = self._read_definitions()
        named = [(wire.get("name"), wire) for wire in reversed(wires)]
        tools = {name: wire for name, wire in named if isinstance(name, str) and name in names}
        stored[server] = {**stored.get(server, {}), **tools}
        text = json.dumps(stored, indent=1, sort_keys=True)
        if len(text) <= MAX_DEFINITION_CHARS:
            atomic_file.write_text(self._definitions_path, text + "\n", new_mode=0o600)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[dict[str, ToolPins]]:
        """Lock the file, yield its pins for changes, and write them if the block changed them."""
        with self._acquire_lock():
            before = self._read()
            servers = {server: dict(tools) for server, tools in before.items()}
            yield servers
            if servers != before:
                self._write(servers)

    def _acquire_lock(self) -> contextlib.AbstractContextManager[object]:
        lock_path = f"{self.path}.lock"
        try:
            if not self.path.parent.exists():  # filelock would create it
                raise ToolkitError(f"The folder {str(self.path.parent)!r} of the pins does not exist; create it.")
            return FileLock(lock_path, timeout=LOCK_TIMEOUT_SECONDS).acquire()
        except Timeout:
            raise ToolkitError(
                f"{str(self.path)!r} was locked for {LOCK_TIMEOUT_SECONDS:g} seconds; end the process that holds it."
            ) from None
        except OSError as error:
            raise ToolkitError(
                f"{lock_path!r} cannot be written ({type(error).__name__}); use a folder that is writable."
            ) from error

    def _read(self) -> dict[str, ToolPins]:
        try:
            data = json.loads(read_regular(self.path).decode())
        except FileNotFoundError:
            if not self._must_exist:
                return {}
            raise ToolkitError(
                f"The pins in {str(self.path)!r} are gone; put the file back, or store new pins under another path."
            ) from None
        except OSError as error:
            raise self._unreadable_error(error.strerror or type(error).__name__) from error
        except (ValueError, RecursionError):  # neither UTF-8 nor JSON
            raise self._unreadable_error("it is not JSON") from None
        self._must_exist = True
        if not isinstance(data, dict) or data.get("version") != FILE_VERSION or not _are_pins(data.get("servers")):
            raise self._unreadable_error("it does not contain pins")
        servers: dict[str, ToolPins] = data["servers"]
        return servers

    def _unreadable_error(self, reason: str) -> ToolkitError:
        return ToolkitError(
            f"The pins in {str(self.path)!r} cannot be read ({reason}); restore the file. "
            "To trust what the servers list now, delete it: the next start pins the tools again."
        )

    def _write(self, servers: dict[str, ToolPins]) -> None:
        text = json.dumps({"version": FILE_VERSION, "servers": servers}, indent=2, sort_keys=True)
        atomic_file.write_text(self.path, text + "\n", new_mode=0o600)
        self._must_exist = True


def _hash_tools(wire_tools: Iterable[Any]) -> ToolPins:
    """Return the hashes of each tool: of two with one name, the first; a tool without a name cannot be called."""
    hashes: ToolPins = {}
    for wire in map(to_wire, wire_tools):
        name = wire.get("name")
        if isinstance(name, str) and name not in hashes:
            hashes[name] = {field: _sha256(value) for field, value in wire.items()}
    return hashes


def _describe_change(before: dict[str, str] | None, after: dict[str, str]) -> str:
    if before is None:
        return UNKNOWN
    return ", ".join(sorted(key for key in before | after if before.get(key) != after.get(key)))


def _sha256(value: Any) -> str:
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _are_pins(value: Any, depth: int = 3) -> bool:
    """Return whether a value is texts in nested dicts: by server, tool and field."""
    if depth == 0:
        return isinstance(value, str)
    return isinstance(value, dict) and all(_are_pins(part, depth - 1) for part in value.values())
