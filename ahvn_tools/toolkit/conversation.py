"""Conversation: the messages of a user and a model, why they stop, and all that is needed to go on."""

from __future__ import annotations

import base64
import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self, TypeAlias, get_args

from ahvn_tools.errors import ToolSpecError, exception_text
from ahvn_tools.formats.parsing.payload import dump_models
from ahvn_tools.formats.turn import NO_USAGE, Usage
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware.pending import PendingRequest
from ahvn_tools.toolkit.run import Run, find_attached
from ahvn_tools.toolkit.structured_output import STRUCTURED_KEY

StopReason: TypeAlias = Literal["answered", "finished", "session_ended", "waiting", "max_turns", "failed"]

_ERROR_KEY: Final = "ahvn_tools_conversation"
"""The attribute of an exception that has the conversation which it has ended."""

_VERSION: Final = 1
_WRONG_DATA: Final = "This is not a saved conversation. Pass the result of `Conversation.to_json()`."


@dataclass(frozen=True, kw_only=True, repr=False)
class Conversation:
    """What `Toolkit.converse` returns: the whole history, and why it stops here.

    Go on with `converse(model, conversation)`; after an answer with a new message of the user,
    `converse(model, conversation.messages + [message])`.
    """

    messages: list[Any] = field(default_factory=list)
    """All messages in the format, those of the model as its provider needs them back."""
    text: str = ""
    """The text of the last answer."""
    stop_reason: StopReason
    """`"answered"`: without calls. `"finished"`: by a tool with `finish_with`. `"session_ended"`: by a tool.
    `"waiting"`: for what is in `pending`. `"max_turns"`: the last results are not answered. `"failed"`: an exception
    was raised."""
    run: Run | None = None
    """The calls of the last answer; None before the first one."""
    turns: int = 0
    """How many answers the model has given."""
    usage: Usage = NO_USAGE
    """The tokens of all answers, those that were asked for again included."""
    format: str | None = None
    """The format of the messages; None while no answer has shown it."""

    @property
    def pending(self) -> list[PendingRequest]:
        """What the conversation waits for."""
        return [] if self.run is None else self.run.pending

    @property
    def structured(self) -> Any:
        """The instance of the model that was passed to `finish_with`, from JSON its data; None without one."""
        results = [] if self.run is None else self.run.results
        return next((result.meta[STRUCTURED_KEY] for _, result in results if STRUCTURED_KEY in result.meta), None)

    def __repr__(self) -> str:
        waiting = f" for {len(self.pending)}" if self.pending else ""
        return f"<Conversation of {len(self.messages)} messages, {self.stop_reason}{waiting}>"

    @classmethod
    def from_error(cls, error: BaseException) -> Self | None:
        """Return the conversation up to an exception that `converse` has raised; None for any other exception.

        It has the results of the calls that had ended. Those that were interrupted have the code `cancelled`. As with
        `Run.from_error`, the exception may be one that replaces a CancelledError.

        None for a RequestUsedError, too: a newer conversation may have been saved since.
        """
        found: Self | None = find_attached(error, _ERROR_KEY)
        return found

    def attach_to(self, error: BaseException) -> None:
        """Let `from_error` return this conversation for an exception.

        A note says so, and repeats the exception: logs may show the last line of a traceback alone.
        """
        if _ERROR_KEY not in vars(error):
            text = " ".join(exception_text(error).split())
            about = f"{type(error).__name__}: {text}" if text else type(error).__name__
            error.add_note(f"The conversation up to here is Conversation.from_error(error). The error is {about}")
        vars(error)[_ERROR_KEY] = self

    def to_json(self) -> JsonObject:
        """Return the conversation as JSON data, to go on after a restart. It contains no bound values.

        It contains the messages as they are, so what the user and the model have written, and what `Run.to_json` does.
        Raises ToolSpecError for a message that has no JSON form.
        """
        bytes_at: list[list[str | int]] = []
        return {
            "version": _VERSION,
            "messages": _pack(self.messages, [], bytes_at),
            "bytes_at": bytes_at,
            "text": self.text,
            "stop_reason": self.stop_reason,
            "run": None if self.run is None else self.run.to_json(),
            "turns": self.turns,
            "usage": vars(self.usage),
            "format": self.format,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the conversation that `to_json` exported. Raises ToolSpecError for any other data.

        >>> Conversation.from_json(Conversation(stop_reason="answered").to_json())
        <Conversation of 0 messages, answered>
        """
        try:
            if data["version"] != _VERSION or data["stop_reason"] not in get_args(StopReason):
                raise ToolSpecError(_WRONG_DATA)
            messages, name = copy.deepcopy(data["messages"]), data["format"]
            if not (isinstance(messages, list) and isinstance(name, str | None)):
                raise ToolSpecError(_WRONG_DATA)
            for path in data["bytes_at"]:
                _decode_bytes(messages, path)
            return cls(
                messages=messages,
                text=str(data["text"]),
                stop_reason=data["stop_reason"],
                run=None if data["run"] is None else Run.from_json(data["run"]),
                turns=int(data["turns"]),
                usage=Usage(**{name: int(count) for name, count in data["usage"].items()}),
                format=name,
            )
        except (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError, RecursionError):
            raise ToolSpecError(_WRONG_DATA) from None


def _pack(value: Any, path: list[str | int], bytes_at: list[list[str | int]]) -> Any:
    """Return a copy of a value as JSON data: bytes in base64, whose paths are added to `bytes_at`."""
    if isinstance(value, bytes):
        bytes_at.append(path)
        return base64.b64encode(value).decode()
    if hasattr(value, "model_dump"):
        value = {key: item for key, item in dump_models(value).items() if item is not None}
    if isinstance(value, Mapping):
        return {str(key): _pack(item, [*path, str(key)], bytes_at) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_pack(item, [*path, index], bytes_at) for index, item in enumerate(value)]
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    what = f"the number {value}" if isinstance(value, float) else f"a {type(value).__name__}"
    raise ToolSpecError(f"A message contains {what}, which has no JSON form. Pass dicts, or objects of the SDK.")


def _decode_bytes(messages: Any, path: Sequence[str | int]) -> None:
    """Put the bytes in place of their base64 at a path."""
    *parents, last = path
    for key in parents:
        messages = messages[key]
    messages[last] = base64.b64decode(messages[last], validate=True)
