"""The one token that a server's clients share."""

from __future__ import annotations

import hashlib
import hmac

from fastmcp.server.auth import AccessToken, TokenVerifier


class SharedTokenVerifier(TokenVerifier):
    """Accepts one token, in a time that tells nothing about it."""

    def __init__(self, token: str) -> None:
        """Keep what tells the token, and not the token."""
        super().__init__()
        self._digest = _hash_token(token)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return whose token it is; None for another one."""
        if not hmac.compare_digest(self._digest, _hash_token(token)):
            return None
        return AccessToken(token=token, client_id="shared", scopes=[])


def _hash_token(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
