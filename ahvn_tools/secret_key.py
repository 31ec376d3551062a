"""SecretKey: keyed digests of JSON data, which cannot be made or guessed without the key."""

from __future__ import annotations

import hmac
import json
import secrets
from dataclasses import dataclass, field
from typing import Any, Final, Self

from ahvn_tools.errors import ToolkitError

MIN_KEY_BYTES: Final = 16
"""The minimum length of a key: a shorter one could be found by trying."""


@dataclass(frozen=True, eq=False, slots=True)
class SecretKey:
    """A key for HMAC-SHA-256."""

    _value: bytes = field(repr=False)
    is_random: bool
    """Whether it was generated here; then no other process has it."""

    @classmethod
    def create(cls, key: str | bytes | None, option: str = "secret_key") -> Self:
        """Return the key of an option, a random one for None.

        Raises ToolkitError for a key that is too short, or neither text nor bytes.
        """
        if key is None:
            return cls(secrets.token_bytes(32), is_random=True)
        value = key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key
        if not isinstance(value, bytes) or len(value) < MIN_KEY_BYTES:  # type: ignore[redundant-expr]  # callers may pass anything
            raise ToolkitError(
                f"A {option} is a text or bytes of at least {MIN_KEY_BYTES} bytes; "
                "create one with secrets.token_hex(32) and keep it where your passwords are."
            )
        return cls(value, is_random=False)

    def digest(self, purpose: str, data: Any) -> str:
        """Return the HMAC, in hex, of JSON data. A digest for one purpose is not valid for another."""
        text = json.dumps([purpose, data], sort_keys=True, separators=(",", ":"))
        return hmac.digest(self._value, text.encode(), "sha256").hex()

    def sign(self, *parts: bytes | memoryview) -> bytes:
        """Return the HMAC of the parts, one after the other; the first one names the purpose.

        It is never the digest of JSON data, if the first part does not begin with `[`.
        """
        signature = hmac.new(self._value, digestmod="sha256")
        for part in parts:  # joined, a large part would be in memory twice
            signature.update(part)
        return signature.digest()

    def is_signature(self, signature: bytes, *parts: bytes | memoryview) -> bool:
        """Return whether `signature` was made with this key for these parts."""
        return hmac.compare_digest(self.sign(*parts), signature)

    def is_digest(self, digest: str, purpose: str, data: Any) -> bool:
        """Return whether `digest` was made with this key for this purpose and data."""
        return hmac.compare_digest(self.digest(purpose, data).encode(), digest.encode("utf-8", "surrogatepass"))
