"""SavedProgram: a program that waits for an approval, as JSON data inside of the signed request."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from ahvn_tools.code_mode.program_state import ProgramCall, ProgramState
from ahvn_tools.errors import ToolkitError
from ahvn_tools.json_types import JsonObject

VERSION: Final = 1
_MAX_BYTES: Final = 50_000_000
"""How large the state of a program is at most, when it is unpacked."""


@dataclass(frozen=True, kw_only=True)
class SavedProgram:
    """A program that waits for an approval of one of its calls."""

    call_id: str
    """The call of the program as a whole."""
    tool: str
    """The name of the tool that runs programs."""
    code: str
    sandbox: str
    """The version of the sandbox."""
    snapshot: bytes
    state: ProgramState
    functions: Mapping[str, str]
    """The names of the tools, by those that the program uses for them."""
    asked: int
    """The id, in the sandbox, of the call that needs the approval."""

    def to_json(self) -> JsonObject:
        """Return JSON data."""
        waiting = {str(key): asdict(call) for key, call in self.state.waiting.items()}
        return {
            "version": VERSION,
            "call_id": self.call_id,
            "tool": self.tool,
            "code": self.code,
            "sandbox": self.sandbox,
            "snapshot": base64.b64encode(zlib.compress(self.snapshot)).decode(),
            "awaits": self.state.awaits,
            "calls_made": self.state.calls_made,
            "output": self.state.output,
            "is_output_cut": self.state.is_output_cut,
            "contents": self.state.contents,
            "waiting": waiting,
            "functions": dict(self.functions),
            "asked": self.asked,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the program. The data was signed, so only its version may be another one."""
        if data["version"] != VERSION:
            raise ToolkitError("This program was saved by another version of ahvn_tools. Ask for the call again.")
        unpacker = zlib.decompressobj()
        snapshot = unpacker.decompress(base64.b64decode(data["snapshot"]), _MAX_BYTES)
        state = ProgramState(
            awaits=data["awaits"],
            calls_made=data["calls_made"],
            output=data["output"],
            is_output_cut=data["is_output_cut"],
            contents=data["contents"],
            waiting={int(key): ProgramCall(**call) for key, call in data["waiting"].items()},
        )
        return cls(
            call_id=data["call_id"],
            tool=data["tool"],
            code=data["code"],
            sandbox=data["sandbox"],
            snapshot=snapshot,
            state=state,
            functions=data["functions"],
            asked=data["asked"],
        )

    @property
    def asked_call(self) -> ProgramCall:
        """The call that needs the approval."""
        return self.state.waiting[self.asked]


@dataclass(frozen=True, kw_only=True)
class ResumedProgram:
    """A program with a person's decision."""

    program: SavedProgram
    arguments: JsonObject
    """The arguments of the call that was asked for, as approved."""
    is_call_approved: bool
    approved_questions: tuple[str, ...]
    rejection: str | None = None
    """What the program reads of a rejected call; None: it was approved."""
