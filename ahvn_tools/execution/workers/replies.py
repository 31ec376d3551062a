"""What a worker replies to a CallRequest: a kind, and a pickled tuple.

`started` when the body starts, any number of `chunk`, `output`, `progress` and `ask`, and one of `value`, `error`,
`load_failed`, `unpicklable` and `too_large`, which ends the call.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Mapping
from typing import Any, Final

from ahvn_tools.errors import ToolError, exception_text
from ahvn_tools.execution.convert import WorkerTraceback, raised_place
from ahvn_tools.execution.pickling import SizeLimitError, dumps
from ahvn_tools.redaction.texts import SecretTexts, make_mask

FINAL_KINDS: Final = frozenset({b"value", b"error", b"load_failed", b"unpicklable", b"too_large"})

MAX_FRAMES: Final = 50
"""The maximum number of frames of a traceback that is sent, the innermost ones."""

MIN_ERROR_BYTES: Final = 1_000_000
"""An exception may have so many bytes, also if a result may have fewer."""

_FALLBACK_BASES = (ToolError, Exception, SystemExit, KeyboardInterrupt, BaseException)
"""An exception that cannot be unpickled is replaced by one of the first of these types that it is an instance of."""


def encode(kind: str, *payload: Any, max_bytes: int | None = None) -> bytes:
    """Return a reply. Raises what pickling raises, SizeLimitError for a payload of more than `max_bytes`."""
    return kind.encode() + b"\n" + dumps(payload, max_bytes)


def decode(reply: bytes) -> tuple[Any, ...]:
    """Return the kind and the payload. Raises what unpickling raises."""
    kind, _, pickled = reply.partition(b"\n")
    return kind.decode(), *pickle.loads(pickled)  # noqa: S301  # from a process that runs this call


def is_final(reply: bytes) -> bool:
    """Return whether a reply ends its call."""
    return reply.partition(b"\n")[0] in FINAL_KINDS


def is_chunk(reply: bytes) -> bool:
    """Return whether a reply is a chunk: the body waits until the next one is requested."""
    return reply.startswith(b"chunk\n")


def is_output(reply: bytes) -> bool:
    """Return whether a reply is output of the body for the reader."""
    return reply.startswith(b"output\n")


def is_progress(reply: bytes) -> bool:
    """Return whether a reply is progress for the reader."""
    return reply.startswith(b"progress\n")


def is_question(reply: bytes) -> bool:
    """Return whether a reply is a question: the body waits for the answer."""
    return reply.startswith(b"ask\n")


def encode_value(value: Any, *, ends_session: bool, max_bytes: int | None) -> bytes:
    """Return the reply that ends a call with a value, or with what is wrong with it."""
    try:
        return encode("value", ends_session, value, max_bytes=max_bytes)
    except SizeLimitError:
        return encode("too_large", ends_session, max_bytes)
    except Exception as error:  # noqa: BLE001  # a user's __reduce__ may raise anything
        return encode("unpicklable", ends_session, type(value).__name__, type(error).__name__)


def encode_error(
    error: BaseException, hidden: Mapping[str, Any], *, ends_session: bool, max_bytes: int | None
) -> bytes:
    """Return the reply that ends a call with an exception.

    It has the exception, one of the same name and text for callers that cannot unpickle it, its traceback and where it
    was raised. None of them has one of the `hidden` values, which the caller does not know.
    """
    max_error_bytes = None if max_bytes is None else max(max_bytes, MIN_ERROR_BYTES)
    base = next(kind for kind in _FALLBACK_BASES if isinstance(error, kind))
    mask = make_mask(hidden) if hidden else str
    fallback = type(type(error).__name__, (base,), {})(mask(exception_text(error)))
    trace, place = mask("".join(traceback.format_exception(error, limit=-MAX_FRAMES))), raised_place(error)
    if hidden:
        error.args = tuple(mask(argument) if isinstance(argument, str) else argument for argument in error.args)
        error.__traceback__ = error.__context__ = error.__cause__ = None  # tblib, which Dask imports, pickles them
    pickled = _pickle_error(error, max_error_bytes)
    if SecretTexts(hidden).mask_bytes(pickled) != pickled:
        pickled = b""
    try:
        return encode("error", ends_session, pickled, dumps(fallback), trace, place, max_bytes=max_error_bytes)
    except SizeLimitError:
        return encode("too_large", ends_session, max_bytes)


def _pickle_error(error: BaseException, max_bytes: int | None) -> bytes:
    """Return a pickled exception, or nothing if it cannot be pickled."""
    try:
        return dumps(error, max_bytes)
    except Exception:  # noqa: BLE001  # a user's __reduce__ may raise anything
        error.__cause__ = error.__context__ = error.__traceback__ = None  # tblib, which Dask imports, pickles them
    try:
        return dumps(error, max_bytes)
    except Exception:  # noqa: BLE001  # as above
        return b""


def decode_error(pickled: bytes, fallback: bytes, trace: str, place: str) -> BaseException:
    """Return the exception of a reply, or one of the same name and text if it cannot be unpickled.

    Its cause is a WorkerTraceback.
    """
    try:
        error = pickle.loads(pickled)  # noqa: S301  # from the process that ran this call
    except BaseException:  # noqa: BLE001  # a user's __setstate__ may raise anything, SystemExit, too
        error = None
    if not isinstance(error, BaseException):  # a user's __reduce__ may make anything
        error = pickle.loads(fallback)  # noqa: S301  # as above
    error.__cause__ = WorkerTraceback(trace, place)
    return error  # type: ignore[no-any-return]  # an exception


def encode_load_failure(error: BaseException) -> bytes:
    """Return the reply that ends a call whose body or arguments cannot be loaded."""
    return encode("load_failed", False, type(error).__name__, exception_text(error))
