"""RememberedRule: a call that an approver has approved for always, and the file that keeps such rules."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Generator, Iterable, Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final

from ahvn_tools import atomic_file
from ahvn_tools.errors import ToolkitError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware.pending import is_same_json, rule_text
from ahvn_tools.regular_file import open_regular
from ahvn_tools.secret_key import SecretKey

MAX_BYTES: Final = 4_000_000
"""The maximum size of a file."""

LOCK_SECONDS: Final = 5.0
"""How long a process waits for another one that writes the file."""

_PURPOSE: Final = "remembered rule"
_VERSION: Final = 1


@dataclass(frozen=True, kw_only=True)
class RememberedRule:
    """One tool with exactly these arguments."""

    tool: str
    fingerprint: str
    """That of the tool's definition: a tool that changes is asked for again."""
    arguments: JsonObject
    """All arguments, with the defaults of those that the call has left out."""

    @property
    def text(self) -> str:
        """The rule as a person reads it."""
        return rule_text(self.tool, self.arguments)

    def is_for(self, tool: str, fingerprint: str, arguments: Mapping[str, Any]) -> bool:
        """Return whether a call is the one that was approved."""
        return (tool, fingerprint) == (self.tool, self.fingerprint) and is_same_json(self.arguments, dict(arguments))


class RuleFile:
    """Remembered rules in a file, each signed with the toolkit's key: what only writes the file cannot add one."""

    def __init__(self, path: str | PathLike[str], key: SecretKey) -> None:
        """Read the file, if there is one. Raises ToolkitError for a file that cannot be used, and for a random key."""
        if key.is_random:
            raise ToolkitError("A file of remembered rules needs a key that stays: pass secret_key=… to the Toolkit.")
        self.path, self._key = Path(path).parent.resolve() / Path(path).name, key
        self._lock = threading.Lock()
        self._known: tuple[tuple[int, ...] | None, tuple[RememberedRule, ...]] = (None, ())
        self.read()

    def read(self) -> tuple[RememberedRule, ...]:
        """Return the rules, as any process has written them last. Raises ToolkitError for a file that is not valid."""
        try:
            descriptor = open_regular(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise self._error(str(error)) from error
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            version = (status.st_ino, status.st_mtime_ns, status.st_size)
            if version != self._known[0]:
                if hasattr(os, "geteuid") and (status.st_uid != os.geteuid() or status.st_mode & 0o022):
                    raise self._error("it must belong to the user of this process, and nobody else may write to it")
                if status.st_size > MAX_BYTES:
                    raise self._error(f"it has more than {MAX_BYTES:,} bytes")
                self._known = version, self._parse(file.read(MAX_BYTES))
        return self._known[1]

    def add(self, rule: RememberedRule) -> None:
        """Add a rule. Raises ToolkitError if it cannot be written."""
        with self._locked():
            rules = self.read()
            if rule not in rules:
                self._write((*rules, rule))

    def remove(self, text: str) -> None:
        """Remove the rules with a text. Raises as `add` does."""
        with self._locked():
            self._write(rule for rule in self.read() if rule.text != text)

    @contextlib.contextmanager
    def _locked(self) -> Generator[None]:
        """Let no other process write before this one has written: it would bring back a rule that was forgotten."""
        with self._lock:
            try:
                descriptor = os.open(self.path.parent, os.O_RDONLY) if os.name == "posix" else None
            except OSError as error:
                raise self._error(str(error)) from error
            try:
                if descriptor is not None:
                    self._lock_folder(descriptor)
                yield
            finally:
                if descriptor is not None:
                    os.close(descriptor)

    def _lock_folder(self, descriptor: int) -> None:
        import fcntl  # Windows has no such module

        end = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end:
                    raise self._error("another process has locked its folder; try again later") from None
            except OSError as error:
                raise self._error(str(error)) from error
            time.sleep(0.01)

    def _write(self, rules: Iterable[RememberedRule]) -> None:
        data = [{**asdict(rule), "signature": self._key.digest(_PURPOSE, asdict(rule))} for rule in rules]
        text = json.dumps({"version": _VERSION, "rules": data}, indent=1)
        if len(text) > MAX_BYTES:
            raise self._error(f"it would have more than {MAX_BYTES:,} bytes; forget some rules")
        try:
            atomic_file.write_text(self.path, text, new_mode=0o600)
        except OSError as error:
            raise self._error(str(error)) from error

    def _parse(self, content: bytes) -> tuple[RememberedRule, ...]:
        try:
            data = json.loads(content)
            if data.keys() != {"version", "rules"} or data["version"] != _VERSION:
                raise ValueError("its keys are not those of this version")
            return tuple(map(self._parse_rule, data["rules"]))
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            raise self._error(f"it is not as this toolkit writes it: {error}") from None

    def _parse_rule(self, data: dict[str, Any]) -> RememberedRule:
        signature = data.pop("signature")
        if not self._key.is_digest(signature, _PURPOSE, data):  # so its members are those that were written
            raise ValueError("a rule was changed, or signed with another secret_key")
        return RememberedRule(**data)

    def _error(self, reason: str) -> ToolkitError:
        return ToolkitError(f"The file of remembered rules {str(self.path)!r} cannot be used: {reason}.")
