"""SavedProgram: a program whose calls wait, for approvals or results, as JSON data inside of the signed requests."""

from __future__ import annotations

import base64
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Self

from ahvn_tools.code_mode.running_program import ProgramCall, ProgramState
from ahvn_tools.errors import ToolkitError
from ahvn_tools.json_types import JsonObject

VERSION: Final = 1
_TEXTS: Final = ("id", "call_id", "tool", "caller", "code", "sandbox")
"""The fields that are JSON data as they are."""
MAX_SNAPSHOT_BYTES: Final = 50_000_000
"""How large the state of a program is at most, when it is unpacked."""


@dataclass(frozen=True, kw_only=True)
class ProgramFunction:
    """What a name in a program stood for when the program was started."""

    tool: str
    fingerprint: str
    """The fingerprint of the tool's definition."""


@dataclass(frozen=True, kw_only=True)
class SavedProgram:
    """A program whose calls wait for approvals, or for results from outside."""

    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Unique: the program continues from here once."""
    call_id: str
    """The call of the program as a whole."""
    tool: str
    """The name of the tool that runs programs."""
    caller: str | None
    """Who has called that tool, as `ToolCall.caller` says; None: the host."""
    code: str
    sandbox: str
    """The version of the sandbox."""
    snapshot: bytes
    state: ProgramState
    functions: Mapping[str, ProgramFunction]
    """The functions that the program mentions."""
    requests: Mapping[int, JsonObject]
    """The requests without this program and without a signature, by the ids of their calls in the sandbox."""

    def to_json(self) -> JsonObject:
        """Return JSON data."""
        state = asdict(self.state)
        return {
            "version": VERSION,
            **{name: getattr(self, name) for name in _TEXTS},
            "snapshot": base64.b64encode(zlib.compress(self.snapshot)).decode(),
            **state,
            "waiting": {str(key): call for key, call in state["waiting"].items()},
            "functions": {name: [function.tool, function.fingerprint] for name, function in self.functions.items()},
            "requests": {str(key): request for key, request in self.requests.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the program of signed data. Raises ToolkitError for that of another version."""
        if data.get("version") != VERSION:
            raise ToolkitError("The program was stopped by another version of ahvn_tools. Run it again.")
        unpacker = zlib.decompressobj()
        snapshot = unpacker.decompress(base64.b64decode(data["snapshot"]), MAX_SNAPSHOT_BYTES)
        state = ProgramState(**{field.name: data[field.name] for field in fields(ProgramState)})
        state.finish_call = None if data["finish_call"] is None else ProgramCall(**data["finish_call"])
        state.contents = dict(data["contents"])
        state.waiting = {int(key): ProgramCall(**call) for key, call in data["waiting"].items()}
        functions = {name: ProgramFunction(tool=tool, fingerprint=f) for name, (tool, f) in data["functions"].items()}
        return cls(
            **{name: data[name] for name in _TEXTS},
            snapshot=snapshot,
            state=state,
            functions=functions,
            requests={int(key): request for key, request in data["requests"].items()},
        )

    @property
    def expires_at(self) -> int | None:
        """When the last of its requests expires, in seconds since 1970 (UTC); None: never."""
        ends = [request["expires_at"] for request in self.requests.values()]
        return None if None in ends else max(ends)

    def has_expired(self, now: float) -> bool:
        """Return whether it can no longer continue: later it is not known any more whether it has."""
        return self.expires_at is not None and now >= self.expires_at

    def find_call(self, request_id: str) -> int:
        """Return the id, in the sandbox, of the call that a request is for."""
        return next(key for key, request in self.requests.items() if request["id"] == request_id)


@dataclass(frozen=True, kw_only=True)
class ProgramDecision:
    """A person's decision on one call of a program, or the result of an external call."""

    arguments: JsonObject
    """The arguments of the call, as approved."""
    is_call_approved: bool
    approved_questions: tuple[str, ...]
    rejection: str | None = None
    """What the program reads of a call that does not run; None: it was approved."""
    supplied: Any = None
    """The Outcome of an external call; None for others."""


@dataclass(kw_only=True)
class ResumedProgram:
    """A program with a person's decisions, with which it continues once."""

    program: SavedProgram
    decisions: Mapping[int, ProgramDecision]
    """By the ids of the calls in the sandbox. The other calls go on waiting."""
    has_continued: bool = False
