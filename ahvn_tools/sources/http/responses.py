"""What a response becomes: a value, a text, content blocks, or an error for the model."""

from __future__ import annotations

import base64
import codecs
import email.utils
import math
import time
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from email.message import Message
from http import HTTPStatus
from typing import Any

import httpx2
from pydantic_core import from_json

from ahvn_tools.encoders.binary import bytes_block, guess_mime_type
from ahvn_tools.errors import InvalidResultError, ToolError
from ahvn_tools.invisible import escape
from ahvn_tools.redaction.texts import SecretTexts

MAX_ERROR_CHARS = 500
"""An error shows the model at most this much of the body."""

_TEXT_TYPES = frozenset({
    "application/graphql", "application/javascript", "application/sql", "application/toml", "application/x-ndjson",
    "application/x-www-form-urlencoded", "application/x-yaml", "application/xml", "application/yaml", "image/svg+xml",
})  # fmt: skip

UNAUTHORIZED = 401
_FORBIDDEN = 403
_FIRST_ERROR = 400
_STATUSES_TO_WAIT = frozenset({429, 503})


@dataclass(frozen=True, kw_only=True, repr=False)
class HTTPResponse:
    """A response that was read completely."""

    status: int
    headers: httpx2.Headers
    body: bytes
    """Uncompressed."""

    @property
    def is_error(self) -> bool:
        """Whether the status is that of an error."""
        return self.status >= _FIRST_ERROR

    @property
    def media_type(self) -> str:
        """The media type without parameters; that of bytes without one is guessed, and empty for a text."""
        declared = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        return declared or guess_mime_type(self.body) or ""

    @property
    def text(self) -> str:
        """The body as a text, in its character set; what cannot be decoded is replaced."""
        message = Message()
        message["content-type"] = self.headers.get("content-type", "")
        charset = message.get_param("charset", "utf-8")
        try:
            encoding = codecs.lookup(str(charset)).name
        except LookupError:
            encoding = "utf-8"
        if encoding.startswith("utf-8"):
            encoding = "utf-8-sig"
        try:
            return self.body.decode(encoding, "replace")
        except (LookupError, UnicodeError):  # a codec that is not of texts, such as base64
            return self.body.decode("utf-8", "replace")

    def masked(self, secrets: SecretTexts) -> HTTPResponse:
        """Return the response without the secrets: the service may send back what it got."""
        content_type = self.headers.get("content-type", "")
        media_type = secrets.mask(content_type.partition(";")[0], is_error=True)  # an error shows it
        if not _is_text(self.media_type):
            headers = {**self.headers, "content-type": media_type} if content_type else self.headers
            return replace(self, headers=httpx2.Headers(headers), body=secrets.mask_bytes(self.body))
        masked = secrets.mask(self.text, is_error=self.is_error)
        headers = {**self.headers, "content-type": f"{media_type or 'text/plain'}; charset=utf-8"}
        return replace(self, headers=httpx2.Headers(headers), body=masked.encode("utf-8", "surrogatepass"))


async def read_bounded(chunks: AsyncIterator[bytes], encoding: str, max_bytes: int) -> bytes:
    """Return the uncompressed body. Raises InvalidResultError for more than `max_bytes` and for what is unreadable."""
    encoding = encoding.strip().lower()
    if encoding not in {"", "identity", "gzip", "x-gzip", "deflate"}:
        raise InvalidResultError("The service compressed its response in a way that it was not asked for.")
    inflate = None if encoding in {"", "identity"} else _Inflate()
    parts, size = [], 0
    async for chunk in chunks:
        part = chunk if inflate is None else inflate.decode(chunk, max_bytes + 1 - size)
        size += len(part)
        if size > max_bytes:
            raise InvalidResultError(f"The response of the service is larger than {max_bytes:,} bytes.")
        parts.append(part)
    if inflate is not None and not inflate.is_complete:
        raise InvalidResultError("The compressed response of the service cannot be read.")
    return b"".join(parts)


class _Inflate:
    """Uncompresses gzip and deflate, never more than asked for."""

    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(zlib.MAX_WBITS | 32)  # the headers of gzip and zlib are recognized
        self._has_data = False

    @property
    def is_complete(self) -> bool:
        return self._decoder.eof or not self._has_data

    def decode(self, chunk: bytes, max_bytes: int) -> bytes:
        """Return the data of the next chunk; at most `max_bytes`, of which there may be more."""
        self._has_data = self._has_data or bool(chunk)
        try:
            return self._decoder.decompress(chunk, max_bytes)
        except zlib.error:
            raise InvalidResultError("The compressed response of the service cannot be read.") from None


def to_value(response: HTTPResponse, *, wants_json: bool) -> Any:
    """Return what the tool returns: the JSON value, the text, or an MCP block of other data; None for nothing.

    `wants_json`: the tool has an output schema. Raises InvalidResultError for a response that is not JSON then.
    """
    if not response.body:
        return None
    media_type = response.media_type
    is_json, is_text = _is_json(media_type), _is_text(media_type)
    if is_json or (wants_json and is_text):
        return _parse_json(response, media_type)
    if wants_json:
        raise InvalidResultError(f"The service answered with {_shown(media_type)} instead of JSON.")
    if is_text:
        return response.text
    return bytes_block(base64.b64encode(response.body).decode(), media_type)


def _parse_json(response: HTTPResponse, media_type: str) -> Any:
    try:
        return from_json(response.text, allow_inf_nan=False)
    except ValueError:
        kind = f" ({_shown(media_type)})" if media_type else ""
        raise InvalidResultError(f"The response of the service{kind} is not valid JSON.") from None


def retry_after_seconds(header: str | None) -> float | None:
    """Return the seconds that a `Retry-After` asks to wait; None if there is none that can be read."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header.strip()[:10])
    try:
        moment = email.utils.parsedate_to_datetime(header)
    except (TypeError, ValueError):
        return None
    return max(0.0, moment.timestamp() - time.time())


def status_error(response: HTTPResponse, *, has_credentials: bool) -> ToolError:
    """Return the error about a status, with a part of the body."""
    status = response.status
    reason = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""
    head = f"HTTP {status} {reason}".strip()
    if status == UNAUTHORIZED or (status == _FORBIDDEN and has_credentials):
        subject = "refused the credentials of the tool's host" if has_credentials else "requires credentials"
        head += f": the service {subject}"
        head += "" if has_credentials else ", which the tool's host has not provided"
    if (
        status in _STATUSES_TO_WAIT
        and (seconds := retry_after_seconds(response.headers.get("retry-after"))) is not None
    ):
        head += f": try again in {math.ceil(seconds)} seconds"
    shown = _shown(response.text) if _is_text(response.media_type) else ""
    if shown.removesuffix(".").removeprefix(f"{status} ").lower() == reason.lower():
        shown = ""  # many services answer with the name of the status only
    return ToolError(f"{head}: {shown}" if shown else f"{head}.")


def _is_json(media_type: str) -> bool:
    return media_type == "application/json" or media_type.endswith("+json")


def _is_text(media_type: str) -> bool:
    """Return whether data of a type is a text that a model can read."""
    is_listed = media_type in _TEXT_TYPES or media_type.endswith("+xml")
    return not media_type or media_type.startswith("text/") or is_listed or _is_json(media_type)


def _shown(text: str) -> str:
    """Return a part of a text from the service, in one line, with invisible characters escaped."""
    part = " ".join(escape(text[: 4 * MAX_ERROR_CHARS]).split())
    if len(part) <= MAX_ERROR_CHARS and len(text) <= 4 * MAX_ERROR_CHARS:
        return part
    return f"{part[:MAX_ERROR_CHARS]}… (the beginning of {len(text):,} characters)"
