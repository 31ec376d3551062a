"""RequestSigner: signs approval requests, and checks that they are unchanged."""

from __future__ import annotations

from typing import Final, Protocol

from ahvn_tools.json_types import JsonObject
from ahvn_tools.secret_key import SecretKey

_REQUEST_PURPOSE: Final = "approval request"
_PROGRAM_PURPOSE: Final = "program of an approval request"


class SignedRequest(Protocol):
    """An approval request, whose attributes are JSON data."""

    @property
    def program(self) -> JsonObject | None:
        """The saved program that has made the call."""

    @property
    def signature(self) -> str:
        """The signature of all other attributes."""


class RequestSigner:
    """Signs and checks requests with the key of a toolkit. The program that several requests share is read once."""

    def __init__(self, key: SecretKey) -> None:
        self._key = key
        self._digests: dict[int, tuple[JsonObject, str]] = {}
        """Programs with their digests, by the ids of the objects."""

    def sign(self, request: SignedRequest) -> str:
        """Return the signature of a request."""
        return self._key.digest(_REQUEST_PURPOSE, self._signed_data(request))

    def has_signed(self, request: SignedRequest) -> bool:
        """Return whether the request is unchanged since a toolkit with this key made it."""
        try:
            return self._key.is_digest(request.signature, _REQUEST_PURPOSE, self._signed_data(request))
        except (TypeError, ValueError, RecursionError):  # arguments that are not JSON
            return False

    def _signed_data(self, request: SignedRequest) -> JsonObject:
        """Return all attributes but the signature, with the digest of the program."""
        data = {name: value for name, value in vars(request).items() if name != "signature"}
        return data if request.program is None else {**data, "program": self._program_digest(request.program)}

    def _program_digest(self, program: JsonObject) -> str:
        if id(program) not in self._digests:
            self._digests[id(program)] = program, self._key.digest(_PROGRAM_PURPOSE, program)
        return self._digests[id(program)][1]
