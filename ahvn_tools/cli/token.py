"""Verification of the one token that all clients of a server share."""

from __future__ import annotations

import hashlib
import hmac

from fastmcp.server.auth import AccessToken, TokenVerifier


class SharedTokenVerifier(TokenVerifier):
    """Accepts one token. The comparison takes the same time for every wrong token."""

    def __init__(self, token: str) -> None:
        """Store a digest of the token, not the token itself."""
        super().__init__()
        self._digest = _hash_token(token)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the access of the shared token; None for another token."""
        if not hmac.compare_digest(self._digest, _hash_token(token)):
            return None
        return AccessToken(token=token, client_id="shared", scopes=[])


def _hash_token(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
