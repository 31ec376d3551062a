"""ToolResponse: what a tool returns or yields; and ResponseStream: all that one call yields."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass, field
from typing import Any, Self

from ahvn_tools.compat.agentscope.message import OutputBlock, local_time


def create_id() -> str:
    """Return the local time to the millisecond and six random hexadecimal digits."""
    return f"{local_time()}_{secrets.token_hex(3)}"


@dataclass
class ToolResponse:
    """Content blocks, and metadata for the host; each response of a streaming tool replaces the one before.

    >>> from ahvn_tools.compat.agentscope import TextBlock, ToolResponse
    >>> ToolResponse([TextBlock(type="text", text="3")]).content
    [{'type': 'text', 'text': '3'}]
    """

    content: list[OutputBlock]

    metadata: dict[str, Any] | None = None
    """Data for the host; models do not read it."""

    stream: bool = False
    """Whether the response is one of several."""

    is_last: bool = True

    is_interrupted: bool = False
    """Whether the call was cancelled before its end."""

    id: str = field(default_factory=create_id)
    """When the response was made, and random digits."""


def is_response(value: Any) -> bool:
    """Return whether a value is a response: a ToolResponse of this package, or one of AgentScope itself."""
    kind = type(value)
    return issubclass(kind, ToolResponse) or (
        hasattr(kind, "__dataclass_fields__") and kind.__dataclass_fields__.keys() >= _FIELDS
    )


_FIELDS = ToolResponse.__dataclass_fields__.keys()


def text_response(text: str, **fields: Any) -> ToolResponse:
    """Return a response of one text."""
    return ToolResponse([{"type": "text", "text": text}], **fields)


class ResponseStream(AsyncGenerator[ToolResponse, None]):
    """An async generator that may also be awaited, which returns it. The tool runs while it is iterated."""

    def __init__(self, responses: AsyncGenerator[ToolResponse, None]) -> None:
        self._responses = responses

    def __await__(self) -> Generator[None, None, Self]:
        yield from ()
        return self

    def __anext__(self) -> Any:
        """Return the next response."""
        return self._responses.__anext__()

    def asend(self, value: None) -> Any:
        """Return the next response."""
        return self._responses.asend(value)

    def athrow(self, *error: Any) -> Any:
        """Raise an error at the place where the generator waits."""
        return self._responses.athrow(*error)

    def aclose(self) -> Any:
        """End the call."""
        return self._responses.aclose()
