"""Pins: fingerprints of a server's tools as they came, so that a tool that has changed is noticed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from ahvn_tools.errors import ToolkitError
from ahvn_tools.mcp.trust.file_lock import file_lock
from ahvn_tools.mcp.trust.wire import JsonObject, to_wire

FILE_VERSION: Final = 1

FieldHashes = dict[str, str]
"""The SHA-256 of each field of a wire object, by the field's name."""


class Pins:
    """The fingerprints of the tools of some servers, in a file.

    A tool is trusted when it is first seen, and changed when it is not what it was then. A tool that its server no
    longer lists stays pinned, so it cannot come back as another one. Reading and writing is locked against other
    processes and threads. Every method reads or writes the file, in the caller's own thread.
    """

    def __init__(self, path: str | os.PathLike[str], *, must_exist: bool = False) -> None:
        """Pins in the file at `path`; without one, the first `changed` makes it, unless it `must_exist`.

        A file that this object has seen once must stay: one that is gone is an error. Raises ToolkitError for a file
        that is missing or cannot be read.
        """
        self.path = Path(path)
        self._must_exist = must_exist
        self._read()

    def check(self, server: str, wire_tools: Iterable[Any]) -> dict[str, str]:
        """Return the names of the tools that are not what was pinned, each with what changed; pin the new ones.

        Tools are `mcp.types.Tool`s or wire objects, as they came: not screened, nothing renamed.
        """
        seen = {name: _hash_fields(wire) for name, wire in _index_by_name(wire_tools).items()}
        with self._transaction() as servers:
            pinned = servers.setdefault(server, {})
            for name, fields in seen.items():
                pinned.setdefault(name, fields)
            return {
                name: _describe_changes(pinned[name], fields) for name, fields in seen.items() if pinned[name] != fields
            }

    def accept(self, server: str, wire_tools: Iterable[Any]) -> None:
        """Pin tools as they are now."""
        seen = {name: _hash_fields(wire) for name, wire in _index_by_name(wire_tools).items()}
        with self._transaction() as servers:
            servers.setdefault(server, {}).update(seen)

    def forget(self, server: str, names: Iterable[str] | None = None) -> None:
        """Forget the pins of some tools of a server, or of all of them; the next `changed` trusts what it sees."""
        with self._transaction() as servers:
            if names is None:
                servers.pop(server, None)
            for name in names or ():
                servers.get(server, {}).pop(name, None)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[dict[str, dict[str, FieldHashes]]]:
        """Give the pins to read and to change; what changed is written when the block ends."""
        with file_lock(self.path):
            before = self._read()
            servers: dict[str, dict[str, FieldHashes]] = json.loads(json.dumps(before))
            yield servers
            if servers != before:
                self._write(servers)

    def _read(self) -> dict[str, dict[str, FieldHashes]]:
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            if not self._must_exist:
                return {}
            raise ToolkitError(
                f"The pins in {str(self.path)!r} are gone; put the file back, or make new pins in another place."
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise self._unreadable_error(type(error).__name__) from error
        self._must_exist = True
        return self._parse(text)

    def _parse(self, text: str) -> dict[str, dict[str, FieldHashes]]:
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            raise self._unreadable_error("it is no JSON") from None
        if not isinstance(data, dict) or data.get("version") != FILE_VERSION or not _are_pins(data.get("servers")):
            raise self._unreadable_error("it does not hold pins")
        servers: dict[str, dict[str, FieldHashes]] = data["servers"]
        return servers

    def _unreadable_error(self, reason: str) -> ToolkitError:
        return ToolkitError(
            f"The pins in {str(self.path)!r} cannot be read ({reason}); restore the file. "
            "To trust what the servers list now, delete it and make the pins anew."
        )

    def _write(self, servers: dict[str, dict[str, FieldHashes]]) -> None:
        text = json.dumps({"version": FILE_VERSION, "servers": servers}, indent=2, sort_keys=True)
        handle, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        self._must_exist = True


def _index_by_name(wire_tools: Iterable[Any]) -> dict[str, JsonObject]:
    found: dict[str, JsonObject] = {}
    for tool in wire_tools:
        wire = to_wire(tool)
        if isinstance(name := wire.get("name"), str):  # else it is no tool, and nobody can call it
            found.setdefault(name, wire)
    return found


def _hash_fields(wire: JsonObject) -> FieldHashes:
    return {field: _sha256(value) for field, value in wire.items()}


def _sha256(value: Any) -> str:
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _describe_changes(before: FieldHashes, after: FieldHashes) -> str:
    return ", ".join(sorted(field for field in before | after if before.get(field) != after.get(field)))


def _are_pins(servers: Any) -> bool:
    return isinstance(servers, dict) and all(
        isinstance(tools, dict)
        and all(
            isinstance(fields, dict) and all(isinstance(text, str) for text in fields.values())
            for fields in tools.values()
        )
        for tools in servers.values()
    )
